#include "probes/geometry.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace nascent {
namespace {

double dot(const std::vector<double>& a, const std::vector<double>& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

void add_to(std::vector<double>& a, const std::vector<double>& b, double factor = 1) {
  for (std::size_t i = 0; i < a.size(); ++i) a[i] += factor * b[i];
}

// a += factor v v^T
void add_outer(DenseMatrix& a, const std::vector<double>& v, double factor) {
  for (std::int64_t i = 0; i < a.rows; ++i) {
    for (std::int64_t j = 0; j < a.cols; ++j)
      a(i, j) += factor * v[static_cast<std::size_t>(i)] * v[static_cast<std::size_t>(j)];
  }
}

Value ratio_of(double numerator, double denominator) {
  return denominator != 0 ? Value(numerator / denominator) : Value();
}

}  // namespace

Moments::Moments(std::int64_t width)
    : d(width), sum(static_cast<std::size_t>(width), 0.0), unit_sum(sum), mean(sum), scatter(width, width) {}

void Moments::clear() {
  n = zero_rows = n_centred = weighted_rows = unit_rows = 0;
  sum_norm = sum_squares = largest = 0;
  finite = true;
  rounding = 1e-9;
  for (auto* v : {&sum, &unit_sum, &mean, &scatter.data}) std::fill(v->begin(), v->end(), 0.0);
}

void Moments::add(const Moments& other) {
  if (other.n_centred > 0) {
    const double mine = static_cast<double>(n_centred), theirs = static_cast<double>(other.n_centred),
                 both = mine + theirs;
    std::vector<double> shift = other.mean;
    add_to(shift, mean, -1);
    add_to(scatter.data, other.scatter.data);
    if (n_centred > 0) add_outer(scatter, shift, mine * theirs / both);
    add_to(mean, shift, theirs / both);
    n_centred += other.n_centred;
  }
  n += other.n;
  weighted_rows += other.weighted_rows;
  zero_rows += other.zero_rows;
  unit_rows += other.unit_rows;
  sum_norm += other.sum_norm;
  sum_squares += other.sum_squares;
  largest = std::max(largest, other.largest);
  finite = finite && other.finite;
  rounding = std::max(rounding, other.rounding);
  add_to(sum, other.sum);
  add_to(unit_sum, other.unit_sum);
}

Value Moments::mean_norm() const { return ratio_of(sum_norm, static_cast<double>(n)); }

Value Moments::norm_of_mean() const { return ratio_of(std::sqrt(dot(sum, sum)), static_cast<double>(n)); }

Value Moments::average_cosine() const {
  const double units = static_cast<double>(unit_rows);
  return ratio_of(dot(unit_sum, unit_sum) - units, units * (units - 1));
}

DenseMatrix Moments::raw() const {
  DenseMatrix m = scatter;
  add_outer(m, mean, static_cast<double>(n_centred));
  return m;
}

double trace(const DenseMatrix& a) {
  double sum = 0;
  for (std::int64_t i = 0; i < a.rows; ++i) sum += a(i, i);
  return sum;
}

double frobenius_squared(const DenseMatrix& a) { return dot(a.data, a.data); }
double inner_product(const DenseMatrix& a, const DenseMatrix& b) { return dot(a.data, b.data); }

std::optional<Spectrum> spectrum_of(const Moments& m) {
  const double scatter = trace(m.scatter);
  if (!m.finite || m.n_centred < 2 || scatter <= kCancelled * m.sum_squares) return {};
  // Normalized to trace 1 before squaring: gradients near 1e-25 would leave ||C||^2 to the edge of what a double holds.
  Spectrum c;
  c.s = 1;
  for (double x : m.scatter.data) c.f += (x / scatter) * (x / scatter);
  c.n = m.n_centred;
  c.d = m.d;
  return c;
}

Value participation_ratio(const Spectrum& c) { return ratio_of(c.s * c.s, c.f); }

Value participation_ratio_unbiased(const Spectrum& c) {
  const double n = static_cast<double>(c.n - 1), s2 = c.s * c.s;
  if (c.n < 3) return {};
  const double t2 = n * n / ((n - 1) * (n + 2)) * (c.f - s2 / n);
  if (t2 <= kDifference * s2) return {};
  return ((n + 1) * n * s2 - 2 * n * c.f) / ((n - 1) * (n + 2)) / t2;
}

Value isoscore(const Spectrum& c) {
  const Value pr = participation_ratio(c);
  if (!pr || c.d < 2) return {};
  return (*pr - 1) / static_cast<double>(c.d - 1);
}

Value isoscore_star(const Spectrum& c, double z, double c0_trace, double c0_squared, double c_c0) {
  Spectrum mixed = c;
  mixed.s = (1 - z) * c.s + z * c0_trace;
  mixed.f = (1 - z) * (1 - z) * c.f + 2 * z * (1 - z) * c_c0 + z * z * c0_squared;
  return isoscore(mixed);
}

Value isoscore_star(const Spectrum& c, double z) {
  const double part = c.s / static_cast<double>(c.d);  // C0 = part I
  return isoscore_star(c, z, c.s, c.s * part, c.s * part);
}

Value participation_ratio_cross(const Moments& a, const Moments& b) {
  if (!spectrum_of(a) || !spectrum_of(b)) return {};
  const double a_trace = trace(a.scatter), b_trace = trace(b.scatter);
  double product = 0, a2 = 0, b2 = 0;  // in units of the traces: squares of tiny gradients underflow
  for (std::size_t i = 0; i < a.scatter.data.size(); ++i) {
    const double x = a.scatter.data[i] / a_trace, y = b.scatter.data[i] / b_trace;
    product += x * y;
    a2 += x * x;
    b2 += y * y;
  }
  return product > kDifference * std::sqrt(a2 * b2) ? Value(1 / product) : Value();
}

std::int64_t non_zero(const std::vector<double>& values, const Moments& m) {
  const auto is_zero = [&](double value) { return value <= m.rounding * values[0]; };
  const auto count = std::find_if(values.begin(), values.end(), is_zero) - values.begin();
  return std::min<std::int64_t>(count, std::max(m.n_centred, m.weighted_rows) - 1);
}

Value effective_rank(const std::vector<double>& values) {
  double total = 0, entropy = 0;
  for (double value : values) total += std::sqrt(value);
  if (!(total > 0)) return {};
  for (double value : values) entropy -= std::sqrt(value) / total * std::log(std::sqrt(value) / total);
  return std::exp(entropy);
}

Value pc1_share(const std::vector<double>& values) {
  double total = 0;
  for (double value : values) total += value;
  return total > 0 ? Value(values[0] / total) : Value();
}

Value spectrum_slope(const std::vector<double>& values) {
  std::vector<double> index, size;
  for (std::size_t i = 0; i < values.size(); ++i) {
    index.push_back(std::log(static_cast<double>(i + 1)));
    size.push_back(std::log(values[i]));
  }
  return slope(index, size);
}

Value slope(const std::vector<double>& x, const std::vector<double>& y) {
  const double n = static_cast<double>(x.size());
  if (x.size() < 3) return {};
  double x_mean = 0, y_mean = 0, xx = 0, xy = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    x_mean += x[i] / n;
    y_mean += y[i] / n;
  }
  for (std::size_t i = 0; i < x.size(); ++i) {
    xx += (x[i] - x_mean) * (x[i] - x_mean);
    xy += (x[i] - x_mean) * (y[i] - y_mean);
  }
  return xx / n > kCancelled ? Value(xy / xx) : Value();
}

Value enrichment(double share, double d, double r) { return share * d / r; }

Value control_mean(double share, double d, double r) { return d - r >= r ? Value((1 - share) * r / (d - r)) : Value(); }

Value energy_ratio(double share, double d, double r) {
  return 1 - share > kDifference && d > r ? Value(share * (d - r) / ((1 - share) * r)) : Value();
}

Value log_odds(double share, double d, double r) {
  const Value ratio = energy_ratio(share, d, r);
  return ratio && share > 0 ? Value(std::log(*ratio)) : Value();
}

Value mean_share(const std::vector<double>& sum, const std::vector<double>& along, double squares, double n) {
  const double all = dot(sum, sum);
  return all > kCancelled * squares * n ? Value(dot(along, along) / all) : Value();
}

Value mean_share_cross(const std::vector<double>& a, const std::vector<double>& a_along, const std::vector<double>& b,
                       const std::vector<double>& b_along) {
  const double norms = std::sqrt(dot(a, a)) * std::sqrt(dot(b, b)), product = dot(a, b);
  return norms > 0 && product > kDifference * norms ? Value(dot(a_along, b_along) / product) : Value();
}

std::vector<double> ceilings(const std::vector<double>& values, double total) {
  std::vector<double> shares;
  double sum = 0;
  for (double value : values) shares.push_back((sum += value) / total);
  return shares;
}

Energy energy_in(const DenseMatrix& raw, const DenseMatrix& basis, Value ceiling) {
  Energy e;
  const double d = static_cast<double>(basis.rows), r = static_cast<double>(basis.cols), m = d - r;
  e.chance = r / d;
  const double total = trace(raw);
  if (!(total > 0)) return e;
  const DenseMatrix image = multiply(raw, basis);                // M Q
  const DenseMatrix inside = multiply_transposed(basis, image);  // Q^T M Q
  const double share = trace(inside) / total, rest = 1 - share;
  e.share = share;
  e.enrichment = enrichment(share, d, r);
  e.control_mean = control_mean(share, d, r);
  e.ratio = energy_ratio(share, d, r);
  e.log_odds = log_odds(share, d, r);

  // B = (I - QQ^T) M (I - QQ^T), in units of tr M: tr B = 1 - E, ||B||^2 = ||M||^2 - 2 ||MQ||^2 + ||Q^T M Q||^2.
  const double b2 =
      (frobenius_squared(raw) - 2 * frobenius_squared(image) + frobenius_squared(inside)) / (total * total);
  const double spread = b2 - rest * rest / m;
  if (e.control_mean && e.ratio && m > 1 && m > r && spread > kDifference * b2) {
    const double variance = 2 * r * (1 - r / m) * spread / ((m - 1) * (m + 2));
    e.z = (share - rest * r / m) / std::sqrt(variance);
  }
  e.ceiling = ceiling;
  if (ceiling && *ceiling - e.chance > kDifference * *ceiling)
    e.of_ceiling = (share - e.chance) / (*ceiling - e.chance);
  return e;
}

Value alignment(const DenseMatrix& covariance, const DenseMatrix& raw) {
  const double d = static_cast<double>(raw.rows), c_trace = trace(covariance), m_trace = trace(raw);
  if (!(c_trace > 0) || !(m_trace > 0)) return {};
  const double c2 = frobenius_squared(covariance), m2 = frobenius_squared(raw);
  const double a = c2 - c_trace * c_trace / d, b = m2 - m_trace * m_trace / d;
  if (a <= kDifference * c2 || b <= kDifference * m2) return {};
  return (inner_product(covariance, raw) - c_trace * m_trace / d) / std::sqrt(a * b);
}

Value explained_share(const DenseMatrix& covariance, const DenseMatrix& basis) {
  const double total = trace(covariance);
  if (!(total > 0)) return {};
  return trace(multiply_transposed(basis, multiply(covariance, basis))) / total;
}

std::vector<double> principal_angles(const DenseMatrix& a, const DenseMatrix& b) {
  // Cosines are the singular values of A^T B, sines those of B - A (A^T B), for B the narrower of the two.
  if (b.cols > a.cols) return principal_angles(b, a);
  if (b.cols == 0) return {};
  const DenseMatrix overlap = multiply_transposed(a, b);
  DenseMatrix rest = multiply(a, overlap);
  for (std::size_t i = 0; i < rest.data.size(); ++i) rest.data[i] = b.data[i] - rest.data[i];
  const std::vector<double> cosines = singular_values(overlap);
  std::vector<double> sines = singular_values(rest);
  std::reverse(sines.begin(), sines.end());
  std::vector<double> angles;
  for (std::size_t i = 0; i < cosines.size(); ++i) {
    const double radians = cosines[i] > std::numbers::sqrt2 / 2 ? std::asin(std::min(sines[i], 1.0))
                                                                : std::acos(std::min(cosines[i], 1.0));
    angles.push_back(radians * 180 / std::numbers::pi);
  }
  return angles;
}

}  // namespace nascent
