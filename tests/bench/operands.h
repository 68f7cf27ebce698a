// The memory of one case. Every tensor has a slab of its own, as a model's have: 64-byte aligned, on any device.
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "kernels/slab.h"
#include "kernels/view.h"

namespace nascent::bench {

class Operands {
 public:
  explicit Operands(Device device) : device_(device) {}

  Device device() const { return device_; }
  Tensor zeros(Shape shape, DType dtype = DType::kF32);
  Tensor normal(Shape shape, DType dtype = DType::kF32);  // N(0, 1), some 65,000 numbers over and over
  Tensor uniform(Shape shape, std::int64_t below);        // i32 in [0, below)
  Tensor integers(const std::vector<std::int32_t>& values);
  Tensor rows(std::int64_t n);  // i32: 0, 1, ... n - 1

 private:
  Device device_;
  std::deque<Slab> slabs_;
};

// Of all these tensors together.
template <class... Views>
double bytes(const Views&... views) {
  return (0.0 + ... + static_cast<double>(views.bytes()));
}

}  // namespace nascent::bench
