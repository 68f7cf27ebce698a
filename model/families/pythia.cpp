// Pythia (Biderman et al. 2023), which is GPT-NeoX (Black et al. 2022): attention and MLP in parallel, rotary positions on a quarter of
// each head, exact GELU, untied embeddings. Initialized as GPT-NeoX does it: small_init (Nguyen & Salazar 2019) and, for what
// writes to the residual stream, wang_init (Wang & Komatsuzaki 2021).
#include <algorithm>
#include <cmath>

#include "model/config_keys.h"

namespace nascent {
namespace {

TransformerSpec base() {
  TransformerSpec spec;
  spec.activation = Activation::kGeluErf;
  spec.positions = Positions::kRotary;
  spec.rotary_fraction = 0.25;
  spec.parallel = true;
  spec.tied = false;
  spec.init_std = spec.init_residual_std = 0;  // they follow from the sizes
  return spec;
}

TransformerSpec sizes(std::int64_t width, std::int64_t layers, std::int64_t heads, std::int64_t context = 2048) {
  TransformerSpec spec = base();
  spec.vocab = 50304;
  spec.context = context;
  spec.width = width;
  spec.layers = layers;
  spec.heads = heads;
  return spec;
}

void complete(TransformerSpec& spec) {
  const double width = static_cast<double>(spec.width), layers = static_cast<double>(spec.layers);
  if (spec.hidden == 0) spec.hidden = 4 * std::clamp<std::int64_t>(spec.width, 0, TransformerSpec::kMostWidth);
  if (spec.init_std == 0) spec.init_std = std::sqrt(2 / (5 * width));
  if (spec.init_residual_std == 0) spec.init_residual_std = 2 / (layers * std::sqrt(width));
}

const ConfigKeys& keys() {
  using S = TransformerSpec;
  using Key = ConfigKey;
  static const ConfigKeys keys = {{"vocab_size", &S::vocab, 50432},
                                  {"max_position_embeddings", &S::context, 2048},
                                  {"hidden_size", &S::width, 6144},
                                  {"num_hidden_layers", &S::layers, 44},
                                  {"num_attention_heads", &S::heads, 64},
                                  {"intermediate_size", &S::hidden, nullptr},
                                  {"hidden_act", &S::activation, "gelu"},
                                  {"layer_norm_eps", &S::norm_eps, 1e-5},
                                  {"rotary_pct", &S::rotary_fraction, 0.25, "rope_parameters.partial_rotary_factor"},
                                  {"rotary_emb_base", &S::rotary_base, 10000.0, "rope_parameters.rope_theta"},
                                  {"rope_parameters.rope_type", Key::Checked{}, "default"},
                                  {"rope_scaling.rope_type", Key::Checked{}, "default"},
                                  {"rope_scaling.type", Key::Checked{}, "default"},
                                  {"use_parallel_residual", &S::parallel, true},
                                  {"attention_bias", Key::Fixed{}, true},
                                  {"attention_dropout", Key::Written{}, 0.0},
                                  {"hidden_dropout", Key::Written{}, 0.0},
                                  {"initializer_range", Key::Written{}, 0.02},
                                  {"tie_word_embeddings", &S::tied, false}};
  return keys;
}

const RegisterFamily registered{Family{
    .name = "pythia",
    .model_type = "gpt_neox",
    .base = base(),
    .presets = {{"14m", sizes(128, 6, 4, 512)},
                {"31m", sizes(256, 6, 8, 1024)},
                {"70m", sizes(512, 6, 8)},
                {"160m", sizes(768, 12, 12)},
                {"410m", sizes(1024, 24, 16)},
                {"1b", sizes(2048, 16, 8)}},
    .complete = complete,
    .tensors = {{"embed.weight", "gpt_neox.embed_in.weight"},
                {"blocks.{}.ln1.weight", "gpt_neox.layers.{}.input_layernorm.weight"},
                {"blocks.{}.ln1.bias", "gpt_neox.layers.{}.input_layernorm.bias"},
                {"blocks.{}.attn.qkv.weight", "gpt_neox.layers.{}.attention.query_key_value.weight", Layout::kHeadwise},
                {"blocks.{}.attn.qkv.bias", "gpt_neox.layers.{}.attention.query_key_value.bias", Layout::kHeadwise},
                {"blocks.{}.attn.out.weight", "gpt_neox.layers.{}.attention.dense.weight"},
                {"blocks.{}.attn.out.bias", "gpt_neox.layers.{}.attention.dense.bias"},
                {"blocks.{}.ln2.weight", "gpt_neox.layers.{}.post_attention_layernorm.weight"},
                {"blocks.{}.ln2.bias", "gpt_neox.layers.{}.post_attention_layernorm.bias"},
                {"blocks.{}.mlp.in.weight", "gpt_neox.layers.{}.mlp.dense_h_to_4h.weight"},
                {"blocks.{}.mlp.in.bias", "gpt_neox.layers.{}.mlp.dense_h_to_4h.bias"},
                {"blocks.{}.mlp.out.weight", "gpt_neox.layers.{}.mlp.dense_4h_to_h.weight"},
                {"blocks.{}.mlp.out.bias", "gpt_neox.layers.{}.mlp.dense_4h_to_h.bias"},
                {"ln_final.weight", "gpt_neox.final_layer_norm.weight"},
                {"ln_final.bias", "gpt_neox.final_layer_norm.bias"},
                {"unembed.weight", "embed_out.weight", Layout::kPlain, "lm_head.weight"}},
    .ignored = {".attention.bias", ".attention.masked_bias", ".rotary_emb.inv_freq"},
    .to_config =
        [](const TransformerSpec& spec) { return write_config(spec, "GPTNeoXForCausalLM", "gpt_neox", keys()); },
    .from_config = [](const JsonObject& config) { return read_config(config, base(), keys()); },
}};

}  // namespace
}  // namespace nascent
