#include "model/llama_like.h"

#include <algorithm>

#include "kernels/error.h"

namespace nascent {

TransformerSpec llama_base() {
  TransformerSpec spec;
  spec.activation = Activation::kSwiGlu;
  spec.norm = NormKind::kRms;
  spec.biases = false;
  spec.positions = Positions::kRotary;
  spec.tied = false;
  return spec;
}

TransformerSpec with_sizes(TransformerSpec spec, const LlamaSizes& sizes) {
  spec.vocab = sizes.vocab;
  spec.context = sizes.context;
  spec.width = sizes.width;
  spec.hidden = sizes.hidden;
  spec.layers = sizes.layers;
  spec.heads = sizes.heads;
  spec.key_value_heads = sizes.key_value_heads;
  return spec;
}

void complete_llama(TransformerSpec& spec) {
  spec.key_value_heads = spec.groups();
  const std::int64_t width = std::clamp<std::int64_t>(spec.width, 0, TransformerSpec::kMostWidth);
  if (spec.hidden == 0) spec.hidden = (width * 8 / 3 + 7) / 8 * 8;
  spec.init_residual_std = spec.init_std;
}

std::vector<TensorName> llama_tensors() {
  return {{"embed.weight", "model.embed_tokens.weight"},
          {"blocks.{}.attn.q.weight", "model.layers.{}.self_attn.q_proj.weight"},
          {"blocks.{}.attn.k.weight", "model.layers.{}.self_attn.k_proj.weight"},
          {"blocks.{}.attn.v.weight", "model.layers.{}.self_attn.v_proj.weight"},
          {"blocks.{}.attn.out.weight", "model.layers.{}.self_attn.o_proj.weight"},
          {"blocks.{}.mlp.gate.weight", "model.layers.{}.mlp.gate_proj.weight"},
          {"blocks.{}.mlp.in.weight", "model.layers.{}.mlp.up_proj.weight"},
          {"blocks.{}.mlp.out.weight", "model.layers.{}.mlp.down_proj.weight"},
          {"ln_final.weight", "model.norm.weight"},
          {"unembed.weight", "lm_head.weight"}};
}

std::vector<std::string> llama_ignored() { return {".rotary_emb.inv_freq", "lm_head.weight"}; }

ConfigKeys llama_keys(std::int64_t vocab, const ConfigKeys& own) {
  using S = TransformerSpec;
  using Key = ConfigKey;
  ConfigKeys keys = {{"vocab_size", &S::vocab, vocab},
                     {"max_position_embeddings", &S::context, 2048},
                     {"hidden_size", &S::width, 4096},
                     {"num_hidden_layers", &S::layers, 32},
                     {"num_attention_heads", &S::heads, 32},
                     {"num_key_value_heads", &S::key_value_heads, nullptr},
                     {"intermediate_size", &S::hidden, 11008},
                     {"hidden_act", &S::activation, "silu"},
                     {"rope_theta", &S::rotary_base, 10000.0, "rope_parameters.rope_theta"},
                     {"rope_scaling", Key::Written{}, nullptr},
                     {"rope_scaling.rope_type", Key::Checked{}, "default"},
                     {"rope_scaling.type", Key::Checked{}, "default"},
                     {"rope_parameters.rope_type", Key::Checked{}, "default"},
                     {"attention_bias", Key::Fixed{}, false},
                     {"attention_dropout", Key::Written{}, 0.0},
                     {"initializer_range", &S::init_std, 0.02},
                     {"tie_word_embeddings", &S::tied, false},
                     {"pad_token_id", Key::Written{}, nullptr}};
  keys.insert(keys.end(), own.begin(), own.end());
  return keys;
}

TransformerSpec read_llama_config(const JsonObject& config, const TransformerSpec& base, const ConfigKeys& keys) {
  TransformerSpec spec = read_config(config, base, keys);
  const std::int64_t size = spec.heads > 0 ? spec.head_size() : 0, given = config.integer("head_dim", size);
  if (given != size) {
    throw input_error("{}: head_dim = {} is not supported, expected hidden_size / num_attention_heads = {}",
                      config.where(), given, size);
  }
  return spec;
}

}  // namespace nascent
