#include "probes/tap_statistics.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "kernels/error.h"
#include "kernels/reduce.h"

namespace nascent {
namespace {

constexpr double kCeilingTolerance = 1e-3;  // its square is the relative error of the share

}  // namespace

TapStatistics::TapStatistics(Tap tap, DType dtype, std::int64_t positions, BasisChoice choice)
    : tap_(std::move(tap)), bases_(tap_.width, choice) {
  if (positions == 0) return;
  slab_.place(h_.memory, tap_.name + ".activation", dtype, {positions, tap_.width});
  slab_.place(g_.memory, tap_.name + ".gradient", dtype, {positions, tap_.width});
}

void TapStatistics::begin() {
  h_.rows = g_.rows = 0;
  activation_.reset();
  gradient_.reset();
}

void TapStatistics::add_activation(View h) { add(h_, h); }
void TapStatistics::add_gradient(View g) { add(g_, g); }

void TapStatistics::add(Kept& kept, View x) {
  // The last micro-batch of a probe set may have empty places behind its positions.
  const std::int64_t rows = std::min(x.rows(), kept.memory.rows() - kept.rows);
  std::memcpy(kept.memory.slice(kept.rows, rows).address(), x.address(),
              static_cast<std::size_t>(rows * tap_.width) * size_of(x.dtype()));
  kept.rows += rows;
  kept.shown = kept.memory.slice(0, kept.rows);
}

void TapStatistics::show(View h, View g) {
  h_.shown = h;
  g_.shown = g;
}

std::optional<Sample> TapStatistics::sum_up(Stream& s, const PositionLabels& positions, const Kept& kept, bool gradient,
                                            bool in_double, const std::string& tap) {
  if (!kept.shown) return std::nullopt;
  if (kept.shown.rows() != positions.count())
    throw machine_error("{}: {} rows were shown to the probes, expected the step's {} positions", tap,
                        kept.shown.rows(), positions.count());
  Array array;
  array.x = kept.shown;
  array.positions = &positions;
  array.gradient = gradient;
  array.products = in_double ? DType::kF64 : kept.shown.dtype();
  max_abs(s, Tensor(&array.largest, DType::kF64, {1}), kept.shown);
  return sample_of(s, array, {positions.all(), {}, {}});
}

void TapStatistics::sum_up(Stream& s, const PositionLabels& positions, bool in_double) {
  activation_ = sum_up(s, positions, h_, false, in_double, tap_.name);
  gradient_ = sum_up(s, positions, g_, true, in_double, tap_.name);
  if (gradient_) gradient_raw_ = gradient_->all.raw();
}

void TapStatistics::fit(const FitRequest& request) {
  if (activation_) bases_.fit(*activation_, request);
  ceilings_.clear();
  if (!gradient_ || !gradient_->all.finite || !(trace(gradient_raw_) > 0)) return;
  const std::int64_t r = widest_basis();
  if (r == 0) return;
  Eigenpairs pairs = top_eigen(gradient_raw_, std::min(tap_.width, 3 * r), r, gradient_start_, kCeilingTolerance);
  gradient_start_ = std::move(pairs.vectors);
  ceilings_ = nascent::ceilings(pairs.values, trace(gradient_raw_));
}

std::int64_t TapStatistics::widest_basis() const {
  std::int64_t most = 0;
  for (const Basis& basis : bases_.all()) most = std::max(most, basis.directions.cols);
  return most;
}

std::vector<double> TapStatistics::ceilings_of(const DenseMatrix& raw) const {
  const std::int64_t r = widest_basis();
  const double total = trace(raw);
  if (r == 0 || !(total > 0)) return {};
  return nascent::ceilings(top_eigen(raw, r, r, gradient_start_, kCeilingTolerance).values, total);
}

void TapStatistics::save(ProbeState& state, const std::string& prefix) const {
  bases_.save(state, prefix + tap_.name + "/");
  state[prefix + tap_.name + "/start/gradient"] = gradient_start_;
}

void TapStatistics::load(const ProbeState& state, const std::string& prefix) {
  const std::string name = prefix + tap_.name + "/start/gradient";
  if (!state.contains(name)) throw input_error("the probes' state has no {}", name);
  bases_.load(state, prefix + tap_.name + "/");
  gradient_start_ = state.at(name);
}

}  // namespace nascent
