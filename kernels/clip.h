// Each number clipped to [-limit, limit]:
//
//   y = x where |x| <= limit, else limit sign(x)          dx = dy where |x| <= limit, else 0
//
// All of one shape; y may be x, dx may be dy. The derivative at the limit itself is PyTorch's.
#pragma once

#include "kernels/kernel.h"

namespace nascent {

KERNEL(clip_forward, Tensor y, View x, double limit);
KERNEL(clip_backward, Tensor dx, View dy, View x, double limit);

}  // namespace nascent
