#include <cmath>
#include <limits>

#include "kernels/adamw.h"
#include "kernels/parallel.h"
#include "kernels/require.h"

namespace nascent::cpu {

void adamw_update(Stream& s, Tensor w, Tensor m, Tensor v, View g, AdamW rule) {
  require_shape("adamw_update", "g", g, w.shape());
  require_shape("adamw_update", "m", m, w.shape());
  require_shape("adamw_update", "v", v, w.shape());
  const double t = static_cast<double>(rule.t);
  const double first_correction = 1 - std::pow(rule.beta1, t), second_correction = 1 - std::pow(rule.beta2, t);
  dispatch(w.dtype(), [&]<class T>() {
    const T beta1 = static_cast<T>(rule.beta1), beta2 = static_cast<T>(rule.beta2), eps = static_cast<T>(rule.eps);
    const T rest1 = static_cast<T>(1 - rule.beta1), rest2 = static_cast<T>(1 - rule.beta2);
    const T keep = static_cast<T>(1 - rule.lr * rule.weight_decay), rate = static_cast<T>(rule.lr / first_correction);
    const T root = static_cast<T>(std::sqrt(second_correction)), scale = static_cast<T>(rule.gradient_scale);
    T *weight = w.data<T>(), *first = m.data<T>(), *second = v.data<T>();
    const T* gradient = g.data<T>();
    parallel_for(s, w.size(), 4096, [&](std::int64_t begin, std::int64_t end, int) {
#pragma omp simd
      for (std::int64_t i = begin; i < end; ++i) {
        const T x = gradient[i] * scale;
        first[i] = beta1 * first[i] + rest1 * x;
        second[i] = beta2 * second[i] + rest2 * x * x;
        const T divisor = std::sqrt(second[i]) / root + eps;
        // 0 only with eps = 0, where no gradient was ever seen or its square is too small: no update.
        weight[i] = weight[i] * keep - rate * first[i] / (divisor == 0 ? std::numeric_limits<T>::infinity() : divisor);
      }
    });
  });
}

}  // namespace nascent::cpu
