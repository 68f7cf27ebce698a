#include "probes/neighbourhoods.h"

#include <algorithm>
#include <cmath>

namespace nascent {
namespace {

std::vector<std::vector<std::int32_t>> by_token(const Sample& h, std::int64_t min_count) {
  const Groups types = group_by(h.array.positions->token(), h.by_sequence.rows);
  std::vector<std::vector<std::int32_t>> all;
  for (std::int64_t g = 0; g < types.count(); ++g) {
    const auto rows = types.of(g);
    if (static_cast<std::int64_t>(rows.size()) < min_count) continue;
    all.emplace_back(rows.begin(), rows.end());
    std::ranges::sort(all.back());
  }
  return all;
}

std::vector<std::vector<std::int32_t>> nearest(const Sample& h, std::int64_t k, std::int64_t centres) {
  DenseMatrix unit = rows_of(h.array.x, h.array.positions->all());
  std::vector<std::int32_t> there;  // rows with a direction
  for (std::int64_t i = 0; i < unit.rows; ++i) {
    double square = 0;
    for (std::int64_t j = 0; j < unit.cols; ++j) square += unit(i, j) * unit(i, j);
    if (square == 0) continue;
    for (std::int64_t j = 0; j < unit.cols; ++j) unit(i, j) /= std::sqrt(square);
    there.push_back(static_cast<std::int32_t>(i));
  }
  const auto n = static_cast<std::int64_t>(there.size());
  std::vector<std::vector<std::int32_t>> all;
  for (std::int64_t c = 0; c < std::min(n, centres); ++c) {
    const std::int32_t centre = there[static_cast<std::size_t>(n <= centres ? c : c * n / centres)];
    std::vector<std::pair<double, std::int32_t>> others;  // minus the cosine: nearest first, of equals the lower row
    for (std::int32_t row : there) {
      double cosine = 0;
      for (std::int64_t j = 0; j < unit.cols; ++j) cosine += unit(centre, j) * unit(row, j);
      if (row != centre) others.emplace_back(-cosine, row);
    }
    const auto taken = std::min(static_cast<std::size_t>(k), others.size());
    std::partial_sort(others.begin(), others.begin() + static_cast<std::ptrdiff_t>(taken), others.end());
    std::vector<std::int32_t> rows = {centre};
    for (std::size_t i = 0; i < taken; ++i) rows.push_back(others[i].second);
    all.push_back(std::move(rows));
  }
  return all;
}

}  // namespace

DenseMatrix rows_of(View x, const std::vector<std::int32_t>& rows) {
  const std::int64_t d = x.cols();
  DenseMatrix m(static_cast<std::int64_t>(rows.size()), d);
  dispatch(x.dtype(), [&]<class T>() {
    for (std::size_t i = 0; i < rows.size(); ++i)
      std::copy_n(x.data<T>() + rows[i] * d, d, m.data.begin() + static_cast<std::ptrdiff_t>(i) * d);
  });
  return m;
}

std::vector<Neighbourhood> neighbourhoods(const Sample& activation, const LocalChoice& choice) {
  const std::int64_t d = activation.all.d, r = choice.rank;
  std::vector<Neighbourhood> all;
  if (r >= d || !activation.all.finite) return all;
  for (std::vector<std::int32_t>& rows : choice.of == "token"
                                             ? by_token(activation, choice.min_count > 0 ? choice.min_count : 2 * r)
                                             : nearest(activation, choice.k, choice.centres)) {
    DenseMatrix x = rows_of(activation.array.x, rows);
    const double n = static_cast<double>(x.rows);
    double before = 0;
    Moments m(d);
    for (double value : x.data) before += value * value;
    for (std::int64_t j = 0; j < d; ++j) {
      double mean = 0;
      for (std::int64_t i = 0; i < x.rows; ++i) mean += x(i, j) / n;
      for (std::int64_t i = 0; i < x.rows; ++i) x(i, j) -= mean;
    }
    m.scatter = multiply_transposed(x, x);
    m.n = m.n_centred = x.rows;
    m.sum_squares = before;
    if (!spectrum_of(m)) continue;
    const Eigenpairs pairs = symmetric_eigen(m.scatter);
    const std::int64_t there = non_zero(pairs.values, m);
    if (there < r) continue;
    double kept = 0;
    for (std::int64_t i = 0; i < r; ++i) kept += pairs.values[static_cast<std::size_t>(i)];
    all.push_back({std::move(rows), columns(pairs.vectors, 0, r), columns(pairs.vectors, r, std::min(r, there - r)),
                   kept / trace(m.scatter)});
  }
  return all;
}

}  // namespace nascent
