// SwiGLU's gate (Shazeer 2020). Each row of x [.., 2F] holds the gate a and then the value u, F numbers each:
//
//   y = a s u, s = 1/(1 + exp(-a))          da = dy u s (1 + a (1 - s))          du = dy a s
#pragma once

#include "kernels/kernel.h"

namespace nascent {

KERNEL(silu_gate_forward, Tensor y, View x);             // y [.., F]
KERNEL(silu_gate_backward, Tensor dx, View dy, View x);  // dx [.., 2F]

}  // namespace nascent
