// Sums over groups of the rows of x [N, d], for means, cosines, shares and their standard errors. `rows` i32 lists the
// rows of all groups one group after the other; `offsets` i32 [G + 1] says where each begins. A group is summed in
// order by one thread: the same bits for any number of threads.
#pragma once

#include "kernels/kernel.h"

namespace nascent {

// What row_statistics writes for each group: sum of ||x_i||, of ||x_i||^2; rows that are exactly zero, rows with a
// direction.
enum RowScalar { kSumNorm, kSumSquares, kZeroRows, kUnitRows, kRowScalars };

// sums, unit_sums [G, d] f64: of factor_i x_i and of x_i/||x_i|| (zero rows left out), each times weight_i; scalars [G,
// kRowScalars] f64, the first two weighted. factor, weight [N] f64 or empty (1).
KERNEL(row_statistics, Tensor sums, Tensor unit_sums, Tensor scalars, View x, View rows, View offsets, View factor,
       View weight);

// out [B, n] f64: out_bi = ||Q_b^T (factor_i x_i - mean)||^2 for the i-th of rows [n]. bases [d, R] f64: the B bases side
// by side, base b ends before column ends_b, ends [B] i32; both empty: one, the identity. mean [d] f64 or empty (0);
// factor [N] f64 or empty (1). largest: as in second_moments.
KERNEL(row_squares, Tensor out, View x, View rows, View mean, View bases, View ends, double largest, View factor);

// What pair_statistics writes for each pair of a type w and a sequence s, over its rows i: with y_i = x_i - mean and
// u_i = x_i/||x_i||, Y_ws and U_ws their sums and Y_w, U_w those of the whole type.
enum PairScalar { kRows, kWithType, kSquare, kUnits, kUnitWithType, kUnitSquare, kPairScalars };
//              n_ws    Y_w . Y_ws  ||Y_ws||^2  units   U_w . U_ws   ||U_ws||^2

// out [P, kPairScalars] f64. rows i32: by type, then by sequence; offsets i32 [P + 1] of each pair's rows; types i32
// [W + 1]: where each type's pairs begin. mean [d] f64.
KERNEL(pair_statistics, Tensor out, View x, View rows, View offsets, View types, View mean);

// out [n] f64 = x_i . y_i/(||x_i|| ||y_i||) for i in rows [n]; kNoCosine where either is zero. x, y [N, d], each f32 or f64.
constexpr double kNoCosine = 2;
KERNEL(row_cosines, Tensor out, View x, View y, View rows);

}  // namespace nascent
