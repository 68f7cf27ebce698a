#include "train/checkpoint_state.h"

#include <array>
#include <string_view>
#include <utility>
#include <vector>

#include "data/digest.h"
#include "data/file.h"
#include "data/json.h"
#include "kernels/error.h"

namespace nascent {
namespace fs = std::filesystem;
namespace {

constexpr std::array<std::pair<SavedFor, const char*>, 4> kSavedFor = {{{SavedFor::kSchedule, "schedule"},
                                                                        {SavedFor::kSignal, "signal"},
                                                                        {SavedFor::kEnd, "end"},
                                                                        {SavedFor::kBranch, "branch"}}};
const std::string kFilePrefix = "xxh3 of ";
const std::string kSelf = kFilePrefix + kStateFile;  // the last key: of the text before it

// The text that kSelf is the digest of: up to the key's quotation mark.
std::string_view hashed_part(std::string_view text) { return text.substr(0, text.rfind('"' + kSelf)); }

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

}  // namespace

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
  write_file(folder / kStateFile, text);
}

CheckpointState read_state(const fs::path& folder) {
  const std::string path = folder / kStateFile, text = read_file(path);
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

}  // namespace nascent
