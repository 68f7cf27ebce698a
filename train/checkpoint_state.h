// state.json: what a checkpoint says of itself, with the digests of its files and, last, of its own text.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>

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

inline constexpr const char* kStateFile = "state.json";

void write_state(const std::filesystem::path& folder, const CheckpointState& state);

// Throws (input) for what is missing or of another kind, and where the text is not what it was when saved.
CheckpointState read_state(const std::filesystem::path& folder);

}  // namespace nascent
