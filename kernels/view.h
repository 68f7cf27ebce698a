// View (read-only) and Tensor (writable): dense, row-major, up to four dimensions. They own nothing, as span<const T>
// and span<T> do. Their memory lives in a Slab or in a Stream's scratch. Plain C++: CUDA files include this too.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>

namespace nascent {

enum class DType : std::uint8_t { kF32, kF64, kI32 };
enum class Device : std::uint8_t { kCpu, kCuda };

std::size_t size_of(DType dtype);
const char* name_of(DType dtype);  // "f32", "f64", "i32"
const char* name_of(Device device);

template <class T>
struct DTypeOf;
template <>
struct DTypeOf<float> {
  static constexpr DType value = DType::kF32;
};
template <>
struct DTypeOf<double> {
  static constexpr DType value = DType::kF64;
};
template <>
struct DTypeOf<std::int32_t> {
  static constexpr DType value = DType::kI32;
};

class Shape {
 public:
  static constexpr int kMaxRank = 4;

  Shape() = default;
  Shape(std::initializer_list<std::int64_t> dims);  // throws on rank > 4 or a negative size

  int rank() const { return rank_; }
  std::int64_t operator[](int i) const { return dims_[static_cast<std::size_t>(i)]; }
  std::int64_t size() const;  // product of all dimensions, 1 for rank 0
  std::int64_t cols() const { return rank_ == 0 ? 1 : (*this)[rank_ - 1]; }
  std::int64_t rows() const { return cols() == 0 ? 0 : size() / cols(); }
  Shape with_first(std::int64_t n) const;  // the same with another first dimension
  bool operator==(const Shape&) const = default;
  std::string text() const;  // "(4, 3, 2)"

 private:
  std::array<std::int64_t, kMaxRank> dims_{};
  int rank_ = 0;
};

class View {
 public:
  View() = default;
  View(const void* data, DType dtype, Shape shape, Device device = Device::kCpu)
      : data_(data), shape_(shape), dtype_(dtype), device_(device) {}

  const Shape& shape() const { return shape_; }
  DType dtype() const { return dtype_; }
  Device device() const { return device_; }
  const void* address() const { return data_; }
  explicit operator bool() const { return data_ != nullptr; }

  std::int64_t size() const { return shape_.size(); }
  std::int64_t rows() const { return shape_.rows(); }  // product of all dimensions but the last
  std::int64_t cols() const { return shape_.cols(); }  // the last dimension
  std::size_t bytes() const { return static_cast<std::size_t>(size()) * size_of(dtype_); }

  // The elements; throws when T is not the view's dtype.
  template <class T>
  const T* data() const {
    require(DTypeOf<T>::value);
    return static_cast<const T*>(data_);
  }

  View slice(std::int64_t begin, std::int64_t count) const;  // [begin, begin + count) of the first dimension
  View reshaped(Shape shape) const;                          // same size, else throws

 protected:
  void require(DType wanted) const;
  const void* at_row(std::int64_t begin, std::int64_t count) const;

  const void* data_ = nullptr;
  Shape shape_;
  DType dtype_ = DType::kF32;
  Device device_ = Device::kCpu;
};

class Tensor : public View {
 public:
  Tensor() = default;
  Tensor(void* data, DType dtype, Shape shape, Device device = Device::kCpu) : View(data, dtype, shape, device) {}

  void* address() const { return const_cast<void*>(data_); }

  template <class T>
  T* data() const {
    return const_cast<T*>(View::data<T>());
  }

  Tensor slice(std::int64_t begin, std::int64_t count) const;
  Tensor reshaped(Shape shape) const;
};

// Calls f.template operator()<float>() or <double>() by dtype; throws for integers.
[[noreturn]] void throw_not_floating(DType dtype);

template <class F>
decltype(auto) dispatch(DType dtype, F&& f) {
  if (dtype == DType::kF32) return f.template operator()<float>();
  if (dtype == DType::kF64) return f.template operator()<double>();
  throw_not_floating(dtype);
}

}  // namespace nascent
