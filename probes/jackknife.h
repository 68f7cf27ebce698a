// Standard errors by leaving out one sequence at a time: positions of a sequence are not independent.
#pragma once

#include <cmath>
#include <cstdint>
#include <optional>
#include <vector>

namespace nascent {

using Value = std::optional<double>;

// A value and its standard error over sequences.
struct Estimate {
  Value value, se;

  Estimate() = default;
  Estimate(Value v, Value error = {}) : value(v), se(error) {}  // NOLINT: a plain value is an estimate too
  Estimate(double v) : value(v) {}                              // NOLINT
};

// se^2 = (S - 1)/S sum over s of (v_s - their mean)^2, v_s = without(s), the measure without the s-th of S parts
// (Efron & Stein 1981). Missing for S < 2 or where a v_s is.
template <class F>
Value jackknife(std::int64_t parts, F&& without) {
  if (parts < 2) return {};
  std::vector<double> v;
  double mean = 0;
  for (std::int64_t s = 0; s < parts; ++s) {
    const Value value = without(s);
    if (!value) return {};
    v.push_back(*value);
    mean += *value / static_cast<double>(parts);
  }
  double sum = 0;
  for (double x : v) sum += (x - mean) * (x - mean);
  return std::sqrt(sum * static_cast<double>(parts - 1) / static_cast<double>(parts));
}

}  // namespace nascent
