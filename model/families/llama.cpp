// Llama (Touvron et al. 2023) and models that are one: SmolLM2 (Allal et al. 2025), Gaperon (Godey et al. 2025). A root mean square
// norm before attention and before the MLP.
#include "model/llama_like.h"

namespace nascent {
namespace {

TransformerSpec base() {
  TransformerSpec spec = llama_base();
  spec.norm_eps = 1e-5;
  return spec;
}

TransformerSpec smollm2(std::int64_t width, std::int64_t hidden, std::int64_t layers, std::int64_t heads,
                        std::int64_t key_value_heads, double rotary_base, double init_std) {
  TransformerSpec spec = with_sizes(base(), {49152, 8192, width, hidden, layers, heads, key_value_heads});
  spec.rotary_base = rotary_base;
  spec.init_std = init_std;
  spec.tied = true;
  return spec;
}

TransformerSpec gaperon() {
  TransformerSpec spec = with_sizes(base(), {128256, 4096, 2048, 8192, 16, 32, 8});
  spec.rotary_base = 500000;
  return spec;
}

const ConfigKeys& keys() {
  static const ConfigKeys keys =
      llama_keys(32000, {{"rms_norm_eps", &TransformerSpec::norm_eps, 1e-6}, {"mlp_bias", ConfigKey::Fixed{}, false}});
  return keys;
}

std::vector<TensorName> tensors() {
  std::vector<TensorName> names = llama_tensors();
  names.push_back({"blocks.{}.ln1.weight", "model.layers.{}.input_layernorm.weight"});
  names.push_back({"blocks.{}.ln2.weight", "model.layers.{}.post_attention_layernorm.weight"});
  return names;
}

const RegisterFamily registered{Family{
    .name = "llama",
    .model_type = "llama",
    .base = base(),
    .presets = {{"smollm2-135m", smollm2(576, 1536, 30, 9, 3, 100000, 1.0 / 24)},
                {"smollm2-360m", smollm2(960, 2560, 32, 15, 5, 100000, 0.02)},
                {"smollm2-1.7b", smollm2(2048, 8192, 24, 32, 32, 130000, 0.02)},
                {"gaperon-1.5b", gaperon()}},
    .complete = complete_llama,
    .tensors = tensors(),
    .ignored = llama_ignored(),
    .to_config = [](const TransformerSpec& spec) { return write_config(spec, "LlamaForCausalLM", "llama", keys()); },
    .from_config = [](const JsonObject& config) { return read_llama_config(config, base(), keys()); },
}};

}  // namespace
}  // namespace nascent
