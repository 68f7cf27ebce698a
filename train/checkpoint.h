// What stands in a checkpoint beside the model, so that a run goes on from it to the bit:
//
//   state.json              step, samples, seeds, the data's identity, what decides bits, hashes of the other files; always
//   optimizer.safetensors   AdamW's moments: NAME.first, NAME.second, laid out as in this program
//   probes.safetensors      what the probes keep between steps
//
// The last two make a checkpoint resumable; they are removed again where they are no longer asked for.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "probes/probe_state.h"
#include "probes/schedule.h"
#include "train/optimizer.h"
#include "train/run_folder.h"

namespace nascent {

// Which samples come in which order. Two runs with the same see the same tokens.
struct OrderIdentity {
  std::string tokens;        // hash of the token file
  std::int64_t windows = 0;  // samples of an epoch
  std::int64_t sequence = 0;
  std::int64_t seed = 0;  // seed.data
  bool operator==(const OrderIdentity&) const = default;
};

// What decides bits beside the run itself.
struct Environment {
  std::string version, build, machine;
  std::int64_t threads = 0;

  static Environment of_this_program(std::int64_t threads);
  std::string text() const;  // one line
};

// "threads are 2, were 4", or empty where nothing differs.
std::string differences(const Environment& then, const Environment& now);

enum class SavedFor { kSchedule, kSignal, kEnd, kBranch };  // kBranch: the checkpoint that a branch begins with

struct CheckpointState {
  std::int64_t step = 0;     // steps done
  std::int64_t updates = 0;  // applied: fewer where steps had none
  std::int64_t samples = 0;  // consumed: the position in the order
  SavedFor saved_for = SavedFor::kSchedule;
  std::int64_t seed_init = 0;
  OrderIdentity order;
  std::string probe_set;  // hash, or empty
  Environment environment;
  std::string config;                        // every key in force
  std::map<std::string, std::string> files;  // digest of every other file, by its path in the checkpoint
};

// Into a folder that holds the model already. The digests of `state` are made here.
void save_resumable(const std::filesystem::path& folder, CheckpointState state, const Optimizer& optimizer,
                    const ProbeState& probes);

bool is_resumable(const std::filesystem::path& folder);
std::vector<std::int64_t> resumable_steps(const RunFolder& run);

// Reads state.json and compares every file with its digest. Throws (input) and names the file that is missing or
// damaged.
CheckpointState read_resumable(const std::filesystem::path& folder);
void load_optimizer(Optimizer& optimizer, const std::filesystem::path& folder, const CheckpointState& state);
ProbeState load_probe_state(const std::filesystem::path& folder);

// Removes what makes a checkpoint resumable from all but the last two, the last saved for a signal, a branch's first,
// and those of the schedule.
void prune_resumable(const RunFolder& run, const Schedule& kept);

}  // namespace nascent
