#include "kernels/slab.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "kernels/error.h"

namespace nascent {
namespace {

#ifdef NDEBUG
constexpr std::size_t kGuard = 0;
#else
constexpr std::size_t kGuard = Slab::kAlignment;
#endif
constexpr int kGuardByte = 0xA5;
constexpr double kMostBytes = 0x1p60;

std::size_t aligned(std::size_t n) { return (n + Slab::kAlignment - 1) / Slab::kAlignment * Slab::kAlignment; }

void poison_with_nan(const Tensor& tensor) {
  // All bits set is a NaN in every floating format.
  if (tensor.dtype() != DType::kI32) fill_bytes(tensor.device(), tensor.address(), 0xFF, tensor.bytes());
}

}  // namespace

void Slab::place(Tensor& tensor, std::string name, DType dtype, Shape shape) {
  if (memory_.data()) throw machine_error("slab {}: {} placed after allocation", name_, name);
  for (const Placed& p : placed_) {
    if (p.name == name) throw machine_error("slab {}: {} placed twice", name_, name);
  }
  // In floating point, which does not overflow.
  double bytes = static_cast<double>(size_of(dtype));
  for (int i = 0; i < shape.rank(); ++i) bytes *= static_cast<double>(shape[i]);
  if (bytes + static_cast<double>(bytes_) > kMostBytes)
    throw input_error("slab {}: {} of shape {} is beyond any memory", name_, name, shape.text());
  tensor = Tensor(nullptr, dtype, shape, device_);
  placed_.push_back({&tensor, std::move(name), bytes_});
  bytes_ += aligned(tensor.bytes()) + kGuard;
}

void Slab::allocate([[maybe_unused]] bool poison) {
  if (memory_.data()) throw machine_error("slab {}: allocated twice", name_);
  memory_ = DeviceBlock(device_, bytes_, ("slab " + name_).c_str());
  fill_bytes(device_, memory_.data(), 0, bytes_);
  for (const Placed& p : placed_) {
    *p.tensor = Tensor(memory_.data() + p.offset, p.tensor->dtype(), p.tensor->shape(), device_);
    if constexpr (kGuard > 0) {
      if (poison) poison_with_nan(*p.tensor);
      fill_bytes(device_, guard_of(p), kGuardByte, kGuard);
    }
  }
}

std::byte* Slab::guard_of(const Placed& placed) const {
  return memory_.data() + placed.offset + aligned(placed.tensor->bytes());
}

void Slab::check_guards() const {
  if constexpr (kGuard > 0) {
    for (const Placed& p : placed_) {
      std::array<std::byte, kGuard> guard{};
      copy_bytes(Device::kCpu, guard.data(), device_, guard_of(p), kGuard);
      const auto intact = [](std::byte b) { return b == std::byte{kGuardByte}; };
      if (!std::all_of(guard.begin(), guard.end(), intact))
        throw machine_error("slab {}: written past the end of {}", name_, p.name);
    }
  }
}

}  // namespace nascent
