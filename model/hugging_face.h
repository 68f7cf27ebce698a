// Models as Hugging Face's folders: config.json and model.safetensors, which from_pretrained loads as they are.
#pragma once

#include <filesystem>
#include <memory>

#include "model/transformer.h"

namespace nascent {

// Writes config.json and model.safetensors (f32 or f64, as the model is) into a folder that exists. Throws (machine) on
// a full disk.
void save_pretrained(const std::filesystem::path& folder, const Transformer& model);

// Reads such a folder, ours or others'. Throws (input) for what is missing, of another shape, or unknown, naming file
// and tensor.
std::unique_ptr<Transformer> load_pretrained(const std::filesystem::path& folder);

// The two halves of it: what config.json says, and the weights into a model of those sizes and that dtype.
TransformerSpec load_spec(const std::filesystem::path& folder);
void load_weights(const std::filesystem::path& folder, Transformer& model);

}  // namespace nascent
