// Layer normalization (Ba, Kiros & Hinton 2016) of each row x of width C:
//
//   mean = sum x / C      rstd = (sum (x - mean)^2 / C + eps)^(-1/2)      n = (x - mean) rstd      y = n w + b
//
// With g = dy w:   dx = dresidual + rstd (g - sum g / C - n sum(g n) / C)
//                  dw += sum over rows of dy n       db += sum over rows of dy
//
// Without w and b (both empty, as then dw and db) they are 1 and 0: a norm without parameters.
//
// (n has mean 0 and mean square 1 up to eps; the two sums take out of g what would change them.)
#pragma once

#include "kernels/kernel.h"

namespace nascent {

// y, x [N, C]; mean, rstd [N] are kept for the backward; w, b [C].
KERNEL(layernorm_forward, Tensor y, Tensor mean, Tensor rstd, View x, View w, View b, double eps);
// dresidual [N, C] is the gradient that reaches x around the norm; it may be empty, and it may be dx itself. dx may be dy.
KERNEL(layernorm_backward, Tensor dx, Tensor dw, Tensor db, View dy, View x, View mean, View rstd, View w,
       View dresidual);

}  // namespace nascent
