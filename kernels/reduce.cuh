// Sums over rows in a fixed order: each chunk of rows by itself, then the chunks in order. No atomics.
#pragma once

#include "kernels/cuda.cuh"

namespace nascent::cuda {

constexpr std::int64_t kRowsOfChunk = 32;

// out [c] += partials[0], partials[stride], ... of each column, `chunks` of them. A thread a column.
template <class T>
__global__ void add_partials(T* out, const T* partials, std::int64_t chunks, std::int64_t stride, std::int64_t c) {
  const std::int64_t j = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (j >= c) return;
  T total = 0;
  for (std::int64_t chunk = 0; chunk < chunks; ++chunk) total += partials[chunk * stride + j];
  out[j] += total;
}

}  // namespace nascent::cuda
