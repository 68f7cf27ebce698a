#include <algorithm>
#include <cmath>

#include "kernels/clip.h"
#include "kernels/parallel.h"
#include "kernels/require.h"

namespace nascent::cpu {

void clip_forward(Stream& s, Tensor y, View x, double limit) {
  require_shape("clip_forward", "y", y, x.shape());
  dispatch(x.dtype(), [&]<class T>() {
    const T *in = x.data<T>(), most = static_cast<T>(limit);
    T* out = y.data<T>();
    parallel_for(s, x.size(), 4096, [&](std::int64_t begin, std::int64_t end, int) {
      for (std::int64_t i = begin; i < end; ++i) out[i] = std::clamp(in[i], -most, most);
    });
  });
}

void clip_backward(Stream& s, Tensor dx, View dy, View x, double limit) {
  require_shape("clip_backward", "dx", dx, x.shape());
  require_shape("clip_backward", "dy", dy, x.shape());
  dispatch(x.dtype(), [&]<class T>() {
    const T *in = x.data<T>(), *g = dy.data<T>(), most = static_cast<T>(limit);
    T* out = dx.data<T>();
    parallel_for(s, x.size(), 4096, [&](std::int64_t begin, std::int64_t end, int) {
      for (std::int64_t i = begin; i < end; ++i) out[i] = std::abs(in[i]) <= most ? g[i] : T{0};
    });
  });
}

}  // namespace nascent::cpu
