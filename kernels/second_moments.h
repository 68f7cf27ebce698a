// Second moments of chosen rows of x [N, d], without cancellation (centred) and without underflow (scaled by a power of
// two). One triangle is computed, in strips of rows, then mirrored.
#pragma once

#include "kernels/kernel.h"

namespace nascent {

// scatter [d, d] f64 = sum over i in rows of weight_i (factor_i x_i - mean)(factor_i x_i - mean)^T
// rows [n] i32; mean [d] f64; factor, weight [N] f64 or empty (1). `largest` bounds |factor_i x_ij|, to scale by: above
// 0 unless all of it is 0. Products in `products`: x's own precision, or f64 where single eigenvalues count.
KERNEL(second_moments, Tensor scatter, View x, View rows, View mean, double largest, View factor, View weight,
       DType products);

}  // namespace nascent
