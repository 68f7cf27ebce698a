#include "kernels/cublas.cuh"
#include "kernels/cuda.cuh"
#include "kernels/device.h"
#include "kernels/gemm.h"

namespace nascent::cuda {

std::shared_ptr<Handles> make_handles() { return std::make_shared<Handles>(); }

void wait(Handles& handles) { CUDA_CHECK(cudaStreamSynchronize(handles.stream)); }

void check(cudaError_t status, const char* call, const char* file, int line) {
  if (status != cudaSuccess) throw_device_error(call, cudaGetErrorString(status), file, line);
}

unsigned blocks_for(std::int64_t n, std::int64_t each) {
  constexpr std::int64_t kMost = (std::int64_t{1} << 31) - 1;
  const std::int64_t blocks = (n + each - 1) / each;
  if (blocks > kMost) throw_device_error("a kernel's grid", "more than 2^31 - 1 blocks", __FILE__, __LINE__);
  return static_cast<unsigned>(blocks);
}

}  // namespace nascent::cuda
