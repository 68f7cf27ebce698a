#include "train/run_config.h"

#include <algorithm>
#include <cstddef>
#include <fmt/format.h>
#include <fnmatch.h>

#include "kernels/error.h"

namespace nascent {

RunConfig::RunConfig(ConfigReader reader) {
  config.settings(reader);
  probes.settings(reader);
  reader.refuse_unknown();
  config.check();
}

ConfigWriter RunConfig::writer() {
  ConfigWriter writer;
  config.settings(writer);
  probes.settings(writer);
  return writer;
}

// Both declare the same keys in the same order.
std::vector<ChangedKey> changed_keys(const KeyValues& before, const KeyValues& now) {
  if (before.size() != now.size()) throw machine_error("{} keys compared with {}", before.size(), now.size());
  std::vector<ChangedKey> changes;
  for (std::size_t i = 0; i < before.size(); ++i) {
    if (before[i] != now[i]) changes.push_back({before[i].first, before[i].second, now[i].second});
  }
  return changes;
}

std::string changes_text(const std::vector<ChangedKey>& changes) {
  std::vector<std::string> texts;
  for (const auto& [key, before, now] : changes) texts.push_back(fmt::format("{} = {} (was {})", key, now, before));
  return fmt::format("{}", fmt::join(texts, ", "));
}

bool is_among(const std::string& key, const std::vector<std::string>& patterns) {
  return std::ranges::any_of(patterns, [&](const std::string& p) { return fnmatch(p.c_str(), key.c_str(), 0) == 0; });
}

}  // namespace nascent
