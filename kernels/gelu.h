// GELU (Hendrycks & Gimpel 2016), y = x P(Z <= x):
//
//   tanh form (GPT-2, "gelu_new"):  y = x s,   s = 1/(1 + exp(-2u)) = (1 + tanh u)/2
//                                   u = sqrt(2/pi) (x + 0.044715 x^3)
//                                   dy/dx = s + x s (1 - s) 2 du/dx,   du/dx = sqrt(2/pi) (1 + 3 * 0.044715 x^2)
//   exact form ("gelu"):            y = x (1 + erf(x/sqrt 2))/2
//                                   dy/dx = (1 + erf(x/sqrt 2))/2 + x exp(-x^2/2)/sqrt(2 pi)
//
// All of one shape; dx may be dy.
#pragma once

#include "kernels/kernel.h"

namespace nascent {

KERNEL(gelu_tanh_forward, Tensor y, View x);
KERNEL(gelu_tanh_backward, Tensor dx, View dy, View x);
KERNEL(gelu_erf_forward, Tensor y, View x);
KERNEL(gelu_erf_backward, Tensor dx, View dy, View x);

}  // namespace nascent
