// OLMo 2 (Walsh et al. 2024): a Llama whose root mean square norms stand after attention and MLP, on what they add to the stream,
// and on all queries and on all keys of a position.
#include "model/llama_like.h"

namespace nascent {
namespace {

TransformerSpec base() {
  TransformerSpec spec = llama_base();
  spec.norm_place = NormPlace::kPost;
  spec.qk_norm = true;
  spec.norm_eps = 1e-6;
  spec.rotary_base = 500000;
  return spec;
}

const ConfigKeys& keys() {
  static const ConfigKeys keys = llama_keys(50304, {{"rms_norm_eps", &TransformerSpec::norm_eps, 1e-5}});
  return keys;
}

std::vector<TensorName> tensors() {
  std::vector<TensorName> names = llama_tensors();
  names.push_back({"blocks.{}.attn.q_norm.weight", "model.layers.{}.self_attn.q_norm.weight"});
  names.push_back({"blocks.{}.attn.k_norm.weight", "model.layers.{}.self_attn.k_norm.weight"});
  names.push_back({"blocks.{}.ln1.weight", "model.layers.{}.post_attention_layernorm.weight"});
  names.push_back({"blocks.{}.ln2.weight", "model.layers.{}.post_feedforward_layernorm.weight"});
  return names;
}

const RegisterFamily registered{Family{
    .name = "olmo2",
    .model_type = "olmo2",
    .base = base(),
    .presets = {{"1b", with_sizes(base(), {100352, 4096, 2048, 8192, 16, 16})},
                {"7b", with_sizes(base(), {100352, 4096, 4096, 11008, 32, 32})}},
    .complete = complete_llama,
    .tensors = tensors(),
    .ignored = llama_ignored(),
    .to_config = [](const TransformerSpec& spec) { return write_config(spec, "Olmo2ForCausalLM", "olmo2", keys()); },
    .from_config = [](const JsonObject& config) { return read_llama_config(config, base(), keys()); },
}};

}  // namespace
}  // namespace nascent
