// What Llama (Touvron et al. 2023) and the families built like it share: rotary positions, a SwiGLU MLP, no biases, grouped
// keys and values, separate files' tensors for q, k, v, gate and up, all weights drawn alike.
#pragma once

#include <vector>

#include "model/config_keys.h"
#include "model/family.h"

namespace nascent {

TransformerSpec llama_base();

// Sizes of a model; key_value_heads 0: as many as heads.
struct LlamaSizes {
  std::int64_t vocab = 0, context = 0, width = 0, hidden = 0, layers = 0, heads = 0, key_value_heads = 0;
};
TransformerSpec with_sizes(TransformerSpec spec, const LlamaSizes& sizes);

// Without a size for it the MLP has 8/3 of the width, up to a multiple of 8: as many parameters as one of four times the width has
// without a gate.
void complete_llama(TransformerSpec& spec);

// Files' names of all tensors but the norms of blocks, and of ln_final's weight.
std::vector<TensorName> llama_tensors();
std::vector<std::string> llama_ignored();

// config.json; vocab: transformers' default for the family. own: what this family has beside the common keys.
ConfigKeys llama_keys(std::int64_t vocab, const ConfigKeys& own);
TransformerSpec read_llama_config(const JsonObject& config, const TransformerSpec& base, const ConfigKeys& keys);

}  // namespace nascent
