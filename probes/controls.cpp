#include "probes/controls.h"

#include <algorithm>
#include <cmath>

#include "kernels/parallel.h"

namespace nascent {
namespace {

double energy_share(const DenseMatrix& raw, const DenseMatrix& basis, double total) {
  return trace(multiply_transposed(basis, multiply(raw, basis))) / total;
}

// a - Q (Q^T a)
DenseMatrix outside(const DenseMatrix& basis, DenseMatrix a) {
  const DenseMatrix inside = multiply(basis, multiply_transposed(basis, a));
  for (std::size_t i = 0; i < a.data.size(); ++i) a.data[i] -= inside.data[i];
  return a;
}

double p_value(const std::vector<double>& draws, double share) {
  const auto above = std::ranges::count_if(draws, [=](double x) { return x >= share; });
  return static_cast<double>(1 + above) / static_cast<double>(draws.size() + 1);
}

}  // namespace

Controls drawn_controls(Stream& s, const DenseMatrix& raw, const DenseMatrix& basis, std::int64_t draws,
                        const Random& random) {
  const std::int64_t d = basis.rows, r = basis.cols;
  const bool fits = 2 * r <= d;
  const double total = trace(raw), share = energy_share(raw, basis, total);
  const bool nothing_outside = 1 - share <= kDifference;  // then what is orthogonal to Q holds 0, not its rounding
  std::vector<double> normal(static_cast<std::size_t>(fits ? draws : 0)), unrestricted(static_cast<std::size_t>(draws));
  parallel_for(s, draws, 1, [&](std::int64_t begin, std::int64_t end, int) {
    DenseMatrix gaussian(d, r);
    for (std::int64_t k = begin; k < end; ++k) {
      for (std::int64_t i = 0; i < d * r; ++i)
        gaussian.data[static_cast<std::size_t>(i)] = random.normal(static_cast<std::uint64_t>(k * d * r + i));
      const auto at = static_cast<std::size_t>(k);
      unrestricted[at] = energy_share(raw, orthonormalize(gaussian), total);
      // Projected out twice: the first leaves a rounding's worth of Q.
      if (fits && !nothing_outside)
        normal[at] = energy_share(raw, orthonormalize(outside(basis, outside(basis, gaussian))), total);
    }
  });
  Controls c;
  c.random_p = p_value(unrestricted, share);
  if (!fits) return c;
  c.normal_p = p_value(normal, share);
  c.q05 = quantile(normal, 0.05);
  c.q50 = quantile(normal, 0.5);
  c.q95 = quantile(normal, 0.95);
  return c;
}

double quantile(std::vector<double> values, double q) {
  std::ranges::sort(values);
  const double place = static_cast<double>(values.size() - 1) * q;
  const auto below = static_cast<std::size_t>(place);
  const std::size_t above = std::min(below + 1, values.size() - 1);
  return values[below] + (place - static_cast<double>(below)) * (values[above] - values[below]);
}

void LocalEnergy::add(const DenseMatrix& g, const DenseMatrix& basis, const DenseMatrix& next_directions) {
  const DenseMatrix raw = multiply_transposed(g, g);
  const DenseMatrix image = multiply(raw, basis), own = multiply_transposed(basis, image);
  const double d = static_cast<double>(basis.rows), m = d - static_cast<double>(basis.cols), all = trace(raw);
  const double b_trace = all - trace(own);
  const double b_square = frobenius_squared(raw) - 2 * frobenius_squared(image) + frobenius_squared(own);
  ++count;
  inside += trace(own);
  total += all;
  b2 += b_square;
  bracket += b_square - b_trace * b_trace / m;
  const std::vector<double> values = symmetric_eigenvalues(raw);
  for (std::int64_t j = 0; j < basis.cols; ++j) best += values[static_cast<std::size_t>(j)];
  all_next = all_next && next_directions.cols == basis.cols;
  if (all_next) next += trace(multiply_transposed(next_directions, multiply(raw, next_directions)));

  DenseMatrix sum(1, g.cols);
  for (std::int64_t i = 0; i < g.rows; ++i) {
    for (std::int64_t j = 0; j < g.cols; ++j) sum(0, j) += g(i, j);
  }
  const double n = static_cast<double>(g.rows);
  mean_total += frobenius_squared(sum) / n;  // count ||gbar||^2
  mean_inside += frobenius_squared(multiply(sum, basis)) / n;
}

Energy LocalEnergy::energy(double d, double r) const {
  Energy e;
  if (!(total > 0)) return e;
  const double share = inside / total, m = d - r, rest = 1 - share;
  e.chance = r / d;
  e.share = share;
  e.enrichment = enrichment(share, d, r);
  e.control_mean = control_mean(share, d, r);
  e.ratio = energy_ratio(share, d, r);
  e.log_odds = log_odds(share, d, r);
  if (e.control_mean && e.ratio && m > 1 && m > r && bracket > kDifference * b2) {
    const double variance = 2 * r * (1 - r / m) * bracket / ((m - 1) * (m + 2) * total * total);
    e.z = (share - rest * r / m) / std::sqrt(variance);
  }
  const double most = best / total;
  e.ceiling = most;
  if (most - e.chance > kDifference * most) e.of_ceiling = (share - e.chance) / (most - e.chance);
  return e;
}

Value LocalEnergy::next_share() const { return all_next && total > 0 ? Value(next / total) : Value(); }

Value LocalEnergy::mean_share() const {
  return mean_total > kCancelled * total ? Value(mean_inside / mean_total) : Value();
}

}  // namespace nascent
