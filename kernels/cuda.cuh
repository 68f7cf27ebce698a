// What every *_cuda.cu file starts from: checked calls, one way to start a kernel, sums in a fixed order.
//
// Kernels keep to the part of the language that tests/emulation runs on the CPU: shared memory through SHARED, barriers,
// warp shuffles, atomics; no cub, no cooperative groups, no inline PTX.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cuda_runtime.h>
#include <memory>

#include "kernels/stream.h"

// SHARED(T, name, n): n elements of shared memory. The emulation has its own, which sees what is written beside it.
#ifndef SHARED
#define SHARED(T, name, n) __shared__ T name[n]
#endif

#define CUDA_CHECK(call) ::nascent::cuda::check(call, #call, __FILE__, __LINE__)

namespace nascent::cuda {

constexpr int kWarp = 32;
constexpr unsigned kAllLanes = 0xffffffffu;
constexpr int kThreads = 256;  // of a block, where a kernel has no reason for another number

// Throws (machine) where a call failed, with the call and its place.
void check(cudaError_t status, const char* call, const char* file, int line);

class Blas;  // cublas.cuh

struct Handles {
  cudaStream_t stream = nullptr;
  std::shared_ptr<Blas> blas;  // from the first product on

  Handles() { CUDA_CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking)); }
  ~Handles() { cudaStreamDestroy(stream); }
  Handles(const Handles&) = delete;
  Handles& operator=(const Handles&) = delete;
};

inline cudaStream_t stream_of(const Stream& s) { return s.handles().stream; }

// How many blocks cover n with `each`; throws where a grid cannot have so many.
unsigned blocks_for(std::int64_t n, std::int64_t each);

// Starts kernel<<<blocks, threads>>>(args...) on the stream; `name` is what an error names. No blocks: nothing to do.
template <class... Params, class... Args>
void launch(cudaStream_t stream, const char* name, void (*kernel)(Params...), unsigned blocks, int threads,
            Args... args) {
  if (blocks == 0) return;
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(blocks);
  config.blockDim = dim3(static_cast<unsigned>(threads));
  config.stream = stream;
  check(cudaLaunchKernelEx(&config, kernel, static_cast<Params>(args)...), name, __FILE__, __LINE__);
}

template <class... Params, class... Args>
void launch(Stream& s, const char* name, void (*kernel)(Params...), unsigned blocks, int threads, Args... args) {
  launch(stream_of(s), name, kernel, blocks, threads, args...);
}

// The sum over a warp's lanes, the same bits in each. Every lane calls it.
template <class T>
__device__ T warp_sum(T x) {
  for (int step = kWarp / 2; step > 0; step /= 2) x += __shfl_xor_sync(kAllLanes, x, step);
  return x;
}

}  // namespace nascent::cuda
