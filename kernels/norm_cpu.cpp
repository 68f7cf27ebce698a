#include <algorithm>
#include <cmath>

#include "kernels/norm.h"
#include "kernels/parallel.h"
#include "kernels/require.h"

namespace nascent::cpu {
namespace {

template <class T>
const T* filled(T* row, std::int64_t c, T with) {
  std::fill_n(row, c, with);
  return row;
}

}  // namespace

void layernorm_forward(Stream& s, Tensor y, Tensor mean, Tensor rstd, View x, View w, View b, double eps) {
  const std::int64_t n = x.rows(), c = x.cols();
  require_shape("layernorm_forward", "y", y, x.shape());
  if (w) require_shape("layernorm_forward", "w", w, {c});
  if (b) require_shape("layernorm_forward", "b", b, {c});
  dispatch(x.dtype(), [&]<class T>() {
    const auto defaults = s.scratch(x.dtype(), {2, c});
    const T* weight = w ? w.data<T>() : filled(defaults.template data<T>(), c, T{1});
    const T* bias = b ? b.data<T>() : filled(defaults.template data<T>() + c, c, T{0});
    parallel_for(s, n, 16, [&](std::int64_t begin, std::int64_t end, int) {
      for (std::int64_t i = begin; i < end; ++i) {
        const T* in = x.data<T>() + i * c;
        T* out = y.data<T>() + i * c;
        T total = 0, square = 0;
#pragma omp simd reduction(+ : total)
        for (std::int64_t j = 0; j < c; ++j) total += in[j];
        const T m = total / static_cast<T>(c);
#pragma omp simd reduction(+ : square)
        for (std::int64_t j = 0; j < c; ++j) square += (in[j] - m) * (in[j] - m);
        const T r = 1 / std::sqrt(square / static_cast<T>(c) + static_cast<T>(eps));
        for (std::int64_t j = 0; j < c; ++j) out[j] = (in[j] - m) * r * weight[j] + bias[j];
        mean.data<T>()[i] = m;
        rstd.data<T>()[i] = r;
      }
    });
  });
}

void layernorm_backward(Stream& s, Tensor dx, Tensor dw, Tensor db, View dy, View x, View mean, View rstd, View w,
                        View dresidual) {
  const std::int64_t n = x.rows(), c = x.cols(), chunks = chunks_of(n);
  require_shape("layernorm_backward", "dx", dx, x.shape());
  require_shape("layernorm_backward", "dy", dy, x.shape());
  if (dresidual) require_shape("layernorm_backward", "dresidual", dresidual, x.shape());
  dispatch(x.dtype(), [&]<class T>() {
    const auto partial = s.scratch(x.dtype(), {chunks, 2, c});  // dw and db of each chunk of rows
    T* sums = partial.template data<T>();
    const auto ones = s.scratch(x.dtype(), {c});
    const T* weight = w ? w.data<T>() : filled(ones.template data<T>(), c, T{1});
    const T* residual = dresidual ? dresidual.data<T>() : nullptr;
    parallel_for(s, chunks, 1, [&](std::int64_t begin, std::int64_t end, int) {
      for (std::int64_t chunk = begin; chunk < end; ++chunk) {
        T *chunk_dw = sums + chunk * 2 * c, *chunk_db = chunk_dw + c;
        std::fill_n(chunk_dw, 2 * c, T{0});
        for (std::int64_t i = chunk * kChunk; i < std::min(n, (chunk + 1) * kChunk); ++i) {
          const T *in = x.data<T>() + i * c, *g = dy.data<T>() + i * c;
          const T m = mean.data<T>()[i], r = rstd.data<T>()[i];
          T sum_g = 0, sum_gn = 0;
#pragma omp simd reduction(+ : sum_g, sum_gn)
          for (std::int64_t j = 0; j < c; ++j) {
            const T normed = (in[j] - m) * r;
            sum_g += g[j] * weight[j];
            sum_gn += g[j] * weight[j] * normed;
          }
          sum_g /= static_cast<T>(c);
          sum_gn /= static_cast<T>(c);
          T* out = dx.data<T>() + i * c;
#pragma omp simd
          for (std::int64_t j = 0; j < c; ++j) {
            const T normed = (in[j] - m) * r;
            chunk_dw[j] += g[j] * normed;
            chunk_db[j] += g[j];
            const T around = residual ? residual[i * c + j] : T{0};
            out[j] = around + r * (g[j] * weight[j] - sum_g - normed * sum_gn);
          }
        }
      }
    });
    if (!dw) return;
    T *total_w = dw.data<T>(), *total_b = db.data<T>();
    for (std::int64_t chunk = 0; chunk < chunks; ++chunk) {
      for (std::int64_t j = 0; j < c; ++j) {
        total_w[j] += sums[(chunk * 2) * c + j];
        total_b[j] += sums[(chunk * 2 + 1) * c + j];
      }
    }
  });
}

}  // namespace nascent::cpu
