// y = x W^T + b                    x [.., I], W [O, I], b [O], y [.., O]; b may be empty
//
// dx = dy W        dW += dy^T x        db += sum over rows of dy
#pragma once

#include "kernels/kernel.h"

namespace nascent {

COMPOSED_KERNEL(linear_forward, Tensor y, View x, View w, View b);
// dx may be empty (nobody needs it), db is empty where there is no bias.
COMPOSED_KERNEL(linear_backward, Tensor dx, Tensor dw, Tensor db, View dy, View x, View w);

}  // namespace nascent
