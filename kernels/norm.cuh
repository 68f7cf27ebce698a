// The kernels of layernorm (kCentred) and rmsnorm (not: mean 0, no bias), formulas in norm.h and rmsnorm.h.
#pragma once

#include <cmath>

#include "kernels/reduce.cuh"

namespace nascent::cuda {

constexpr int kRowsOfBlock = kThreads / kWarp;  // a warp a row

// y, x [n, c]; mean (only centred), rstd [n]; w, b (only centred) [c], null: 1 and 0.
template <class T, bool kCentred>
__global__ void norm_forward(T* y, T* mean, T* rstd, const T* x, const T* w, const T* b, T eps, std::int64_t n,
                             std::int64_t c) {
  const std::int64_t row = std::int64_t{blockIdx.x} * kRowsOfBlock + threadIdx.x / kWarp;
  const int lane = threadIdx.x % kWarp;
  if (row >= n) return;  // the whole warp does
  const T* in = x + row * c;
  T* out = y + row * c;
  T m = 0, square = 0;
  if constexpr (kCentred) {
    for (std::int64_t j = lane; j < c; j += kWarp) m += in[j];
    m = warp_sum(m) / static_cast<T>(c);
  }
  for (std::int64_t j = lane; j < c; j += kWarp) square += (in[j] - m) * (in[j] - m);
  const T r = 1 / std::sqrt(warp_sum(square) / static_cast<T>(c) + eps);
  for (std::int64_t j = lane; j < c; j += kWarp) {
    const T normed = (in[j] - m) * r * (w ? w[j] : T{1});
    out[j] = kCentred && b ? normed + b[j] : normed;
  }
  if (lane == 0) {
    rstd[row] = r;
    if constexpr (kCentred) mean[row] = m;
  }
}

// dx [n, c] = dresidual (may be null, may be dx) + the gradient through the norm. dx may be dy; w may be null.
template <class T, bool kCentred>
__global__ void norm_backward_x(T* dx, const T* dy, const T* x, const T* mean, const T* rstd, const T* w,
                                const T* dresidual, std::int64_t n, std::int64_t c) {
  const std::int64_t row = std::int64_t{blockIdx.x} * kRowsOfBlock + threadIdx.x / kWarp;
  const int lane = threadIdx.x % kWarp;
  if (row >= n) return;  // the whole warp does
  const T *in = x + row * c, *grad = dy + row * c;
  const T m = kCentred ? mean[row] : T{0}, r = rstd[row];
  T sum_g = 0, sum_gn = 0;
  for (std::int64_t j = lane; j < c; j += kWarp) {
    const T g = w ? grad[j] * w[j] : grad[j];
    sum_g += g;
    sum_gn += g * (in[j] - m) * r;
  }
  sum_g = kCentred ? warp_sum(sum_g) / static_cast<T>(c) : T{0};
  sum_gn = warp_sum(sum_gn) / static_cast<T>(c);
  for (std::int64_t j = lane; j < c; j += kWarp) {
    const T around = dresidual ? dresidual[row * c + j] : T{0};
    const T g = w ? grad[j] * w[j] : grad[j];
    dx[row * c + j] = around + r * (g - sum_g - (in[j] - m) * r * sum_gn);
  }
}

// partials [chunks, 2, c]: each chunk's sums of dy n and (centred) of dy, for dw and db. A block a chunk, a thread a
// column.
template <class T, bool kCentred>
__global__ void norm_backward_w(T* partials, const T* dy, const T* x, const T* mean, const T* rstd, std::int64_t n,
                                std::int64_t c) {
  SHARED(T, means, kRowsOfChunk);
  SHARED(T, rstds, kRowsOfChunk);
  const std::int64_t first = blockIdx.x * kRowsOfChunk;
  const int rows = static_cast<int>(n - first < kRowsOfChunk ? n - first : kRowsOfChunk);
  if (static_cast<int>(threadIdx.x) < rows) {
    means[threadIdx.x] = kCentred ? mean[first + threadIdx.x] : T{0};
    rstds[threadIdx.x] = rstd[first + threadIdx.x];
  }
  __syncthreads();
  for (std::int64_t j = threadIdx.x; j < c; j += blockDim.x) {
    T sum_w = 0, sum_b = 0;
    for (int i = 0; i < rows; ++i) {
      const std::int64_t at = (first + i) * c + j;
      sum_w += dy[at] * (x[at] - means[i]) * rstds[i];
      sum_b += dy[at];
    }
    T* out = partials + blockIdx.x * 2 * c + j;
    out[0] = sum_w;
    if constexpr (kCentred) out[c] = sum_b;
  }
}

// Both gradients; mean and db only where centred, dw and db not where there is no w.
template <class T, bool kCentred>
void norm_backward(Stream& s, const char* name, Tensor dx, T* dw, T* db, View dy, View x, const T* mean, View rstd,
                   View w, View dresidual) {
  const std::int64_t n = x.rows(), c = x.cols();
  const unsigned chunks = blocks_for(n, kRowsOfChunk), columns = blocks_for(c, kThreads);
  const auto scratch = s.scratch(x.dtype(), {chunks, 2, c});
  T* partials = scratch.template data<T>();
  if (dw) {
    launch(s, name, norm_backward_w<T, kCentred>, chunks, kThreads, partials, dy.data<T>(), x.data<T>(), mean,
           rstd.data<T>(), n, c);
    launch(s, name, add_partials<T>, columns, kThreads, dw, partials, chunks, 2 * c, c);
    if constexpr (kCentred) launch(s, name, add_partials<T>, columns, kThreads, db, partials + c, chunks, 2 * c, c);
  }
  launch(s, name, norm_backward_x<T, kCentred>, blocks_for(n, kRowsOfBlock), kThreads, dx.data<T>(), dy.data<T>(),
         x.data<T>(), mean, rstd.data<T>(), w ? w.data<T>() : nullptr, dresidual ? dresidual.data<T>() : nullptr, n, c);
}

}  // namespace nascent::cuda
