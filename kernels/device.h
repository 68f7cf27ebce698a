// Devices, beside running kernels on them: whether they are there, their memory, copies between them.
#pragma once

#include <cstddef>
#include <string>

#include "kernels/view.h"

namespace nascent {

class Stream;

// How many devices of the kind this program can use here, and in words what they are or why there are none.
struct DeviceStatus {
  int count;
  std::string text;  // "CUDA 13.0, NVIDIA H200 (sm_90, 139.8 GiB)", "built without CUDA"
};
DeviceStatus status_of(Device device);
void require_device(Device device);  // throws (input) where there is none

// Owned memory on a device, at a multiple of 64 bytes, not initialized.
class DeviceBlock {
 public:
  DeviceBlock() = default;
  DeviceBlock(Device device, std::size_t bytes, const char* owner);  // owner: whom the error names
  ~DeviceBlock();
  DeviceBlock(DeviceBlock&& other) noexcept;
  DeviceBlock& operator=(DeviceBlock&& other) noexcept;

  std::byte* data() const { return data_; }
  std::size_t bytes() const { return bytes_; }

 private:
  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;
  Device device_ = Device::kCpu;
};

// Sets every byte. Not ordered with kernels: for memory that no stream uses yet.
void fill_bytes(Device device, void* to, int byte, std::size_t bytes);
// Copies bytes between any two devices. Not ordered with kernels either.
void copy_bytes(Device to_device, void* to, Device from_device, const void* from, std::size_t bytes);

// to = from, of the same shape and dtype, on any two devices: after all earlier work of `s`, ended when it returns.
void copy(Stream& s, Tensor to, View from);

// Throws (machine): "cudaMalloc: out of memory (kernels/device_cuda.cu:31)".
[[noreturn]] void throw_device_error(const char* call, const char* problem, const char* file, int line);

// CUDA's part (device_cuda.cu). Weak: null in a program that is built without CUDA.
namespace cuda {
[[gnu::weak]] DeviceStatus status();
[[gnu::weak]] void* allocate(std::size_t bytes);  // null where there is no more
[[gnu::weak]] void release(void* memory);
[[gnu::weak]] void fill_bytes(void* to, int byte, std::size_t bytes);
[[gnu::weak]] void copy_bytes(void* to, const void* from, std::size_t bytes);
}  // namespace cuda

}  // namespace nascent
