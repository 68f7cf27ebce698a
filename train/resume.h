// `nascent resume`: a run goes on where its last checkpoint stands, to the bit.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "train/checkpoint.h"
#include "train/run_config.h"
#include "train/trainer.h"

namespace nascent {

struct ResumeOptions {
  std::filesystem::path run;         // its folder
  std::vector<std::string> set;      // keys in place of config.toml's; few may change
  std::optional<std::int64_t> from;  // the step of a checkpoint; nothing: the last one
  bool inexact = false;              // also on another machine, build or number of threads
  bool check_nan = false;            // as of train
};

// A run brought back to a checkpoint.
struct Resumed {
  std::unique_ptr<RunConfig> run;
  std::unique_ptr<Trainer> trainer;  // none: the run is complete
  std::vector<std::string> notes;    // lines to print: what the user should know
};

// Verifies the checkpoint, refuses what would not be the same run, and writes the new attempt's beginning. Throws
// (input) in one line.
Resumed open_resumed(const ResumeOptions& options);

// All of it. Returns the exit status as train does; 0 for a run that is complete.
int resume(const ResumeOptions& options);

// ---- Shared with branch and replay

// The checkpoint of a step, verified. Throws (input) and lists the resumable ones where this one is not.
CheckpointState resumable_checkpoint(const RunFolder& run, std::int64_t step);
// The keys that a checkpoint was saved under.
KeyValues saved_keys(const std::filesystem::path& checkpoint, const CheckpointState& state);
// Throws (input) where the trainer's data are not those of the checkpoint.
void require_same_data(const Trainer& trainer, const CheckpointState& state);
// Why a state saved under the keys `before` is not what these probes, planned under `now`, would have kept; nothing where
// it is.
std::optional<std::string> misfit(const ProbeSet& probes, const ProbeState& saved, const KeyValues& before,
                                  const KeyValues& now);

}  // namespace nascent
