// Where kernels run: the explicit first argument of every kernel. A stream owns its device's handles, the prepared
// matrix products and a scratch stack. Nothing of it is global.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "kernels/view.h"

namespace nascent {

struct GemmShape;
class Gemm;

namespace cuda {
struct Handles;  // a cudaStream_t and what belongs to it (cuda.cuh)
}

class Stream {
 public:
  // threads: how many the CPU kernels use; 0 takes all that this process may run on.
  explicit Stream(Device device = Device::kCpu, int threads = 0);
  ~Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  Device device() const { return device_; }
  int threads() const { return threads_; }
  cuda::Handles& handles() const;  // of a stream on Device::kCuda only

  // Returns when all work given to the stream has ended; kernels of the CPU have when they return.
  void wait();

  // Uninitialized memory until the object goes out of scope; scratches end in reverse order of their start. The memory
  // is kept, so that after the first step nothing is allocated.
  class Scratch;
  Scratch scratch(DType dtype, Shape shape);

  // The product prepared for this shape, made at its first use. Not to be called inside a parallel region.
  const Gemm& gemm(const GemmShape& shape);

  // Whether every op refuses what is not finite (kernel.h); off at first. On the CPU only, else throws.
  void check_finite(bool on);
  bool checks_finite() const { return checks_finite_; }

  // How far the program is, for the message of such a refusal: "step 3, blocks.1". `part` must outlive its use.
  void enter_step(std::int64_t step) { place_ = {step, "", -1}; }
  void enter(const char* part, std::int64_t number = -1) { place_ = {place_.step, part, number}; }
  std::string place() const;

 private:
  struct Place {
    std::int64_t step = -1;  // -1: in none
    const char* part = "";
    std::int64_t number = -1;  // of the part, -1 where there is one alone
  };
  struct Impl;
  std::byte* push(std::size_t bytes);
  void pop();

  Device device_;
  int threads_;
  bool checks_finite_ = false;
  Place place_;
  std::unique_ptr<Impl> impl_;
};

class Stream::Scratch {
 public:
  Scratch(Stream& stream, Tensor tensor) : stream_(stream), tensor_(tensor) {}
  ~Scratch() { stream_.pop(); }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  operator Tensor() const { return tensor_; }
  operator View() const { return tensor_; }
  const Tensor& operator*() const { return tensor_; }
  template <class T>
  T* data() const {
    return tensor_.data<T>();
  }

 private:
  Stream& stream_;
  Tensor tensor_;
};

}  // namespace nascent
