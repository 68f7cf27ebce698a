// Tensors for tests, filled with reproducible numbers that are the same in float and in double up to rounding.
#pragma once

#include <cmath>
#include <deque>
#include <string>
#include <vector>

#include "kernels/device.h"
#include "kernels/philox.h"
#include "kernels/view.h"

namespace nascent::test {

class Memory {
 public:
  explicit Memory(DType dtype = DType::kF64, Device device = Device::kCpu) : dtype_(dtype), device_(device) {}

  DType dtype() const { return dtype_; }

  template <class F>
  static decltype(auto) with_type(DType dtype, F&& f) {
    if (dtype == DType::kI32) return f.template operator()<std::int32_t>();
    return dispatch(dtype, f);
  }

  Tensor zeros(Shape shape) { return zeros(shape, dtype_); }
  Tensor zeros(Shape shape, DType dtype) {
    const std::size_t bytes = static_cast<std::size_t>(shape.size()) * size_of(dtype);
    blocks_.emplace_back(device_, bytes, "test");
    fill_bytes(device_, blocks_.back().data(), 0, bytes);
    return {blocks_.back().data(), dtype, shape, device_};
  }
  // N(mean, std^2), drawn by name.
  Tensor normal(const std::string& name, Shape shape, double std = 1, double mean = 0) {
    const Random random(7, "test", name);
    return filled(shape, dtype_, [&](std::uint64_t i) { return mean + std * random.normal(i); });
  }
  // Uniform integers in [0, below).
  Tensor ids(const std::string& name, Shape shape, std::int64_t below) {
    const Random random(7, "test", name);
    return filled(shape, DType::kI32, [&](std::uint64_t i) {
      return static_cast<double>(random.bits(i) % static_cast<std::uint64_t>(below));
    });
  }
  // f(i) at i, in row-major order.
  template <class F>
  Tensor filled(Shape shape, DType dtype, F&& f) {
    Memory host(dtype);
    const Tensor on_host = device_ == Device::kCpu ? zeros(shape, dtype) : host.zeros(shape, dtype);
    for (std::int64_t i = 0; i < on_host.size(); ++i) set(on_host, i, f(static_cast<std::uint64_t>(i)));
    if (device_ == Device::kCpu) return on_host;
    const Tensor t = zeros(shape, dtype);
    copy_bytes(device_, t.address(), Device::kCpu, on_host.address(), t.bytes());
    return t;
  }

  // One element, wherever it lies; the stream that made it has to have ended.
  static double get(const View& t, std::int64_t i) {
    return with_type(t.dtype(), [&]<class T>() {
      T x;
      copy_bytes(Device::kCpu, &x, t.device(), t.data<T>() + i, sizeof(T));
      return static_cast<double>(x);
    });
  }
  static void set(const Tensor& t, std::int64_t i, double value) {
    with_type(t.dtype(), [&]<class T>() {
      const T x = static_cast<T>(value);
      copy_bytes(t.device(), t.data<T>() + i, Device::kCpu, &x, sizeof(T));
    });
  }

 private:
  DType dtype_;
  Device device_;
  std::deque<DeviceBlock> blocks_;
};

inline std::vector<double> values(const View& t) {
  return Memory::with_type(t.dtype(), [&]<class T>() {
    std::vector<T> host(static_cast<std::size_t>(t.size()));
    copy_bytes(Device::kCpu, host.data(), t.device(), t.address(), t.bytes());
    return std::vector<double>(host.begin(), host.end());
  });
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
