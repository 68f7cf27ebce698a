// `nascent train`.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace nascent {

struct TrainOptions {
  std::filesystem::path config;     // a TOML file
  std::vector<std::string> set;     // "train.steps=20": keys in place of the file's
  bool overwrite = false;           // replace an earlier run of the same name
};

// Trains the configured run from its initialization and prints its summary. Throws Error.
void train(const TrainOptions& options);

}  // namespace nascent
