// GPT-2 (Radford et al. 2019) and DistilGPT2 (Sanh et al. 2019): pre-norm, learned positions, fused q, k, v, tied
// embeddings. Linear weights are Conv1D in Hugging Face's files, [in, out].
#include <algorithm>
#include <cmath>

#include "kernels/error.h"
#include "model/family.h"

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

JsonObject to_config(const TransformerSpec& spec) {
  JsonObject c;
  c.set("architectures", std::vector<std::string>{"GPT2LMHeadModel"});
  c.set("model_type", "gpt2");
  c.set("vocab_size", spec.vocab);
  c.set("n_positions", spec.context);
  c.set("n_embd", spec.width);
  c.set("n_layer", spec.layers);
  c.set("n_head", spec.heads);
  c.set("n_inner", spec.hidden);
  c.set("activation_function", spec.activation == Activation::kGeluTanh ? "gelu_new" : "gelu");
  c.set("layer_norm_epsilon", spec.norm_eps);
  c.set("initializer_range", spec.init_std);
  for (const char* dropout : {"resid_pdrop", "embd_pdrop", "attn_pdrop"}) c.set(dropout, 0.0);
  c.set("scale_attn_weights", true);
  c.set("scale_attn_by_inverse_layer_idx", false);
  c.set("reorder_and_upcast_attn", false);
  c.set("tie_word_embeddings", true);
  c.set("use_cache", true);
  if (spec.bos_id >= 0) c.set("bos_token_id", spec.bos_id);
  if (spec.eos_id >= 0) c.set("eos_token_id", spec.eos_id);
  c.set("torch_dtype", "float32");
  return c;
}

TransformerSpec from_config(const JsonObject& c) {
  TransformerSpec spec = sizes(c.integer("n_embd", 768), c.integer("n_layer", 12), c.integer("n_head", 12));
  spec.vocab = c.integer("vocab_size", 50257);
  spec.context = c.integer("n_positions", 1024);
  spec.hidden = c.integer("n_inner", 0);
  spec.norm_eps = c.number("layer_norm_epsilon", 1e-5);
  spec.init_std = c.number("initializer_range", 0.02);
  spec.bos_id = c.integer("bos_token_id", -1);
  spec.eos_id = c.integer("eos_token_id", -1);
  const std::string activation = c.text("activation_function", "gelu_new");
  if (activation != "gelu_new" && activation != "gelu") {
    throw input_error("{}: activation_function is \"{}\", expected \"gelu_new\" or \"gelu\"", c.where(), activation);
  }
  spec.activation = activation == "gelu" ? Activation::kGeluErf : Activation::kGeluTanh;
  const auto refuse = [&](const char* key, bool expected) {
    if (c.boolean(key, expected) != expected) {
      throw input_error("{}: {} = {} is not supported, expected {}", c.where(), key, !expected, expected);
    }
  };
  refuse("tie_word_embeddings", true);
  refuse("scale_attn_weights", true);
  refuse("scale_attn_by_inverse_layer_idx", false);
  return spec;
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
    .to_config = to_config,
    .from_config = from_config,
}};

}  // namespace
}  // namespace nascent
