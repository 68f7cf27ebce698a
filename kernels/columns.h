// Columns of a wide tensor as a dense one and back: the queries among fused queries, keys and values. x [.., W], y [.., C]:
//
//   take   y_j = x_{first + j}          put   x_{first + j} = y_j, the other columns stay
//
// Each is the other's backward: the gradient of what was taken is put where it came from.
#pragma once

#include <cstdint>

#include "kernels/kernel.h"

namespace nascent {

KERNEL(take_columns, Tensor y, View x, std::int64_t first);
KERNEL(put_columns, Tensor x, View y, std::int64_t first);

}  // namespace nascent
