#include <cmath>

#include "kernels/adamw.h"
#include "kernels/cuda.cuh"
#include "kernels/require.h"

namespace nascent::cuda {
namespace {

template <class T>
struct Rule {
  T beta1, rest1, beta2, rest2, eps;
  T keep, rate, root, scale;  // 1 - lr decay, lr / (1 - beta1^t), sqrt(1 - beta2^t), the clip factor
};

template <class T>
__global__ void update(T* w, T* m, T* v, const T* g, std::int64_t n, Rule<T> rule) {
  const std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i >= n) return;
  const T x = g[i] * rule.scale;
  const T first = rule.beta1 * m[i] + rule.rest1 * x;
  const T second = rule.beta2 * v[i] + rule.rest2 * x * x;
  const T divisor = std::sqrt(second) / rule.root + rule.eps;
  m[i] = first;
  v[i] = second;
  // 0 only with eps = 0, where no gradient was ever seen or its square is too small: no update.
  w[i] = w[i] * rule.keep - (divisor == 0 ? T{0} : rule.rate * first / divisor);
}

}  // namespace

void adamw_update(Stream& s, Tensor w, Tensor m, Tensor v, View g, AdamW rule) {
  require_shape("adamw_update", "g", g, w.shape());
  require_shape("adamw_update", "m", m, w.shape());
  require_shape("adamw_update", "v", v, w.shape());
  const double t = static_cast<double>(rule.t);
  dispatch(w.dtype(), [&]<class T>() {
    const Rule<T> r{static_cast<T>(rule.beta1),
                    static_cast<T>(1 - rule.beta1),
                    static_cast<T>(rule.beta2),
                    static_cast<T>(1 - rule.beta2),
                    static_cast<T>(rule.eps),
                    static_cast<T>(1 - rule.lr * rule.weight_decay),
                    static_cast<T>(rule.lr / (1 - std::pow(rule.beta1, t))),
                    static_cast<T>(std::sqrt(1 - std::pow(rule.beta2, t))),
                    static_cast<T>(rule.gradient_scale)};
    launch(s, "adamw_update", update<T>, blocks_for(w.size(), kThreads), kThreads, w.data<T>(), m.data<T>(),
           v.data<T>(), g.data<T>(), w.size(), r);
  });
}

}  // namespace nascent::cuda
