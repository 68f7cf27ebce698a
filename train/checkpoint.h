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
#include <vector>

#include "probes/probe_state.h"
#include "probes/schedule.h"
#include "train/checkpoint_state.h"
#include "train/optimizer.h"
#include "train/run_folder.h"

namespace nascent {

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
