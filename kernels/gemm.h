// Matrix products: C = A B, or C += A B, operands transposed by their strides, never copied. On the CPU float through
// oneDNN's just-in-time kernels (strict math) and double through Eigen, on CUDA both through cuBLASLt (no TF32).
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <type_traits>

#include "kernels/stream.h"

namespace nascent {

// A matrix inside other memory; one of the two strides is 1.
template <class T>
struct Matrix {
  T* data;
  std::int64_t rows = 0, cols = 0;
  std::int64_t row_stride = 0, col_stride = 1;

  Matrix transposed() const { return {data, cols, rows, col_stride, row_stride}; }
  template <class U>
    requires(std::is_same_v<U, const T>)
  operator Matrix<U>() const {
    return {data, rows, cols, row_stride, col_stride};
  }
};

struct GemmShape {
  DType dtype;
  std::int64_t m, n, k;       // C [m, n] = A [m, k] B [k, n]
  std::int64_t a_row, a_col;  // strides of A, in elements
  std::int64_t b_row, b_col;
  std::int64_t c_row;  // C's columns are contiguous
  bool accumulate;     // C += A B
  bool bias;           // + bias [n] in every row (not with accumulate)
  auto operator<=>(const GemmShape&) const = default;
};

// A prepared product. Streams cache them: see Stream::gemm. `scratch` is scratch_bytes() of 64-byte aligned memory, one
// for each thread that runs it at the same time.
class Gemm {
 public:
  virtual ~Gemm() = default;
  virtual std::size_t scratch_bytes() const { return 0; }
  virtual void run(void* c, const void* a, const void* b, const void* bias, void* scratch) const = 0;
};

std::unique_ptr<Gemm> make_gemm_f32(const GemmShape& shape);  // oneDNN
std::unique_ptr<Gemm> make_gemm_f64(const GemmShape& shape);  // Eigen

// CUDA's part (gemm_cuda.cu, stream_cuda.cu). Weak: null in a program that is built without CUDA.
namespace cuda {
[[gnu::weak]] std::shared_ptr<Handles> make_handles();
[[gnu::weak]] void wait(Handles& handles);
[[gnu::weak]] std::unique_ptr<Gemm> make_gemm(Handles& handles, const GemmShape& shape);
}  // namespace cuda

template <class T>
GemmShape gemm_shape(Matrix<const T> c, Matrix<const T> a, Matrix<const T> b, bool accumulate, bool bias = false) {
  return {DTypeOf<T>::value, c.rows,       c.cols,       a.cols,     a.row_stride, a.col_stride,
          b.row_stride,      b.col_stride, c.row_stride, accumulate, bias};
}

enum class Into { kAssign, kAdd };

// c = a b (+ bias in every row) or c += a b. Shapes: c [m, n], a [m, k], b [k, n].
template <class T>
void gemm(Stream& s, Matrix<T> c, Matrix<const T> a, Matrix<const T> b, Into into, const T* bias = nullptr) {
  const Gemm& product = s.gemm(gemm_shape<T>(c, a, b, into == Into::kAdd, bias != nullptr));
  const auto scratch = s.scratch(DType::kF32, {static_cast<std::int64_t>(product.scratch_bytes() / sizeof(float) + 1)});
  product.run(c.data, a.data, b.data, bias, scratch.template data<float>());
}

}  // namespace nascent
