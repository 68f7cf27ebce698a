#include "kernels/norm.cuh"
#include "kernels/norm.h"
#include "kernels/require.h"

namespace nascent::cuda {

void layernorm_forward(Stream& s, Tensor y, Tensor mean, Tensor rstd, View x, View w, View b, double eps) {
  const std::int64_t n = x.rows(), c = x.cols();
  require_shape("layernorm_forward", "y", y, x.shape());
  if (w) require_shape("layernorm_forward", "w", w, {c});
  if (b) require_shape("layernorm_forward", "b", b, {c});
  dispatch(x.dtype(), [&]<class T>() {
    launch(s, "layernorm_forward", norm_forward<T, true>, blocks_for(n, kRowsOfBlock), kThreads, y.data<T>(),
           mean.data<T>(), rstd.data<T>(), x.data<T>(), w ? w.data<T>() : nullptr, b ? b.data<T>() : nullptr, eps, n,
           c);
  });
}

void layernorm_backward(Stream& s, Tensor dx, Tensor dw, Tensor db, View dy, View x, View mean, View rstd, View w,
                        View dresidual) {
  require_shape("layernorm_backward", "dx", dx, x.shape());
  require_shape("layernorm_backward", "dy", dy, x.shape());
  if (dresidual) require_shape("layernorm_backward", "dresidual", dresidual, x.shape());
  dispatch(x.dtype(), [&]<class T>() {
    norm_backward<T, true>(s, "layernorm_backward", dx, dw ? dw.data<T>() : nullptr, db ? db.data<T>() : nullptr, dy, x,
                           mean.data<T>(), rstd, w, dresidual);
  });
}

}  // namespace nascent::cuda
