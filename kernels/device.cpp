#include "kernels/device.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "kernels/error.h"
#include "kernels/slab.h"
#include "kernels/stream.h"

namespace nascent {

DeviceStatus status_of(Device device) {
  if (device == Device::kCpu) return {1, "cpu"};
  return cuda::status ? cuda::status() : DeviceStatus{0, "built without CUDA"};
}

void require_device(Device device) {
  if (const DeviceStatus status = status_of(device); status.count == 0)
    throw input_error("device {}: there is none here ({}), expected cpu", name_of(device), status.text);
}

DeviceBlock::DeviceBlock(Device device, std::size_t bytes, const char* owner) : bytes_(bytes), device_(device) {
  require_device(device);
  const std::size_t rounded =
      (std::max<std::size_t>(bytes, 1) + Slab::kAlignment - 1) / Slab::kAlignment * Slab::kAlignment;
  void* memory = device == Device::kCpu ? std::aligned_alloc(Slab::kAlignment, rounded) : cuda::allocate(rounded);
  if (!memory) throw machine_error("{}: no memory for {} bytes on {}", owner, bytes, name_of(device));
  data_ = static_cast<std::byte*>(memory);
}

DeviceBlock::~DeviceBlock() {
  if (!data_) return;
  if (device_ == Device::kCpu) {
    std::free(data_);
  } else {
    cuda::release(data_);
  }
}

DeviceBlock::DeviceBlock(DeviceBlock&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), bytes_(other.bytes_), device_(other.device_) {}

DeviceBlock& DeviceBlock::operator=(DeviceBlock&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  std::swap(device_, other.device_);
  return *this;
}

void fill_bytes(Device device, void* to, int byte, std::size_t bytes) {
  if (device == Device::kCpu) {
    std::memset(to, byte, bytes);
  } else {
    cuda::fill_bytes(to, byte, bytes);
  }
}

void copy_bytes(Device to_device, void* to, Device from_device, const void* from, std::size_t bytes) {
  if (bytes == 0) return;
  if (to_device == Device::kCpu && from_device == Device::kCpu) {
    std::memcpy(to, from, bytes);
  } else {
    cuda::copy_bytes(to, from, bytes);
  }
}

void copy(Stream& s, Tensor to, View from) {
  if (to.shape() != from.shape() || to.dtype() != from.dtype()) {
    throw machine_error("copy: to {} {}, from {} {}", name_of(to.dtype()), to.shape().text(), name_of(from.dtype()),
                        from.shape().text());
  }
  s.wait();
  copy_bytes(to.device(), to.address(), from.device(), from.address(), from.bytes());
}

void throw_device_error(const char* call, const char* problem, const char* file, int line) {
  throw machine_error("{}: {} ({}:{})", call, problem, file, line);
}

}  // namespace nascent
