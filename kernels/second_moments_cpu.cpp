#include <algorithm>
#include <cmath>

#include "kernels/gemm.h"
#include "kernels/parallel.h"
#include "kernels/reduce.h"
#include "kernels/require.h"
#include "kernels/second_moments.h"

namespace nascent::cpu {
namespace {

constexpr std::int64_t kRows = 1024;  // positions centred at a time
constexpr std::int64_t kStrip = 128;  // rows of the triangle in one product

template <class T>
bool is_zero(const T* row, std::int64_t d) {
  return std::all_of(row, row + d, [](T x) { return x == 0; });
}

}  // namespace

void row_statistics(Stream& s, Tensor sum, Tensor unit_sum, Tensor scalars, View x) {
  const std::int64_t n = x.rows(), d = x.cols(), chunks = chunks_of(n);
  require_shape("row_statistics", "sum", sum, {d});
  require_shape("row_statistics", "unit_sum", unit_sum, {d});
  require_shape("row_statistics", "scalars", scalars, {kRowScalars});
  const std::int64_t width = 2 * d + kLargest;  // of a chunk's partial sums: sum, unit_sum, the scalars that add up
  const auto partial = s.scratch(DType::kF64, {std::max<std::int64_t>(chunks, 1), width});
  double* sums = partial.data<double>();
  dispatch(x.dtype(), [&]<class T>() {
    parallel_for(s, chunks, 1, [&](std::int64_t begin, std::int64_t end, int) {
      for (std::int64_t chunk = begin; chunk < end; ++chunk) {
        double *total = sums + chunk * width, *unit = total + d, *scalar = unit + d;
        std::fill_n(total, width, 0.0);
        for (std::int64_t i = chunk * kChunk; i < std::min(n, (chunk + 1) * kChunk); ++i) {
          const T* row = x.data<T>() + i * d;
          double square = 0;
#pragma omp simd reduction(+ : square)
          for (std::int64_t j = 0; j < d; ++j) square += static_cast<double>(row[j]) * static_cast<double>(row[j]);
          const double norm = std::sqrt(square), inverse = norm > 0 ? 1 / norm : 0;
          for (std::int64_t j = 0; j < d; ++j) {
            total[j] += static_cast<double>(row[j]);
            unit[j] += static_cast<double>(row[j]) * inverse;
          }
          scalar[kSumNorm] += norm;
          scalar[kSumSquares] += square;
          scalar[norm > 0 || std::isnan(norm) ? kUnitRows : kZeroRows] += 1;
        }
      }
    });
  });
  std::fill_n(sum.data<double>(), d, 0.0);
  std::fill_n(unit_sum.data<double>(), d, 0.0);
  std::fill_n(scalars.data<double>(), kRowScalars, 0.0);
  for (std::int64_t chunk = 0; chunk < chunks; ++chunk) {
    const double* total = sums + chunk * width;
    for (std::int64_t j = 0; j < d; ++j) sum.data<double>()[j] += total[j];
    for (std::int64_t j = 0; j < d; ++j) unit_sum.data<double>()[j] += total[d + j];
    for (std::int64_t j = 0; j < kLargest; ++j) scalars.data<double>()[j] += total[2 * d + j];
  }
  max_abs(s, Tensor(scalars.data<double>() + kLargest, DType::kF64, {1}), x);
}

void second_moments(Stream& s, Tensor scatter, View x, View mean, double largest, bool skip_zero_rows) {
  const std::int64_t n = x.rows(), d = x.cols();
  require_shape("second_moments", "scatter", scatter, {d, d});
  require_shape("second_moments", "mean", mean, {d});
  double* total = scatter.data<double>();
  std::fill_n(total, d * d, 0.0);
  if (n == 0 || !(largest > 0)) return;
  const double scale = std::ldexp(1.0, -std::ilogb(largest));  // exact: a power of two
  const double* mu = mean.data<double>();

  dispatch(x.dtype(), [&]<class T>() {
    const auto centred_memory = s.scratch(x.dtype(), {kRows, d});
    const auto product_memory = s.scratch(x.dtype(), {d, d});
    T* centred = centred_memory.template data<T>();
    T* product = product_memory.template data<T>();
    for (std::int64_t first = 0; first < n; first += kRows) {
      const std::int64_t rows = std::min(kRows, n - first);
      parallel_for(s, rows, 16, [&](std::int64_t begin, std::int64_t end, int) {
        for (std::int64_t i = begin; i < end; ++i) {
          const T* row = x.data<T>() + (first + i) * d;
          T* out = centred + i * d;
          if (skip_zero_rows && is_zero(row, d)) {
            std::fill_n(out, d, T{0});
          } else {
            for (std::int64_t j = 0; j < d; ++j) out[j] = static_cast<T>((static_cast<double>(row[j]) - mu[j]) * scale);
          }
        }
      });
      for (std::int64_t strip = 0; strip < d; strip += kStrip) {
        const std::int64_t height = std::min(kStrip, d - strip), width = d - strip;
        const Matrix<const T> left{centred + strip, rows, height, d}, right{centred + strip, rows, width, d};
        gemm<T>(s, Matrix<T>{product + strip * d + strip, height, width, d}, left.transposed(), right,
                first == 0 ? Into::kAssign : Into::kAdd);
      }
    }
    const double undo = 1 / (scale * scale);
    parallel_for(s, d, 8, [&](std::int64_t begin, std::int64_t end, int) {
      for (std::int64_t i = begin; i < end; ++i) {
        for (std::int64_t j = 0; j < d; ++j) {
          // Element (i, j) of the upper triangle of strips, or its mirror image.
          const bool computed = j >= i / kStrip * kStrip;
          total[i * d + j] = static_cast<double>(computed ? product[i * d + j] : product[j * d + i]) * undo;
        }
      }
    });
  });
}

}  // namespace nascent::cpu
