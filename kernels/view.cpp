#include "kernels/view.h"

#include "kernels/error.h"

namespace nascent {

std::size_t size_of(DType dtype) { return dtype == DType::kF64 ? 8 : 4; }

const char* name_of(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return "f32";
    case DType::kF64:
      return "f64";
    case DType::kI32:
      return "i32";
  }
  return "?";
}

const char* name_of(Device device) { return device == Device::kCpu ? "cpu" : "cuda"; }

Shape::Shape(std::initializer_list<std::int64_t> dims) {
  if (dims.size() > kMaxRank)
    throw machine_error("Shape: {} dimensions, at most {} are supported", dims.size(), kMaxRank);
  for (std::int64_t n : dims) {
    if (n < 0) throw machine_error("Shape: a dimension is {}, expected 0 or more", n);
    dims_[static_cast<std::size_t>(rank_++)] = n;
  }
}

std::int64_t Shape::size() const {
  std::int64_t n = 1;
  for (int i = 0; i < rank_; ++i) n *= (*this)[i];
  return n;
}

Shape Shape::with_first(std::int64_t n) const {
  Shape other = *this;
  other.dims_[0] = n;
  return other;
}

std::string Shape::text() const {
  std::string s = "(";
  for (int i = 0; i < rank_; ++i) s += (i ? ", " : "") + std::to_string((*this)[i]);
  return s + ")";
}

void View::require(DType wanted) const {
  if (wanted != dtype_) throw machine_error("View: elements are {}, asked for as {}", name_of(dtype_), name_of(wanted));
}

const void* View::at_row(std::int64_t begin, std::int64_t count) const {
  if (shape_.rank() == 0 || begin < 0 || count < 0 || begin + count > shape_[0]) {
    throw machine_error("View: rows {} to {} of shape {}", begin, begin + count, shape_.text());
  }
  const std::int64_t row = shape_[0] == 0 ? 0 : size() / shape_[0];
  return static_cast<const std::byte*>(data_) + static_cast<std::size_t>(begin * row) * size_of(dtype_);
}

View View::slice(std::int64_t begin, std::int64_t count) const {
  return {at_row(begin, count), dtype_, shape_.with_first(count), device_};
}

View View::reshaped(Shape shape) const {
  if (shape.size() != size()) throw machine_error("View: {} cannot be seen as {}", shape_.text(), shape.text());
  return {data_, dtype_, shape, device_};
}

Tensor Tensor::slice(std::int64_t begin, std::int64_t count) const {
  return {const_cast<void*>(at_row(begin, count)), dtype_, shape_.with_first(count), device_};
}

Tensor Tensor::reshaped(Shape shape) const {
  const View seen = View::reshaped(shape);
  return {const_cast<void*>(seen.address()), dtype_, shape, device_};
}

void throw_not_floating(DType dtype) { throw machine_error("expected f32 or f64, got {}", name_of(dtype)); }

}  // namespace nascent
