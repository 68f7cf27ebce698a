// Text from a model.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

namespace nascent {

struct GenerateOptions {
  std::filesystem::path path;  // a run (its last checkpoint) or a checkpoint's folder
  std::string prompt;
  std::int64_t tokens = 100;  // to add
  double temperature = 1;     // of the softmax; 0 takes the likeliest token
  std::int64_t top_k = 0;     // draw among the k likeliest; 0: all
  std::int64_t seed = 1;      // of the draws
};

// Prints the prompt and its continuation. Throws (input) where there is no checkpoint or it holds no tokenizer.
void generate(const GenerateOptions& options);

}  // namespace nascent
