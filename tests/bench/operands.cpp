#include "tests/bench/operands.h"

#include <algorithm>
#include <numeric>

#include "kernels/device.h"
#include "kernels/philox.h"

namespace nascent::bench {
namespace {

constexpr std::int64_t kDrawn = 65537;  // a prime: rows of a matrix do not repeat

template <class T>
void fill(const Tensor& t, const std::vector<T>& values) {
  const auto count = static_cast<std::int64_t>(values.size());
  for (std::int64_t i = 0; i < t.size(); i += count) {
    const auto left = static_cast<std::size_t>(std::min(count, t.size() - i));
    copy_bytes(t.device(), t.data<T>() + i, Device::kCpu, values.data(), left * sizeof(T));
  }
}

}  // namespace

Tensor Operands::zeros(Shape shape, DType dtype) {
  Tensor tensor;
  Slab& slab = slabs_.emplace_back("bench", device_);
  slab.place(tensor, "operand", dtype, shape);
  slab.allocate();
  return tensor;
}

Tensor Operands::normal(Shape shape, DType dtype) {
  const Tensor t = zeros(shape, dtype);
  const Random random(7, "bench", "normal");
  dispatch(dtype, [&]<class T>() {
    std::vector<T> values(static_cast<std::size_t>(std::min(kDrawn, t.size())));
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<T>(random.normal(i));
    fill(t, values);
  });
  return t;
}

Tensor Operands::uniform(Shape shape, std::int64_t below) {
  const Tensor t = zeros(shape, DType::kI32);
  const Random random(7, "bench", "uniform");
  std::vector<std::int32_t> values(static_cast<std::size_t>(t.size()));
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<std::int32_t>(random.bits(i) % static_cast<std::uint64_t>(below));
  fill(t, values);
  return t;
}

Tensor Operands::integers(const std::vector<std::int32_t>& values) {
  const Tensor t = zeros({static_cast<std::int64_t>(values.size())}, DType::kI32);
  fill(t, values);
  return t;
}

Tensor Operands::rows(std::int64_t n) {
  std::vector<std::int32_t> values(static_cast<std::size_t>(n));
  std::iota(values.begin(), values.end(), 0);
  return integers(values);
}

}  // namespace nascent::bench
