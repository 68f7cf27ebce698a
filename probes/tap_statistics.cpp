#include "probes/tap_statistics.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "kernels/error.h"
#include "kernels/second_moments.h"

namespace nascent {
namespace {

// Subspace iteration carries half as many directions again beyond the 2r that are kept: its error shrinks by the ratio
// of the eigenvalue behind the last one carried to the last one wanted.
std::int64_t carried(std::int64_t rank, std::int64_t d) { return std::min(d, 3 * rank); }

constexpr double kBasisTolerance = 1e-4;    // sine of the angle to the true subspace
constexpr double kCeilingTolerance = 1e-3;  // its square is the relative error of the share

// Products in float leave about 1e-7 of the largest eigenvalue where an exact one is zero.
double rounding_of(DType dtype) { return dtype == DType::kF32 ? 1e-6 : 1e-9; }

// How many eigenvalues are not zero: N centred positions have at most N - 1.
std::int64_t non_zero(const std::vector<double>& values, const Moments& m) {
  const auto is_zero = [&](double value) { return value <= m.rounding * values[0]; };
  const auto count = std::find_if(values.begin(), values.end(), is_zero) - values.begin();
  return std::min<std::int64_t>(count, m.n_centred - 1);
}

}  // namespace

TapStatistics::TapStatistics(const Tap& tap)
    : tap_(tap), activation_(tap.width), gradient_(tap.width), micro_batch_(tap.width) {
  const std::int64_t d = tap.width;
  slab_.place(sum_, "sum", DType::kF64, {d});
  slab_.place(unit_sum_, "unit_sum", DType::kF64, {d});
  slab_.place(scalars_, "scalars", DType::kF64, {kRowScalars});
  slab_.place(mean_, "mean", DType::kF64, {d});
  slab_.place(scatter_, "scatter", DType::kF64, {d, d});
  slab_.allocate();
}

void TapStatistics::clear() {
  activation_.clear();
  gradient_.clear();
}

void TapStatistics::add_activation(Stream& s, View h) { add(s, activation_, h, false); }
void TapStatistics::add_gradient(Stream& s, View g) { add(s, gradient_, g, true); }

void TapStatistics::add(Stream& s, Moments& total, View x, bool skip_zero_rows) {
  const std::int64_t d = tap_.width;
  row_statistics(s, sum_, unit_sum_, scalars_, x);
  const double* scalar = scalars_.data<double>();
  Moments& m = micro_batch_;
  m.n = x.rows();
  m.zero_rows = static_cast<std::int64_t>(scalar[kZeroRows]);
  m.unit_rows = static_cast<std::int64_t>(scalar[kUnitRows]);
  m.n_centred = skip_zero_rows ? m.n - m.zero_rows : m.n;
  m.sum_norm = scalar[kSumNorm];
  m.sum_squares = scalar[kSumSquares];
  m.finite = std::isfinite(scalar[kLargest]);
  m.rounding = rounding_of(x.dtype());
  m.largest = m.finite ? scalar[kLargest] : 0;
  std::copy_n(sum_.data<double>(), d, m.sum.begin());
  std::copy_n(unit_sum_.data<double>(), d, m.unit_sum.begin());
  for (std::size_t j = 0; j < m.mean.size(); ++j) {
    m.mean[j] = m.n_centred > 0 ? m.sum[j] / static_cast<double>(m.n_centred) : 0.0;
  }
  if (m.finite) {
    std::copy(m.mean.begin(), m.mean.end(), mean_.data<double>());
    second_moments(s, scatter_, x, mean_, m.largest, skip_zero_rows);
    std::copy_n(scatter_.data<double>(), d * d, m.scatter.data.begin());
  }
  total.add(m);
}

void TapStatistics::fit_gradient(std::int64_t rank) {
  gradient_values_.clear();
  if (!gradient_.finite) return;
  gradient_raw_ = gradient_.raw();
  if (!(trace(gradient_raw_) > 0)) return;
  const std::int64_t d = tap_.width, r = std::min(rank, d);
  Eigenpairs pairs = top_eigen(gradient_raw_, carried(r, d), r, gradient_start_, kCeilingTolerance);
  gradient_start_ = std::move(pairs.vectors);
  gradient_values_ = std::move(pairs.values);
}

Value TapStatistics::ceiling(std::int64_t r) const {
  if (r > static_cast<std::int64_t>(gradient_values_.size())) return {};
  return std::accumulate(gradient_values_.begin(), gradient_values_.begin() + r, 0.0) / trace(gradient_raw_);
}

void TapStatistics::fit_activation(std::int64_t step, std::int64_t rank) {
  const std::int64_t d = tap_.width, wanted = std::min(rank, d - 1);
  // Without spread a basis has no directions: those of another step would not be this one's.
  Basis current{"current", DenseMatrix(d, 0), DenseMatrix(d, 0), step};
  if (wanted >= 1 && activation_.finite && spectrum_of(activation_)) {
    const Eigenpairs pairs =
        top_eigen(activation_.scatter, carried(wanted, d), wanted, activation_start_, kBasisTolerance);
    activation_start_ = pairs.vectors;
    const std::int64_t there = non_zero(pairs.values, activation_), r = std::min(wanted, there);
    current.directions = columns(pairs.vectors, 0, r);
    current.next = columns(pairs.vectors, r, std::clamp<std::int64_t>(there - r, 0, r));
  }
  if (bases_.empty()) {
    Basis init = current;
    init.name = "init";
    bases_ = {std::move(current), std::move(init)};
  } else {
    bases_[0] = std::move(current);
  }
}

void TapStatistics::save(ProbeState& state) const {
  const std::string prefix = tap_.name + "/";
  state[prefix + "start/activation"] = activation_start_;
  state[prefix + "start/gradient"] = gradient_start_;
  for (const Basis& basis : bases_) {
    state[prefix + "basis/" + basis.name] = basis.directions;
    state[prefix + "next/" + basis.name] = basis.next;
  }
}

void TapStatistics::load(const ProbeState& state) {
  const std::string prefix = tap_.name + "/";
  const auto matrix = [&](const std::string& name) {
    const auto found = state.find(prefix + name);
    if (found == state.end()) throw input_error("the probes' state has no {}{}", prefix, name);
    return found->second;
  };
  activation_start_ = matrix("start/activation");
  gradient_start_ = matrix("start/gradient");
  bases_.clear();
  if (!state.contains(prefix + "basis/init")) return;  // saved before the first step
  for (const std::string name : {"current", "init"})
    bases_.push_back({name, matrix("basis/" + name), matrix("next/" + name)});
}

}  // namespace nascent
