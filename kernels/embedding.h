// Token embedding: y_i = table[token_i]                    tokens [N] i32, table [V, C], y [N, C]
// Position embedding: y_bt = x_bt + table[t]               x, y [B, T, C], table [at least T, C]; y may be x
//
// dtable[v] += sum over token_i = v of dy_i; dtable[t] += sum over b of dy_bt. Both in the order of i: no atomics.
#pragma once

#include "kernels/kernel.h"

namespace nascent {

// Ids must be in [0, V): the data folder checks them where they are read.
KERNEL(embedding_forward, Tensor y, View tokens, View table);
KERNEL(embedding_backward, Tensor dtable, View dy, View tokens);

KERNEL(position_forward, Tensor y, View x, View table);
KERNEL(position_backward, Tensor dtable, View dy);

}  // namespace nascent
