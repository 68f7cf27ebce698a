#include <cmath>
#include <numbers>

#include "kernels/gelu.h"
#include "kernels/parallel.h"
#include "kernels/require.h"
#include "kernels/vecmath.h"

namespace nascent::cpu {
namespace {

template <class T>
constexpr T kRootTwoOverPi = static_cast<T>(0.79788456080286535588);
template <class T>
constexpr T kCubic = static_cast<T>(0.044715);

template <class T>
inline T gate(T x) {  // s above
  return 1 / (1 + exp_of(-2 * kRootTwoOverPi<T> * (x + kCubic<T> * x * x * x)));
}

template <class T>
inline T normal_cdf(T x) {
  return static_cast<T>(0.5) * (1 + std::erf(x * static_cast<T>(1 / std::numbers::sqrt2)));
}

// y_i = f(x_i)
template <class F>
void map(Stream& s, const char* op, Tensor y, View x, F f) {
  require_shape(op, "y", y, x.shape());
  dispatch(x.dtype(), [&]<class T>() {
    T* out = y.data<T>();
    const T* in = x.data<T>();
    parallel_for(s, x.size(), 4096, [&](std::int64_t begin, std::int64_t end, int) {
#pragma omp simd
      for (std::int64_t i = begin; i < end; ++i) out[i] = f(in[i]);
    });
  });
}

// dx_i = dy_i f'(x_i)
template <class F>
void map_backward(Stream& s, const char* op, Tensor dx, View dy, View x, F derivative) {
  require_shape(op, "dx", dx, x.shape());
  require_shape(op, "dy", dy, x.shape());
  dispatch(x.dtype(), [&]<class T>() {
    T* out = dx.data<T>();
    const T *g = dy.data<T>(), *in = x.data<T>();
    parallel_for(s, x.size(), 4096, [&](std::int64_t begin, std::int64_t end, int) {
#pragma omp simd
      for (std::int64_t i = begin; i < end; ++i) out[i] = g[i] * derivative(in[i]);
    });
  });
}

}  // namespace

void gelu_tanh_forward(Stream& s, Tensor y, View x) {
  map(s, "gelu_tanh_forward", y, x, [](auto v) { return v * gate(v); });
}

void gelu_tanh_backward(Stream& s, Tensor dx, View dy, View x) {
  map_backward(s, "gelu_tanh_backward", dx, dy, x, []<class T>(T v) {
    const T g = gate(v);
    return g + v * g * (1 - g) * 2 * kRootTwoOverPi<T> * (1 + 3 * kCubic<T> * v * v);
  });
}

void gelu_erf_forward(Stream& s, Tensor y, View x) {
  map(s, "gelu_erf_forward", y, x, [](auto v) { return v * normal_cdf(v); });
}

void gelu_erf_backward(Stream& s, Tensor dx, View dy, View x) {
  map_backward(s, "gelu_erf_backward", dx, dy, x, []<class T>(T v) {
    constexpr T kDensityAtZero = static_cast<T>(0.39894228040143267794);
    return normal_cdf(v) + v * kDensityAtZero * exp_of(-v * v / 2);
  });
}

}  // namespace nascent::cpu
