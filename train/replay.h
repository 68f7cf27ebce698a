// `nascent replay`: recorded steps again, with other probes.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace nascent {

struct ReplayOptions {
  std::filesystem::path run;          // its folder
  std::int64_t from = 0, to = 0;      // steps whose records are added, both included
  std::optional<std::int64_t> start;  // step of the checkpoint to start from, 0: the initialization; nothing: the last
                                      // one at or before `from` that keeps what the probes need
  std::vector<std::string> set;       // probes.* keys in place of the recorded ones
};

// Trains the steps again and compares each loss with the recorded one. Throws (machine) at the first that has other
// bits; records up to there stay. Nothing of the run but its records (and this attempt's events) changes.
void replay(const ReplayOptions& options);

}  // namespace nascent
