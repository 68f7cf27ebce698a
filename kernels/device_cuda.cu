#include <cstdio>

#include "kernels/cuda.cuh"
#include "kernels/device.h"

namespace nascent::cuda {
namespace {

std::string describe(const cudaDeviceProp& device) {
  char text[sizeof device.name + 64];
  std::snprintf(text, sizeof text, "%s (sm_%d%d, %.1f GiB)", device.name, device.major, device.minor,
                static_cast<double>(device.totalGlobalMem) / (1 << 30));
  return text;
}

}  // namespace

DeviceStatus status() {
  std::string text = "CUDA " + std::to_string(CUDART_VERSION / 1000) + "." + std::to_string(CUDART_VERSION % 1000 / 10);
  int count = 0;
  if (const cudaError_t status = cudaGetDeviceCount(&count); status != cudaSuccess) {
    cudaGetLastError();  // forget it: it would be taken for the next launch's
    return {0, text + ", no device: " + cudaGetErrorString(status)};
  }
  if (count == 0) return {0, text + ", no device"};
  cudaDeviceProp device{};
  CUDA_CHECK(cudaGetDeviceProperties(&device, 0));
  return {count, text + ", " + describe(device)};
}

void* allocate(std::size_t bytes) {
  void* memory = nullptr;
  const cudaError_t status = cudaMalloc(&memory, bytes);
  if (status == cudaErrorMemoryAllocation) {
    cudaGetLastError();
    return nullptr;
  }
  CUDA_CHECK(status);
  return memory;
}

void release(void* memory) { cudaFree(memory); }

void fill_bytes(void* to, int byte, std::size_t bytes) {
  CUDA_CHECK(cudaMemset(to, byte, bytes));
  CUDA_CHECK(cudaDeviceSynchronize());
}

void copy_bytes(void* to, const void* from, std::size_t bytes) {
  CUDA_CHECK(cudaMemcpy(to, from, bytes, cudaMemcpyDefault));
  CUDA_CHECK(cudaDeviceSynchronize());  // a copy within the device returns before it has ended
}

}  // namespace nascent::cuda
