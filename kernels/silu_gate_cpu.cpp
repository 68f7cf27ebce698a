#include "kernels/error.h"
#include "kernels/parallel.h"
#include "kernels/require.h"
#include "kernels/silu_gate.h"
#include "kernels/vecmath.h"

namespace nascent::cpu {
namespace {

void check(const char* op, const View& y, const View& x) {
  require_rows(op, "y", y, x.rows());
  if (2 * y.cols() != x.cols()) throw machine_error("{}: x has {} columns, expected {}", op, x.cols(), 2 * y.cols());
}

}  // namespace

void silu_gate_forward(Stream& s, Tensor y, View x) {
  check("silu_gate_forward", y, x);
  const std::int64_t f = y.cols();
  dispatch(y.dtype(), [&]<class T>() {
    parallel_for(s, y.rows(), 4, [&](std::int64_t begin, std::int64_t end, int) {
      for (std::int64_t i = begin; i < end; ++i) {
        const T *a = x.data<T>() + i * 2 * f, *u = a + f;
        T* out = y.data<T>() + i * f;
#pragma omp simd
        for (std::int64_t j = 0; j < f; ++j) out[j] = a[j] / (1 + exp_of(-a[j])) * u[j];
      }
    });
  });
}

void silu_gate_backward(Stream& s, Tensor dx, View dy, View x) {
  check("silu_gate_backward", dy, x);
  require_shape("silu_gate_backward", "dx", dx, x.shape());
  const std::int64_t f = dy.cols();
  dispatch(dy.dtype(), [&]<class T>() {
    parallel_for(s, dy.rows(), 4, [&](std::int64_t begin, std::int64_t end, int) {
      for (std::int64_t i = begin; i < end; ++i) {
        const T *a = x.data<T>() + i * 2 * f, *u = a + f, *g = dy.data<T>() + i * f;
        T *da = dx.data<T>() + i * 2 * f, *du = da + f;
#pragma omp simd
        for (std::int64_t j = 0; j < f; ++j) {
          const T gate = 1 / (1 + exp_of(-a[j]));
          da[j] = g[j] * u[j] * gate * (1 + a[j] * (1 - gate));
          du[j] = g[j] * a[j] * gate;
        }
      }
    });
  });
}

}  // namespace nascent::cpu
