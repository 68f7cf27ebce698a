#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/gemm.h"
#include "kernels/parallel.h"
#include "kernels/require.h"
#include "kernels/row_statistics.h"

namespace nascent::cpu {
namespace {

template <class T>
double squared_norm(const T* row, std::int64_t d) {
  double square = 0;
#pragma omp simd reduction(+ : square)
  for (std::int64_t j = 0; j < d; ++j) square += static_cast<double>(row[j]) * static_cast<double>(row[j]);
  return square;
}

double dot(const double* a, const double* b, std::int64_t d) {
  double sum = 0;
#pragma omp simd reduction(+ : sum)
  for (std::int64_t j = 0; j < d; ++j) sum += a[j] * b[j];
  return sum;
}

// total += factor row
template <class T>
void add_row(double* total, const T* row, std::int64_t d, double factor) {
  for (std::int64_t j = 0; j < d; ++j) total[j] += factor * static_cast<double>(row[j]);
}

// What one row adds to its group.
template <class T>
void add_row_statistics(double* sum, double* unit, double* scalar, const T* row, std::int64_t d, double factor,
                        double weight) {
  const double norm = std::sqrt(squared_norm(row, d));
  add_row(sum, row, d, factor * weight);
  if (norm > 0) add_row(unit, row, d, weight / norm);
  scalar[kSumNorm] += weight * factor * norm;
  scalar[kSumSquares] += weight * factor * norm * factor * norm;
  scalar[norm == 0 ? kZeroRows : kUnitRows] += 1;
}

}  // namespace

void row_statistics(Stream& s, Tensor sums, Tensor unit_sums, Tensor scalars, View x, View rows, View offsets,
                    View factor, View weight) {
  const std::int64_t groups = offsets.size() - 1, d = x.cols();
  require_shape("row_statistics", "sums", sums, {groups, d});
  require_shape("row_statistics", "unit_sums", unit_sums, {groups, d});
  require_shape("row_statistics", "scalars", scalars, {groups, kRowScalars});
  const std::int32_t *chosen = rows.data<std::int32_t>(), *offset = offsets.data<std::int32_t>();
  dispatch(x.dtype(), [&]<class T>() {
    parallel_for(s, groups, 1, [&](std::int64_t begin, std::int64_t end, int) {
      for (std::int64_t g = begin; g < end; ++g) {
        double *sum = sums.data<double>() + g * d, *unit = unit_sums.data<double>() + g * d,
               *scalar = scalars.data<double>() + g * kRowScalars;
        std::fill_n(sum, d, 0.0);
        std::fill_n(unit, d, 0.0);
        std::fill_n(scalar, kRowScalars, 0.0);
        for (std::int32_t at = offset[g]; at < offset[g + 1]; ++at) {
          const std::int64_t i = chosen[at];
          add_row_statistics(sum, unit, scalar, x.data<T>() + i * d, d, factor ? factor.data<double>()[i] : 1,
                             weight ? weight.data<double>()[i] : 1);
        }
      }
    });
  });
}

void row_squares(Stream& s, Tensor out, View x, View rows, View mean, View bases, View ends, double largest,
                 View factor) {
  constexpr std::int64_t kRows = 256;  // at a time
  const std::int64_t n = rows.size(), d = x.cols(), r = bases ? bases.cols() : d, count = bases ? ends.size() : 1;
  require_shape("row_squares", "out", out, {count, n});
  if (bases) require_shape("row_squares", "bases", bases, {d, r});
  double* squares = out.data<double>();
  std::fill_n(squares, count * n, 0.0);
  if (n == 0 || r == 0 || !(largest > 0)) return;
  const double scale = std::ldexp(1.0, -std::ilogb(largest)), undo = 1 / (scale * scale);
  const double* mu = mean ? mean.data<double>() : nullptr;
  dispatch(x.dtype(), [&]<class T>() {
    const auto centred_memory = s.scratch(x.dtype(), {kRows, d});
    const auto along_memory = s.scratch(x.dtype(), {kRows, r});
    const auto basis_memory = s.scratch(x.dtype(), {d, r});
    T *centred = centred_memory.template data<T>(), *along = bases ? along_memory.template data<T>() : centred;
    T* directions = basis_memory.template data<T>();
    if (bases) std::copy_n(bases.data<double>(), d * r, directions);
    for (std::int64_t first = 0; first < n; first += kRows) {
      const std::int64_t filled = std::min(kRows, n - first);
      parallel_for(s, kRows, 16, [&](std::int64_t begin, std::int64_t end, int) {
        for (std::int64_t k = begin; k < end; ++k) {
          T* to = centred + k * d;
          if (k >= filled) {
            std::fill_n(to, d, T{0});
            continue;
          }
          const std::int64_t i = rows.data<std::int32_t>()[first + k];
          const T* row = x.data<T>() + i * d;
          const double f = factor ? factor.data<double>()[i] : 1;
          for (std::int64_t j = 0; j < d; ++j)
            to[j] = static_cast<T>((f * static_cast<double>(row[j]) - (mu ? mu[j] : 0)) * scale);
        }
      });
      if (bases) gemm<T>(s, {along, kRows, r, r}, {centred, kRows, d, d}, {directions, d, r, r}, Into::kAssign);
      for (std::int64_t b = 0; b < count; ++b) {
        const std::int64_t from = b == 0 ? 0 : ends.data<std::int32_t>()[b - 1],
                           to = bases ? ends.data<std::int32_t>()[b] : d;
        for (std::int64_t k = 0; k < filled; ++k)
          squares[b * n + first + k] = squared_norm(along + k * r + from, to - from) * undo;
      }
    }
  });
}

void pair_statistics(Stream& s, Tensor out, View x, View rows, View offsets, View types, View mean) {
  const std::int64_t pairs = offsets.size() - 1, d = x.cols();
  require_shape("pair_statistics", "out", out, {pairs, kPairScalars});
  const std::int32_t *chosen = rows.data<std::int32_t>(), *offset = offsets.data<std::int32_t>(),
                     *first_pair = types.data<std::int32_t>();
  const double* mu = mean.data<double>();
  dispatch(x.dtype(), [&]<class T>() {
    parallel_for(s, types.size() - 1, 1, [&](std::int64_t begin, std::int64_t end, int) {
      std::vector<double> type(static_cast<std::size_t>(2 * d)), pair(type.size());
      double *y_type = type.data(), *u_type = y_type + d, *y_pair = pair.data(), *u_pair = y_pair + d;
      // Y and U of the rows [from, to); the number of rows with a direction.
      const auto add_up = [&](double* y, double* u, std::int32_t from, std::int32_t to) {
        double units = 0;
        std::fill_n(y, d, 0.0);
        std::fill_n(u, d, 0.0);
        for (std::int32_t at = from; at < to; ++at) {
          const T* row = x.data<T>() + static_cast<std::int64_t>(chosen[at]) * d;
          const double norm = std::sqrt(squared_norm(row, d));
          for (std::int64_t j = 0; j < d; ++j) y[j] += static_cast<double>(row[j]) - mu[j];
          if (norm == 0) continue;
          add_row(u, row, d, 1 / norm);
          units += 1;
        }
        return units;
      };
      for (std::int64_t w = begin; w < end; ++w) {
        add_up(y_type, u_type, offset[first_pair[w]], offset[first_pair[w + 1]]);
        for (std::int64_t p = first_pair[w]; p < first_pair[w + 1]; ++p) {
          double* scalar = out.data<double>() + p * kPairScalars;
          scalar[kUnits] = add_up(y_pair, u_pair, offset[p], offset[p + 1]);
          scalar[kRows] = offset[p + 1] - offset[p];
          scalar[kWithType] = dot(y_type, y_pair, d);
          scalar[kSquare] = dot(y_pair, y_pair, d);
          scalar[kUnitWithType] = dot(u_type, u_pair, d);
          scalar[kUnitSquare] = dot(u_pair, u_pair, d);
        }
      }
    });
  });
}

void row_cosines(Stream& s, Tensor out, View x, View y, View rows) {
  const std::int64_t d = x.cols();
  require_shape("row_cosines", "out", out, {rows.size()});
  require_shape("row_cosines", "y", y, x.shape());
  const auto cosines = [&](const auto* x_rows, const auto* y_rows) {
    parallel_for(s, rows.size(), 16, [&](std::int64_t begin, std::int64_t end, int) {
      for (std::int64_t at = begin; at < end; ++at) {
        const std::int64_t i = rows.data<std::int32_t>()[at];
        const auto* a = x_rows + i * d;
        const auto* b = y_rows + i * d;
        const double norms = std::sqrt(squared_norm(a, d)) * std::sqrt(squared_norm(b, d));
        double product = 0;
#pragma omp simd reduction(+ : product)
        for (std::int64_t j = 0; j < d; ++j) product += static_cast<double>(a[j]) * static_cast<double>(b[j]);
        out.data<double>()[at] = norms > 0 ? product / norms : kNoCosine;
      }
    });
  };
  dispatch(x.dtype(), [&]<class X>() { dispatch(y.dtype(), [&]<class Y>() { cosines(x.data<X>(), y.data<Y>()); }); });
}

}  // namespace nascent::cpu
