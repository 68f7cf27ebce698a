// Stands in for CUDA's header where .cu files are compiled as C++ (tests/emulation/README.md): the part of the language
// and of the runtime that our kernels use. What is missing does not compile, which is how one notices.
#pragma once

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <tuple>
#include <type_traits>

#include "tests/emulation/emulation.h"

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __launch_bounds__(...)

// A heap block of the running thread block between red zones; the key is an address that each use of the macro, and
// each instance of a template around it, has alone.
#define SHARED(T, name, n)                       \
  static const char emulation_key_of_##name = 0; \
  T* const name = static_cast<T*>(::emulation::shared(&emulation_key_of_##name, sizeof(T) * (n), #name))

struct dim3 : emulation::Index {
  dim3(unsigned x_ = 1, unsigned y_ = 1, unsigned z_ = 1) : Index{x_, y_, z_} {}
};

namespace emulation {

// threadIdx and the like: what stands at .x is asked for when it is read.
template <Index (*kIndex)()>
struct Coordinates {
  struct X {
    operator unsigned() const { return kIndex().x; }
  } x;
};

}  // namespace emulation

inline constexpr emulation::Coordinates<emulation::thread_index> threadIdx{};
inline constexpr emulation::Coordinates<emulation::block_index> blockIdx{};
inline constexpr emulation::Coordinates<emulation::block_size> blockDim{};
inline constexpr emulation::Coordinates<emulation::grid_size> gridDim{};

#define __syncthreads() ::emulation::sync_threads(__FILE__, __LINE__)
#define __syncwarp(...) ::emulation::sync_lanes(::emulation::mask_of(__VA_ARGS__), 0, "__syncwarp", __FILE__, __LINE__)
#define __shfl_sync(mask, value, source) ::emulation::shuffle(mask, value, source, "__shfl_sync", __FILE__, __LINE__)
#define __shfl_xor_sync(mask, value, with) \
  ::emulation::shuffle(mask, value, ::emulation::lane() ^ (with), "__shfl_xor_sync", __FILE__, __LINE__)
#define __shfl_down_sync(mask, value, by)                                                                    \
  ::emulation::shuffle(mask, value, ::emulation::same_if_beyond(::emulation::lane() + static_cast<int>(by)), \
                       "__shfl_down_sync", __FILE__, __LINE__)
#define __shfl_up_sync(mask, value, by)                                                                      \
  ::emulation::shuffle(mask, value, ::emulation::same_if_beyond(::emulation::lane() - static_cast<int>(by)), \
                       "__shfl_up_sync", __FILE__, __LINE__)
#define __ballot_sync(mask, predicate) ::emulation::ballot(mask, (predicate) != 0, __FILE__, __LINE__)
#define __any_sync(mask, predicate) (__ballot_sync(mask, predicate) != 0)
#define __all_sync(mask, predicate) (__ballot_sync(mask, predicate) == (mask))

namespace emulation {

inline unsigned mask_of(unsigned mask = 0xffffffffu) { return mask; }
inline int same_if_beyond(int lane) { return lane < 0 || lane > 31 ? emulation::lane() : lane; }

template <class T>
T shuffle(unsigned mask, T value, int source, const char* what, const char* file, int line) {
  static_assert(sizeof(T) == 4 || sizeof(T) == 8);
  using Bits = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>;
  source %= 32;
  const Offers offers = sync_lanes(mask, std::bit_cast<Bits>(value), what, file, line);
  if (!(mask >> source & 1)) fault(std::string(what) + " reads a lane that its mask leaves out");
  return std::bit_cast<T>(static_cast<Bits>(offers.of(source)));
}

inline unsigned ballot(unsigned mask, bool mine, const char* file, int line) {
  const Offers offers = sync_lanes(mask, mine, "__ballot_sync", file, line);
  unsigned all = 0;
  for (int lane = 0; lane < 32; ++lane) {
    if (mask >> lane & 1) all |= static_cast<unsigned>(offers.of(lane)) << lane;
  }
  return all;
}

template <class T, class F>
T exchange(T* address, F f) {
  T old;
  atomic_read(&old, address, sizeof(T));
  const T updated = f(old);
  atomic_write(address, &updated, sizeof(T));
  return old;
}

}  // namespace emulation

template <class T, class U>
T atomicAdd(T* address, U value) {
  return emulation::exchange(address, [&](T old) { return old + static_cast<T>(value); });
}
template <class T, class U>
T atomicMax(T* address, U value) {
  return emulation::exchange(address, [&](T old) { return old < static_cast<T>(value) ? static_cast<T>(value) : old; });
}

template <class T>
T __ldg(const T* p) {
  return *p;
}

// The runtime.
enum cudaError_t { cudaSuccess = 0, cudaErrorMemoryAllocation = 2, cudaErrorLaunchFailure = 719 };
enum cudaMemcpyKind { cudaMemcpyDefault = 4 };
using cudaStream_t = void*;
constexpr unsigned cudaStreamNonBlocking = 1;
#define CUDART_VERSION 13000

struct cudaDeviceProp {
  char name[256];
  int major, minor;
  std::size_t totalGlobalMem;
};

inline const char* cudaGetErrorString(cudaError_t e) {
  return e == cudaErrorMemoryAllocation ? "out of memory" : emulation::faults();
}
inline cudaError_t cudaGetLastError() { return cudaSuccess; }
inline cudaError_t cudaDeviceSynchronize() { return cudaSuccess; }
inline cudaError_t cudaGetDeviceCount(int* count) {
  *count = 1;
  return cudaSuccess;
}
inline cudaError_t cudaGetDeviceProperties(cudaDeviceProp* p, int) {
  *p = {"emulated on the CPU", 0, 0, std::size_t{1} << 30};
  return cudaSuccess;
}
inline cudaError_t cudaMalloc(void** memory, std::size_t bytes) {
  if (bytes > std::size_t{1} << 30) return cudaErrorMemoryAllocation;
  *memory = emulation::allocate(bytes);
  return cudaSuccess;
}
inline cudaError_t cudaFree(void* memory) {
  emulation::release(memory);
  return cudaSuccess;
}
inline cudaError_t cudaMemset(void* to, int byte, std::size_t bytes) {
  std::memset(to, byte, bytes);
  return cudaSuccess;
}
inline cudaError_t cudaMemsetAsync(void* to, int byte, std::size_t bytes, cudaStream_t) {
  return cudaMemset(to, byte, bytes);
}
inline cudaError_t cudaMemcpy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind) {
  std::memcpy(to, from, bytes);
  return cudaSuccess;
}
inline cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
  *stream = nullptr;
  return cudaSuccess;
}
inline cudaError_t cudaStreamDestroy(cudaStream_t) { return cudaSuccess; }
inline cudaError_t cudaStreamSynchronize(cudaStream_t) { return cudaSuccess; }

struct cudaLaunchConfig_t {
  dim3 gridDim, blockDim;
  std::size_t dynamicSmemBytes;
  cudaStream_t stream;
};

template <class... Params, class... Args>
cudaError_t cudaLaunchKernelEx(const cudaLaunchConfig_t* config, void (*kernel)(Params...), Args&&... args) {
  struct Parameters {
    void (*kernel)(Params...);
    std::tuple<Params...> values;
  };
  const Parameters parameters{kernel, {static_cast<Params>(args)...}};
  const auto run = [](const void* p) {
    const auto* own = static_cast<const Parameters*>(p);
    std::apply(own->kernel, own->values);
  };
  const bool good = emulation::launch(config->gridDim, config->blockDim, run, &parameters, sizeof parameters);
  return good ? cudaSuccess : cudaErrorLaunchFailure;
}
