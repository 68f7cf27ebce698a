// GPT-2 (Radford et al. 2019) and DistilGPT2 (Sanh et al. 2019): pre-norm, learned positions, fused q, k, v, tied
// embeddings. Linear weights are Conv1D in Hugging Face's files, [in, out].
#include <algorithm>
#include <cmath>

#include "model/config_keys.h"

namespace nascent {
namespace {

// The four published sizes hold 50,257 tokens and 1,024 positions.
TransformerSpec sizes(std::int64_t width, std::int64_t layers, std::int64_t heads) {
  TransformerSpec spec;
  spec.vocab = 50257;
  spec.context = 1024;
  spec.width = width;
  spec.layers = layers;
  spec.heads = heads;
  return spec;
}

// The weights that write to the residual stream are drawn smaller by the root of how many of them there are.
void complete(TransformerSpec& spec) {
  if (spec.init_std == 0) spec.init_std = 0.02;
  if (spec.hidden == 0) spec.hidden = 4 * std::clamp<std::int64_t>(spec.width, 0, TransformerSpec::kMostWidth);
  spec.init_residual_std = spec.init_std / std::sqrt(2.0 * static_cast<double>(spec.layers));
}

const ConfigKeys& keys() {
  using S = TransformerSpec;
  using Key = ConfigKey;
  static const ConfigKeys keys = {{"vocab_size", &S::vocab, 50257},
                                  {"n_positions", &S::context, 1024},
                                  {"n_embd", &S::width, 768},
                                  {"n_layer", &S::layers, 12},
                                  {"n_head", &S::heads, 12},
                                  {"n_inner", &S::hidden, nullptr},
                                  {"activation_function", &S::activation, "gelu_new"},
                                  {"layer_norm_epsilon", &S::norm_eps, 1e-5},
                                  {"initializer_range", &S::init_std, 0.02},
                                  {"resid_pdrop", Key::Written{}, 0.0},
                                  {"embd_pdrop", Key::Written{}, 0.0},
                                  {"attn_pdrop", Key::Written{}, 0.0},
                                  {"scale_attn_weights", Key::Fixed{}, true},
                                  {"scale_attn_by_inverse_layer_idx", Key::Fixed{}, false},
                                  {"reorder_and_upcast_attn", Key::Written{}, false},
                                  {"tie_word_embeddings", Key::Fixed{}, true}};
  return keys;
}

const RegisterFamily registered{Family{
    .name = "gpt2",
    .model_type = "gpt2",
    .base = TransformerSpec(),
    .presets = {{"distilgpt2", sizes(768, 6, 12)},
                {"gpt2", sizes(768, 12, 12)},
                {"gpt2-medium", sizes(1024, 24, 16)},
                {"gpt2-large", sizes(1280, 36, 20)},
                {"gpt2-xl", sizes(1600, 48, 25)}},
    .complete = complete,
    .tensors = {{"embed.weight", "transformer.wte.weight"},
                {"pos_embed.weight", "transformer.wpe.weight"},
                {"blocks.{}.ln1.weight", "transformer.h.{}.ln_1.weight"},
                {"blocks.{}.ln1.bias", "transformer.h.{}.ln_1.bias"},
                {"blocks.{}.attn.qkv.weight", "transformer.h.{}.attn.c_attn.weight", Layout::kTransposed},
                {"blocks.{}.attn.qkv.bias", "transformer.h.{}.attn.c_attn.bias"},
                {"blocks.{}.attn.out.weight", "transformer.h.{}.attn.c_proj.weight", Layout::kTransposed},
                {"blocks.{}.attn.out.bias", "transformer.h.{}.attn.c_proj.bias"},
                {"blocks.{}.ln2.weight", "transformer.h.{}.ln_2.weight"},
                {"blocks.{}.ln2.bias", "transformer.h.{}.ln_2.bias"},
                {"blocks.{}.mlp.in.weight", "transformer.h.{}.mlp.c_fc.weight", Layout::kTransposed},
                {"blocks.{}.mlp.in.bias", "transformer.h.{}.mlp.c_fc.bias"},
                {"blocks.{}.mlp.out.weight", "transformer.h.{}.mlp.c_proj.weight", Layout::kTransposed},
                {"blocks.{}.mlp.out.bias", "transformer.h.{}.mlp.c_proj.bias"},
                {"ln_final.weight", "transformer.ln_f.weight"},
                {"ln_final.bias", "transformer.ln_f.bias"}},
    .ignored = {".attn.bias", ".attn.masked_bias", "lm_head.weight"},
    .to_config = [](const TransformerSpec& spec) { return write_config(spec, "GPT2LMHeadModel", "gpt2", keys()); },
    .from_config = [](const JsonObject& config) { return read_config(config, TransformerSpec(), keys()); },
}};

}  // namespace
}  // namespace nascent
