// `nascent train` and `nascent config`.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace nascent {

struct TrainOptions {
  std::filesystem::path config;  // a TOML file
  std::vector<std::string> set;  // "train.steps=20": keys in place of the file's
  bool overwrite = false;        // replace an earlier run of the same name
  bool check_nan = false;        // stop at the first op whose result is not finite, and name it
};

// Trains the configured run from its initialization and prints its summary. Returns the exit status: 0, or 128 + the signal that
// ended the run before its last step. Throws Error.
int train(const TrainOptions& options);

// The rest of a prepared run, its summary and what to know of how it ended. Returns the exit status as above.
class Trainer;
int run_to_end(Trainer& trainer);

// `nascent config FILE --check`: all that train does before it takes memory and makes the run's folder, and an estimate of
// the time. Throws Error where train would.
void check_config(const TrainOptions& options);

// `nascent config`: default, range and meaning of a key, of all keys of a table, or of all (an empty one). Throws
// (input) and names the nearest key for one that does not exist.
void explain_config(const std::string& key);

}  // namespace nascent
