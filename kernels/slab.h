// A slab: many tensors placed by name while planning, then allocated once. Steps allocate nothing. Every tensor starts
// at a multiple of 64 bytes. A slab holds one lifetime: parameters, gradients, activations, probe state.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "kernels/device.h"
#include "kernels/view.h"

namespace nascent {

class Slab {
 public:
  static constexpr std::size_t kAlignment = 64;

  explicit Slab(std::string name, Device device = Device::kCpu) : name_(std::move(name)), device_(device) {}
  Slab(const Slab&) = delete;
  Slab& operator=(const Slab&) = delete;

  // Plans a tensor; `tensor` gets its memory in allocate() and must not move until then. Throws on a name planned
  // twice.
  void place(Tensor& tensor, std::string name, DType dtype, Shape shape);

  // One allocation, zeroed; fills every placed tensor. Debug builds put a guard behind each tensor and poison floats
  // with NaN when `poison` is set, so that what reads before it writes shows.
  void allocate(bool poison = false);

  std::size_t bytes() const { return bytes_; }
  const std::string& name() const { return name_; }

  // Throws and names the tensor whose guard was overwritten (debug builds; otherwise nothing to check).
  void check_guards() const;

 private:
  struct Placed {
    Tensor* tensor;
    std::string name;
    std::size_t offset;
  };
  std::byte* guard_of(const Placed& placed) const;

  std::string name_;
  Device device_;
  std::vector<Placed> placed_;
  std::size_t bytes_ = 0;
  DeviceBlock memory_;
};

}  // namespace nascent
