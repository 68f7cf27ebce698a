// Where kernels run: the explicit first argument of every kernel. A stream owns its device's handles, the prepared
// matrix products and a scratch stack. Nothing of it is global.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "kernels/view.h"

namespace nascent {

struct GemmShape;
class Gemm;

class Stream {
 public:
  // threads: how many the CPU kernels use; 0 takes all that this process may run on.
  explicit Stream(Device device = Device::kCpu, int threads = 0);
  ~Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  Device device() const { return device_; }
  int threads() const { return threads_; }

  // Uninitialized memory until the object goes out of scope; scratches end in reverse order of their start. The memory
  // is kept, so that after the first step nothing is allocated.
  class Scratch;
  Scratch scratch(DType dtype, Shape shape);

  // The product prepared for this shape, made at its first use. Not to be called inside a parallel region.
  const Gemm& gemm(const GemmShape& shape);

 private:
  struct Impl;
  std::byte* push(std::size_t bytes);
  void pop();

  Device device_;
  int threads_;
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
