#include "train/checkpoint.h"

#include <algorithm>
#include <array>
#include <optional>
#include <system_error>
#include <utility>

#include "data/digest.h"
#include "data/file.h"
#include "data/json.h"
#include "data/safetensors.h"
#include "kernels/build.h"
#include "kernels/error.h"
#include "train/info.h"

namespace nascent {
namespace fs = std::filesystem;
namespace {

constexpr const char* kState = "state.json";
constexpr const char* kOptimizer = "optimizer.safetensors";
constexpr const char* kProbes = "probes.safetensors";
constexpr const char* kUpdates = "updates";  // metadata of the optimizer's file

constexpr std::array<std::pair<SavedFor, const char*>, 4> kSavedFor = {{{SavedFor::kSchedule, "schedule"},
                                                                        {SavedFor::kSignal, "signal"},
                                                                        {SavedFor::kEnd, "end"},
                                                                        {SavedFor::kBranch, "branch"}}};
const std::string kFilePrefix = "xxh3 of ";
const std::string kSelf = kFilePrefix + kState;  // the last key: of the text before it

// The text that kSelf is the digest of: up to the key's quotation mark.
std::string_view hashed_part(std::string_view text) { return text.substr(0, text.rfind('"' + kSelf)); }

void write_state(const fs::path& folder, const CheckpointState& state) {
  JsonObject json;
  json.set("step", state.step);
  json.set("updates", state.updates);
  json.set("samples", state.samples);
  for (const auto& [reason, word] : kSavedFor) {
    if (reason == state.saved_for) json.set("saved_for", word);
  }
  json.set("seed.init", state.seed_init);
  json.set("seed.data", state.order.seed);
  json.set("tokens", state.order.tokens);
  json.set("windows", state.order.windows);
  json.set("sequence", state.order.sequence);
  json.set("probe_set", state.probe_set);
  json.set("version", state.environment.version);
  json.set("build", state.environment.build);
  json.set("machine", state.environment.machine);
  json.set("threads", state.environment.threads);
  json.set("config", state.config);
  for (const auto& [name, hash] : state.files) json.set(kFilePrefix + name, hash);
  json.set(kSelf, "");
  const std::string hash = digest(hashed_part(json.dump()));
  std::string text = json.dump();
  text.insert(text.rfind('"'), hash);
  write_file(folder / kState, text);
}

std::int64_t required_integer(const JsonObject& json, const char* key) {
  const std::int64_t value = json.integer(key, -1);
  if (value < 0) throw input_error("{}: {} is missing or below 0", json.where(), key);
  return value;
}

std::string required_text(const JsonObject& json, const std::string& key) {
  const std::string none = "\n", value = json.text(key, none);
  if (value == none) throw input_error("{}: {} is missing", json.where(), key);
  return value;
}

SavedFor saved_for(const JsonObject& json) {
  const std::string word = required_text(json, "saved_for");
  for (const auto& [reason, name] : kSavedFor) {
    if (word == name) return reason;
  }
  throw input_error("{}: saved_for is \"{}\"", json.where(), word);
}

CheckpointState read_state(const fs::path& folder) {
  const std::string path = folder / kState, text = read_file(path);
  const JsonObject json = JsonObject::parse(text, path);
  if (digest(hashed_part(text)) != required_text(json, kSelf)) {
    throw input_error("{}: damaged: its content is not what it was when saved", path);
  }
  CheckpointState state;
  state.step = required_integer(json, "step");
  state.updates = required_integer(json, "updates");
  state.samples = required_integer(json, "samples");
  state.saved_for = saved_for(json);
  state.seed_init = required_integer(json, "seed.init");
  state.order = {required_text(json, "tokens"), required_integer(json, "windows"), required_integer(json, "sequence"),
                 required_integer(json, "seed.data")};
  state.probe_set = required_text(json, "probe_set");
  state.environment = {required_text(json, "version"), required_text(json, "build"), required_text(json, "machine"),
                       required_integer(json, "threads")};
  state.config = required_text(json, "config");
  for (const std::string& key : json.keys()) {
    if (key.starts_with(kFilePrefix) && key != kSelf) {
      state.files[key.substr(kFilePrefix.size())] = required_text(json, key);
    }
  }
  return state;
}

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

std::string Environment::text() const {
  return fmt::format("{}; {}; {}; {} threads", version, build, machine, threads);
}

std::string differences(const Environment& then, const Environment& now) {
  std::vector<std::string> all;
  const auto compare = [&](const char* what, const auto& before, const auto& after) {
    if (before != after) all.push_back(fmt::format("{} is {}, was {}", what, after, before));
  };
  compare("version", then.version, now.version);
  compare("build", then.build, now.build);
  compare("machine", then.machine, now.machine);
  compare("number of threads", then.threads, now.threads);
  return fmt::format("{}", fmt::join(all, "; "));
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

bool is_resumable(const fs::path& folder) { return fs::exists(folder / kState) && fs::exists(folder / kOptimizer); }

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
    if (!state.files.contains(name)) throw input_error("{}: no hash of {}", (folder / kState).string(), name);
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
