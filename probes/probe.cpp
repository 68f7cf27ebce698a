#include "probes/probe.h"

#include <algorithm>
#include <cmath>

#include "kernels/error.h"

namespace nascent {
namespace {

// Filled before main() by the probes' files, then only read.
std::vector<ProbeKind>& registry() {
  static std::vector<ProbeKind> kinds;
  return kinds;
}

}  // namespace

RegisterProbe::RegisterProbe(std::string name, std::function<std::unique_ptr<Probe>()> make) {
  auto& kinds = registry();
  const auto place = std::lower_bound(kinds.begin(), kinds.end(), name,
                                      [](const ProbeKind& k, const std::string& n) { return k.name < n; });
  if (place != kinds.end() && place->name == name) throw machine_error("probe {} is registered twice", name);
  kinds.insert(place, {std::move(name), std::move(make)});
}

const std::vector<ProbeKind>& probe_kinds() { return registry(); }

void Recorder::add(const std::string& tap, const std::string& key, Labels labels, const Estimate& estimate,
                   std::int64_t n, const char* reason) {
  Record record;
  record.probe = probe_;
  record.tap = tap;
  record.key = key;
  labels.insert(labels_.begin(), labels_.end());
  record.labels = text_of(labels);
  record.n = n;
  if (!estimate.value) {
    record.reason = reason;
  } else if (!std::isfinite(*estimate.value)) {
    record.reason = "not finite";
  } else {
    record.value = estimate.value;
    if (estimate.se && std::isfinite(*estimate.se)) record.se = estimate.se;
  }
  records_.push_back(std::move(record));
}

}  // namespace nascent
