#include "train/checkpoint.h"

#include <algorithm>
#include <optional>
#include <system_error>
#include <utility>

#include "data/digest.h"
#include "data/safetensors.h"
#include "kernels/build.h"
#include "kernels/error.h"
#include "train/info.h"

namespace nascent {
namespace fs = std::filesystem;
namespace {

constexpr const char* kOptimizer = "optimizer.safetensors";
constexpr const char* kProbes = "probes.safetensors";
constexpr const char* kUpdates = "updates";  // metadata of the optimizer's file

// Nothing where state.json cannot be read: no reason to end a run that goes well.
std::optional<SavedFor> reason_of(const fs::path& folder) {
  try {
    return read_state(folder).saved_for;
  } catch (const Error&) {
    return std::nullopt;
  }
}

}  // namespace

Environment Environment::of_this_program(std::int64_t threads) {
  return {nascent::version(), build_description(), machine_description(), threads};
}

void save_resumable(const fs::path& folder, CheckpointState state, const Optimizer& optimizer,
                    const ProbeState& probes) {
  write_safetensors(folder / kOptimizer, optimizer.moments(), {{kUpdates, std::to_string(state.updates)}});
  std::vector<NamedView> matrices;
  for (const auto& [name, m] : probes) matrices.push_back({name, View(m.data.data(), DType::kF64, {m.rows, m.cols})});
  write_safetensors(folder / kProbes, std::move(matrices));

  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(folder)) {
    if (!entry.is_regular_file()) continue;
    state.files[entry.path().lexically_relative(folder).generic_string()] = file_digest(entry.path());
  }
  write_state(folder, state);
}

bool is_resumable(const fs::path& folder) { return fs::exists(folder / kStateFile) && fs::exists(folder / kOptimizer); }

std::vector<std::int64_t> resumable_steps(const RunFolder& run) {
  std::vector<std::int64_t> steps = run.checkpoint_steps();
  std::erase_if(steps, [&](std::int64_t step) { return !is_resumable(run.checkpoint(step)); });
  return steps;
}

CheckpointState read_resumable(const fs::path& folder) {
  CheckpointState state = read_state(folder);
  for (const auto& [name, expected] : state.files) {
    const std::string path = folder / name;
    if (file_digest(path) != expected) {
      throw input_error("{}: damaged: its content is not what it was when saved", path);
    }
  }
  for (const char* name : {"model.safetensors", "config.json", kOptimizer, kProbes}) {
    if (!state.files.contains(name)) throw input_error("{}: no hash of {}", (folder / kStateFile).string(), name);
  }
  const std::string name = folder.filename();
  if (name != RunFolder::checkpoint_name(state.step)) {
    throw input_error("{}: holds the state of step {}", folder.string(), state.step);
  }
  return state;
}

void load_optimizer(Optimizer& optimizer, const fs::path& folder, const CheckpointState& state) {
  const std::string path = folder / kOptimizer;
  SafetensorsFile file(path);
  const auto updates = file.metadata().find(kUpdates);
  if (updates == file.metadata().end() || updates->second != std::to_string(state.updates)) {
    throw input_error("{}: holds the moments after {} updates, expected {}", path,
                      updates == file.metadata().end() ? "an unknown number of" : updates->second, state.updates);
  }
  optimizer.load(file, path);
  optimizer.set_updates(state.updates);
}

ProbeState load_probe_state(const fs::path& folder) {
  SafetensorsFile file(folder / kProbes);
  ProbeState state;
  for (const std::string& name : file.names()) {
    const View stored = file.at(name);
    if (stored.dtype() != DType::kF64 || stored.shape().rank() != 2) {
      throw input_error("{}: {} is {} of shape {}, expected a matrix of f64", (folder / kProbes).string(), name,
                        name_of(stored.dtype()), stored.shape().text());
    }
    DenseMatrix matrix(stored.shape()[0], stored.shape()[1]);
    std::copy_n(stored.data<double>(), stored.size(), matrix.data.begin());
    state[name] = std::move(matrix);
  }
  return state;
}

void prune_resumable(const RunFolder& run, const Schedule& kept) {
  std::vector<std::int64_t> steps = run.checkpoint_steps();
  std::reverse(steps.begin(), steps.end());
  bool signal_seen = false;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const fs::path folder = run.checkpoint(steps[i]);
    if (!is_resumable(folder)) continue;
    const std::optional<SavedFor> reason = reason_of(folder);
    const bool last_of_signal = reason == SavedFor::kSignal && !std::exchange(signal_seen, true);
    if (i < 2 || !reason || last_of_signal || reason == SavedFor::kBranch || kept.at(steps[i])) continue;
    // What cannot be removed only takes room, and a full or failing disk shows at the next save.
    std::error_code ignored;
    fs::remove(folder / kOptimizer, ignored);
    fs::remove(folder / kProbes, ignored);
  }
}

}  // namespace nascent
