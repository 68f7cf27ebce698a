// y = a + b, all of one shape; y may be a or b. Backward needs no op: the gradient of y is the gradient of both.
#pragma once

#include "kernels/kernel.h"

namespace nascent {

KERNEL(add_forward, Tensor y, View a, View b);

}  // namespace nascent
