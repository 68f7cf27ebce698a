#include <algorithm>
#include <cmath>

#include "kernels/parallel.h"
#include "kernels/reduce.h"
#include "kernels/require.h"

namespace nascent::cpu {
namespace {

constexpr std::int64_t kElements = 4096;  // of one partial sum
constexpr std::int64_t kLanes = 32;       // independent sums in it: as many as keep the vector units busy

// Sums f(i) over [0, n): in fixed lanes over fixed runs of elements, then over lanes and runs in order. The same bits
// for any number of threads and any vector width.
template <class F>
double fixed_order_sum(Stream& s, std::int64_t n, F f) {
  const std::int64_t runs = (n + kElements - 1) / kElements;
  const auto partial = s.scratch(DType::kF64, {std::max<std::int64_t>(runs, 1)});
  double* sums = partial.data<double>();
  parallel_for(s, runs, 4, [&](std::int64_t begin, std::int64_t end, int) {
    for (std::int64_t run = begin; run < end; ++run) {
      const std::int64_t first = run * kElements, last = std::min(n, first + kElements);
      double lanes[kLanes] = {};
      std::int64_t i = first;
      for (; i + kLanes <= last; i += kLanes) {
        for (std::int64_t lane = 0; lane < kLanes; ++lane) lanes[lane] += f(i + lane);
      }
      for (std::int64_t lane = 0; i < last; ++i, ++lane) lanes[lane] += f(i);
      sums[run] = 0;
      for (const double lane : lanes) sums[run] += lane;
    }
  });
  double total = 0;
  for (std::int64_t run = 0; run < runs; ++run) total += sums[run];
  return total;
}

}  // namespace

void column_sum(Stream& s, Tensor out, View x) {
  require_shape("column_sum", "out", out, {x.cols()});
  const std::int64_t n = x.rows(), c = x.cols(), chunks = chunks_of(n);
  dispatch(x.dtype(), [&]<class T>() {
    const auto partial = s.scratch(x.dtype(), {chunks, c});
    T* sums = partial.template data<T>();
    const T* in = x.data<T>();
    parallel_for(s, chunks, 1, [&](std::int64_t begin, std::int64_t end, int) {
      for (std::int64_t chunk = begin; chunk < end; ++chunk) {
        T* row = sums + chunk * c;
        std::fill_n(row, c, T{0});
        for (std::int64_t i = chunk * kChunk; i < std::min(n, (chunk + 1) * kChunk); ++i) {
          for (std::int64_t j = 0; j < c; ++j) row[j] += in[i * c + j];
        }
      }
    });
    T* total = out.data<T>();
    for (std::int64_t chunk = 0; chunk < chunks; ++chunk) {
      for (std::int64_t j = 0; j < c; ++j) total[j] += sums[chunk * c + j];
    }
  });
}

// Each thread owns a strip of columns.
void column_max(Stream& s, Tensor out, View x) {
  require_shape("column_max", "out", out, {x.cols()});
  const std::int64_t n = x.rows(), c = x.cols();
  dispatch(x.dtype(), [&]<class T>() {
    const T* in = x.data<T>();
    T* most = out.data<T>();
    parallel_for(s, c, 64, [&](std::int64_t begin, std::int64_t end, int) {
      for (std::int64_t i = 0; i < n; ++i) {
        for (std::int64_t j = begin; j < end; ++j) {
          const T x = in[i * c + j];
          most[j] = x > most[j] || x != x ? x : most[j];  // a NaN stays: nothing is larger
        }
      }
    });
  });
}

void sum_squares(Stream& s, Tensor out, View x) {
  *out.data<double>() = dispatch(x.dtype(), [&]<class T>() {
    const T* p = x.data<T>();
    return fixed_order_sum(s, x.size(),
                           [p](std::int64_t i) { return static_cast<double>(p[i]) * static_cast<double>(p[i]); });
  });
}

void sum(Stream& s, Tensor out, View x) {
  *out.data<double>() = dispatch(x.dtype(), [&]<class T>() {
    const T* p = x.data<T>();
    return fixed_order_sum(s, x.size(), [p](std::int64_t i) { return static_cast<double>(p[i]); });
  });
}

void sum_squared_difference(Stream& s, Tensor out, View x, View y) {
  require_shape("sum_squared_difference", "y", y, x.shape());
  *out.data<double>() = dispatch(x.dtype(), [&]<class T>() {
    const T *a = x.data<T>(), *b = y.data<T>();
    return fixed_order_sum(s, x.size(), [a, b](std::int64_t i) {
      const double difference = static_cast<double>(a[i]) - static_cast<double>(b[i]);
      return difference * difference;
    });
  });
}

void max_abs(Stream& s, Tensor out, View x) {
  const std::int64_t n = x.size(), runs = (n + kElements - 1) / kElements;
  const auto partial = s.scratch(DType::kF64, {std::max<std::int64_t>(runs, 1)});
  double* most = partial.data<double>();
  dispatch(x.dtype(), [&]<class T>() {
    const T* p = x.data<T>();
    parallel_for(s, runs, 4, [&](std::int64_t begin, std::int64_t end, int) {
      for (std::int64_t run = begin; run < end; ++run) {
        T largest = 0, not_a_number = 0;
        const std::int64_t last = std::min(n, (run + 1) * kElements);
#pragma omp simd reduction(max : largest) reduction(+ : not_a_number)
        for (std::int64_t i = run * kElements; i < last; ++i) {
          const T size = std::abs(p[i]);
          largest = size > largest ? size : largest;
          not_a_number += size - size;  // 0, or NaN where x is NaN or infinite
        }
        most[run] = not_a_number == 0 ? static_cast<double>(largest) : std::nan("");
      }
    });
  });
  double largest = 0;
  for (std::int64_t run = 0; run < runs; ++run)
    largest = std::isnan(most[run]) ? most[run] : std::max(largest, most[run]);
  *out.data<double>() = largest;
}

}  // namespace nascent::cpu
