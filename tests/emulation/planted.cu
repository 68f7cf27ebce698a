// Kernels with mistakes, one each, that the emulation has to find (test_emulation.cpp).
#include "kernels/cuda.cuh"
#include "tests/emulation/planted.h"

namespace nascent::cuda {
namespace {

constexpr int kBlock = 64;

// out_i = in of the next thread, round the block, through shared memory.
__global__ void next_of_block(int* out, const int* in, bool barrier) {
  SHARED(int, row, kBlock);
  const int i = static_cast<int>(threadIdx.x);
  row[i] = in[i];
  if (barrier) __syncthreads();
  out[i] = row[(i + 1) % kBlock];
}

// The sum of all numbers, by all threads of all blocks at one place.
__global__ void sum(int* out, const int* in, bool atomic) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (atomic) {
    atomicAdd(out, in[i]);
  } else {
    out[0] += in[i];
  }
}

__global__ void past_the_end(int* out, int past) { out[threadIdx.x + static_cast<unsigned>(past)] = 1; }

__global__ void past_the_end_of_shared(int* out, int past) {
  SHARED(int, row, kBlock);
  const int i = static_cast<int>(threadIdx.x) + past;
  row[i] = i;
  out[threadIdx.x] = row[i];
}

__global__ void half_a_barrier(int* out) {
  if (threadIdx.x < kBlock / 2) __syncthreads();
  out[threadIdx.x] = 1;
}

__global__ void half_a_shuffle(int* out) {
  int x = 1;
  if (threadIdx.x % kWarp < kWarp / 2) x = __shfl_xor_sync(kAllLanes, x, 1);
  out[threadIdx.x] = x;
}

}  // namespace

void planted_next_of_block(Stream& s, Tensor out, View in, bool barrier) {
  launch(s, "next_of_block", next_of_block, 1, kBlock, out.data<std::int32_t>(), in.data<std::int32_t>(), barrier);
}
void planted_sum(Stream& s, Tensor out, View in, bool atomic) {
  launch(s, "sum", sum, blocks_for(in.size(), kBlock), kBlock, out.data<std::int32_t>(), in.data<std::int32_t>(),
         atomic);
}
void planted_past_the_end(Stream& s, Tensor out, int past) {
  launch(s, "past_the_end", past_the_end, 1, kBlock, out.data<std::int32_t>(), past);
}
void planted_past_the_end_of_shared(Stream& s, Tensor out, int past) {
  launch(s, "past_the_end_of_shared", past_the_end_of_shared, 1, kBlock, out.data<std::int32_t>(), past);
}
void planted_half_a_barrier(Stream& s, Tensor out) {
  launch(s, "half_a_barrier", half_a_barrier, 1, kBlock, out.data<std::int32_t>());
}
void planted_half_a_shuffle(Stream& s, Tensor out) {
  launch(s, "half_a_shuffle", half_a_shuffle, 1, kBlock, out.data<std::int32_t>());
}

}  // namespace nascent::cuda
