// Sums in a fixed order: the same bits for any number of threads.
#pragma once

#include "kernels/kernel.h"

namespace nascent {

// out [C] += sum over rows of x [N, C]
KERNEL(column_sum, Tensor out, View x);
// out [C] = max(out, largest of each column of x [N, C]); NaN where the column holds one
KERNEL(column_max, Tensor out, View x);
// out [1] f64 = sum of x_i^2, accumulated in double
KERNEL(sum_squares, Tensor out, View x);
// out [1] f64 = sum of x_i, accumulated in double
KERNEL(sum, Tensor out, View x);
// out [1] f64 = sum of (x_i - y_i)^2, accumulated in double
KERNEL(sum_squared_difference, Tensor out, View x, View y);
// out [1] f64 = largest |x_i|; NaN where an element is NaN or infinite
KERNEL(max_abs, Tensor out, View x);

}  // namespace nascent
