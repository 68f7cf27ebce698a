#include "kernels/linear.h"

#include "kernels/gemm.h"
#include "kernels/reduce.h"
#include "kernels/require.h"

namespace nascent::composed {
namespace {

template <class T>
Matrix<T> matrix(const Tensor& x) {
  return {x.data<T>(), x.rows(), x.cols(), x.cols()};
}
template <class T>
Matrix<const T> matrix(const View& x) {
  return {x.data<T>(), x.rows(), x.cols(), x.cols()};
}

}  // namespace

void linear_forward(Stream& s, Tensor y, View x, View w, View b) {
  require_shape("linear_forward", "w", w, {y.cols(), x.cols()});
  if (b) require_shape("linear_forward", "b", b, {y.cols()});
  require_rows("linear_forward", "y", y, x.rows());
  dispatch(y.dtype(), [&]<class T>() {
    gemm<T>(s, matrix<T>(y), matrix<T>(x), matrix<T>(w).transposed(), Into::kAssign, b ? b.data<T>() : nullptr);
  });
}

void linear_backward(Stream& s, Tensor dx, Tensor dw, Tensor db, View dy, View x, View w) {
  require_shape("linear_backward", "w", w, {dy.cols(), x.cols()});
  require_shape("linear_backward", "dw", dw, w.shape());
  require_rows("linear_backward", "x", x, dy.rows());
  dispatch(dy.dtype(), [&]<class T>() {
    if (dx) gemm<T>(s, matrix<T>(dx), matrix<T>(dy), matrix<T>(w), Into::kAssign);
    gemm<T>(s, matrix<T>(dw), matrix<T>(dy).transposed(), matrix<T>(x), Into::kAdd);
  });
  if (db) column_sum(s, db, dy);
}

}  // namespace nascent::composed
