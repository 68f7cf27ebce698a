#include "kernels/add.h"
#include "kernels/parallel.h"
#include "kernels/require.h"

namespace nascent::cpu {

void add_forward(Stream& s, Tensor y, View a, View b) {
  require_shape("add_forward", "a", a, y.shape());
  require_shape("add_forward", "b", b, y.shape());
  dispatch(y.dtype(), [&]<class T>() {
    T* out = y.data<T>();
    const T *left = a.data<T>(), *right = b.data<T>();
    parallel_for(s, y.size(), 16384, [&](std::int64_t begin, std::int64_t end, int) {
      for (std::int64_t i = begin; i < end; ++i) out[i] = left[i] + right[i];
    });
  });
}

}  // namespace nascent::cpu
