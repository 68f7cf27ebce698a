// First and second moments of the rows of x [N, d], without cancellation (two passes, centred) and without underflow
// (scaled by a power of two), summed in double from products in x's own precision. One triangle is computed, in strips
// of rows, then mirrored.
#pragma once

#include "kernels/kernel.h"

namespace nascent {

// What row_statistics writes to `scalars`, f64 [kRowScalars].
enum RowScalar { kSumNorm, kSumSquares, kZeroRows, kUnitRows, kLargest, kRowScalars };

// sum [d], unit_sum [d] (f64): sums of x_i and of x_i/||x_i|| (zero rows left out); scalars: sum of ||x_i||, sum of
// ||x_i||^2, rows that are exactly zero, rows with a direction, largest |x_ij| (NaN where an element is NaN or
// infinite).
KERNEL(row_statistics, Tensor sum, Tensor unit_sum, Tensor scalars, View x);

// scatter [d, d] f64 = sum over rows of (x_i - mean)(x_i - mean)^T, mean [d] f64. Rows that are exactly zero are left
// out when `skip_zero_rows` is set. `largest` is a bound of |x_ij| to scale by, above 0 unless all of x is 0.
KERNEL(second_moments, Tensor scatter, View x, View mean, double largest, bool skip_zero_rows);

}  // namespace nascent
