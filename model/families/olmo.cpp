// OLMo (Groeneveld et al. 2024): a Llama whose layer norms have neither weight nor bias; queries, keys and values can be clipped.
#include "model/llama_like.h"

namespace nascent {
namespace {

// The norm's epsilon is transformers' constant.
TransformerSpec base() {
  TransformerSpec spec = llama_base();
  spec.norm = NormKind::kLayerPlain;
  spec.norm_eps = 1e-5;
  return spec;
}

TransformerSpec olmo_1b() {
  TransformerSpec spec = with_sizes(base(), {50304, 2048, 2048, 8192, 16, 16});
  spec.tied = true;
  return spec;
}

const ConfigKeys& keys() {
  static const ConfigKeys keys = llama_keys(50304, {{"clip_qkv", &TransformerSpec::clip_qkv, nullptr}});
  return keys;
}

const RegisterFamily registered{Family{
    .name = "olmo",
    .model_type = "olmo",
    .base = base(),
    .presets = {{"1b", olmo_1b()}, {"7b", with_sizes(base(), {50304, 2048, 4096, 11008, 32, 32})}},
    .complete = complete_llama,
    .tensors = llama_tensors(),
    .ignored = llama_ignored(),
    .to_config = [](const TransformerSpec& spec) { return write_config(spec, "OlmoForCausalLM", "olmo", keys()); },
    .from_config = [](const JsonObject& config) { return read_llama_config(config, base(), keys()); },
}};

}  // namespace
}  // namespace nascent
