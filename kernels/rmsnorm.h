// Root mean square normalization (Zhang & Sennrich 2019) of each row x of width C:
//
//   rstd = (sum x^2 / C + eps)^(-1/2)          n = x rstd          y = n w
//
// With g = dy w:   dx = dresidual + rstd (g - n sum(g n) / C)          dw += sum over rows of dy n
#pragma once

#include "kernels/kernel.h"

namespace nascent {

// y, x [N, C]; rstd [N] is kept for the backward; w [C].
KERNEL(rmsnorm_forward, Tensor y, Tensor rstd, View x, View w, double eps);
// dresidual [N, C] is the gradient that reaches x around the norm; it may be empty, and it may be dx itself. dx may be dy.
KERNEL(rmsnorm_backward, Tensor dx, Tensor dw, View dy, View x, View rstd, View w, View dresidual);

}  // namespace nascent
