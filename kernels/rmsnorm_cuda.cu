#include "kernels/norm.cuh"
#include "kernels/require.h"
#include "kernels/rmsnorm.h"

namespace nascent::cuda {

void rmsnorm_forward(Stream& s, Tensor y, Tensor rstd, View x, View w, double eps) {
  const std::int64_t n = x.rows(), c = x.cols();
  require_shape("rmsnorm_forward", "y", y, x.shape());
  require_shape("rmsnorm_forward", "w", w, {c});
  dispatch(x.dtype(), [&]<class T>() {
    launch(s, "rmsnorm_forward", norm_forward<T, false>, blocks_for(n, kRowsOfBlock), kThreads, y.data<T>(), nullptr,
           rstd.data<T>(), x.data<T>(), w.data<T>(), nullptr, eps, n, c);
  });
}

void rmsnorm_backward(Stream& s, Tensor dx, Tensor dw, View dy, View x, View rstd, View w, View dresidual) {
  require_shape("rmsnorm_backward", "dx", dx, x.shape());
  require_shape("rmsnorm_backward", "dy", dy, x.shape());
  if (dresidual) require_shape("rmsnorm_backward", "dresidual", dresidual, x.shape());
  dispatch(x.dtype(), [&]<class T>() {
    norm_backward<T, false>(s, "rmsnorm_backward", dx, dw.data<T>(), nullptr, dy, x, nullptr, rstd, w, dresidual);
  });
}

}  // namespace nascent::cuda
