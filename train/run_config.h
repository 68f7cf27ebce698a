// A run's keys, those of its probes with them, as they stand in one file.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "probes/probe_set.h"
#include "train/config.h"
#include "train/config_file.h"

namespace nascent {

using KeyValues = std::vector<std::pair<std::string, std::string>>;  // "train.steps", "100", as TOML

struct RunConfig {
  RunConfig() = default;  // every default
  // Throws (input) for keys nobody declared and values that cannot be.
  explicit RunConfig(ConfigReader reader);
  RunConfig(const RunConfig&) = delete;
  RunConfig& operator=(const RunConfig&) = delete;

  // Before probes are planned, which forgets those that are off.
  ConfigWriter writer();
  std::string text() { return writer().text(); }  // config.toml
  KeyValues values() { return writer().values(); }

  Config config;
  ProbeSet probes;
};

// Keys with another value: "train.steps", "50", "100".
struct ChangedKey {
  std::string key, before, now;
};
std::vector<ChangedKey> changed_keys(const KeyValues& before, const KeyValues& now);
std::string changes_text(const std::vector<ChangedKey>& changes);  // "train.steps = 100 (was 50), ..."

// Whether a key is one of the patterns; * fits any text.
bool is_among(const std::string& key, const std::vector<std::string>& patterns);

}  // namespace nascent
