#include <algorithm>
#include <cmath>

#include "kernels/parallel.h"
#include "kernels/require.h"
#include "kernels/rmsnorm.h"

namespace nascent::cpu {

void rmsnorm_forward(Stream& s, Tensor y, Tensor rstd, View x, View w, double eps) {
  const std::int64_t n = x.rows(), c = x.cols();
  require_shape("rmsnorm_forward", "y", y, x.shape());
  require_shape("rmsnorm_forward", "w", w, {c});
  dispatch(x.dtype(), [&]<class T>() {
    const T* weight = w.data<T>();
    parallel_for(s, n, 16, [&](std::int64_t begin, std::int64_t end, int) {
      for (std::int64_t i = begin; i < end; ++i) {
        const T* in = x.data<T>() + i * c;
        T* out = y.data<T>() + i * c;
        T square = 0;
#pragma omp simd reduction(+ : square)
        for (std::int64_t j = 0; j < c; ++j) square += in[j] * in[j];
        const T r = 1 / std::sqrt(square / static_cast<T>(c) + static_cast<T>(eps));
        for (std::int64_t j = 0; j < c; ++j) out[j] = in[j] * r * weight[j];
        rstd.data<T>()[i] = r;
      }
    });
  });
}

void rmsnorm_backward(Stream& s, Tensor dx, Tensor dw, View dy, View x, View rstd, View w, View dresidual) {
  const std::int64_t n = x.rows(), c = x.cols(), chunks = chunks_of(n);
  require_shape("rmsnorm_backward", "dx", dx, x.shape());
  require_shape("rmsnorm_backward", "dy", dy, x.shape());
  if (dresidual) require_shape("rmsnorm_backward", "dresidual", dresidual, x.shape());
  dispatch(x.dtype(), [&]<class T>() {
    const auto partial = s.scratch(x.dtype(), {chunks, c});  // dw of each chunk of rows
    T* sums = partial.template data<T>();
    const T* weight = w.data<T>();
    const T* residual = dresidual ? dresidual.data<T>() : nullptr;
    parallel_for(s, chunks, 1, [&](std::int64_t begin, std::int64_t end, int) {
      for (std::int64_t chunk = begin; chunk < end; ++chunk) {
        T* chunk_dw = sums + chunk * c;
        std::fill_n(chunk_dw, c, T{0});
        for (std::int64_t i = chunk * kChunk; i < std::min(n, (chunk + 1) * kChunk); ++i) {
          const T *in = x.data<T>() + i * c, *g = dy.data<T>() + i * c;
          const T r = rstd.data<T>()[i];
          T sum_gn = 0;
#pragma omp simd reduction(+ : sum_gn)
          for (std::int64_t j = 0; j < c; ++j) sum_gn += g[j] * weight[j] * in[j] * r;
          sum_gn /= static_cast<T>(c);
          T* out = dx.data<T>() + i * c;
#pragma omp simd
          for (std::int64_t j = 0; j < c; ++j) {
            const T normed = in[j] * r;
            chunk_dw[j] += g[j] * normed;
            const T around = residual ? residual[i * c + j] : T{0};
            out[j] = around + r * (g[j] * weight[j] - normed * sum_gn);
          }
        }
      }
    });
    T* total = dw.data<T>();
    for (std::int64_t chunk = 0; chunk < chunks; ++chunk) {
      for (std::int64_t j = 0; j < c; ++j) total[j] += sums[chunk * c + j];
    }
  });
}

}  // namespace nascent::cpu
