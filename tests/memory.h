// Tensors for tests, filled with reproducible numbers that are the same in float and in double up to rounding.
#pragma once

#include <cmath>
#include <deque>
#include <string>
#include <vector>

#include "kernels/philox.h"
#include "kernels/view.h"

namespace nascent::test {

class Memory {
 public:
  explicit Memory(DType dtype = DType::kF64) : dtype_(dtype) {}

  DType dtype() const { return dtype_; }
  Tensor zeros(Shape shape) { return zeros(shape, dtype_); }
  Tensor zeros(Shape shape, DType dtype) {
    const std::size_t bytes = static_cast<std::size_t>(shape.size()) * size_of(dtype);
    blocks_.emplace_back(bytes / sizeof(double) + 1, 0.0);
    return {blocks_.back().data(), dtype, shape};
  }
  // N(mean, std^2), drawn by name.
  Tensor normal(const std::string& name, Shape shape, double std = 1, double mean = 0) {
    const Tensor t = zeros(shape);
    const Random random(7, "test", name);
    for (std::int64_t i = 0; i < t.size(); ++i) set(t, i, mean + std * random.normal(static_cast<std::uint64_t>(i)));
    return t;
  }
  // Uniform integers in [0, below).
  Tensor ids(const std::string& name, Shape shape, std::int64_t below) {
    const Tensor t = zeros(shape, DType::kI32);
    const Random random(7, "test", name);
    for (std::int64_t i = 0; i < t.size(); ++i) {
      t.data<std::int32_t>()[i] =
          static_cast<std::int32_t>(random.bits(static_cast<std::uint64_t>(i)) % static_cast<std::uint64_t>(below));
    }
    return t;
  }

  static double get(const View& t, std::int64_t i) {
    return t.dtype() == DType::kF32 ? static_cast<double>(t.data<float>()[i]) : t.data<double>()[i];
  }
  static void set(const Tensor& t, std::int64_t i, double x) {
    if (t.dtype() == DType::kF32) {
      t.data<float>()[i] = static_cast<float>(x);
    } else {
      t.data<double>()[i] = x;
    }
  }

 private:
  DType dtype_;
  std::deque<std::vector<double>> blocks_;
};

inline std::vector<double> values(const View& t) {
  std::vector<double> v;
  for (std::int64_t i = 0; i < t.size(); ++i) v.push_back(Memory::get(t, i));
  return v;
}

inline double rms(const std::vector<double>& v) {
  double square = 0;
  for (double x : v) square += x * x;
  return v.empty() ? 0 : std::sqrt(square / static_cast<double>(v.size()));
}

// The larger of two errors; NaN, and so it stays, where either is: `!(larger <= tolerance)` catches it.
inline double larger(double a, double b) { return a >= b || std::isnan(a) ? a : b; }

// The worst |a - b| / (|b| + rms of b + 1e-3 rms of all gradients): what a tolerance is compared with. Plain relative
// error cannot hold: a key bias has gradient exactly 0. NaN where either has one, so that `!(error <= tolerance)`
// catches it.
inline double gradient_error(const std::vector<double>& a, const std::vector<double>& b, double rms_of_all) {
  const double floor = rms(b) + 1e-3 * rms_of_all;
  double worst = a.size() == b.size() ? 0 : std::nan("");
  for (std::size_t i = 0; i < a.size() && i < b.size(); ++i) {
    const double error = a[i] == b[i] ? 0 : std::abs(a[i] - b[i]) / (std::abs(b[i]) + floor);
    worst = larger(worst, error);
  }
  return worst;
}

}  // namespace nascent::test
