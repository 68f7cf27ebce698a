// Causal multi-head attention (Vaswani et al. 2017). qkv [B, T, 3C] holds q, k, v one after the other, each head
// contiguous; y [B, T, C]; C = heads * D. For each sequence and head:
//
//   S_ij = q_i . k_j / sqrt(D) for j <= i     lse_i = ln sum_j exp S_ij     P_ij = exp(S_ij - lse_i)
//   y_i = sum_j P_ij v_j
//
// Backward, with delta_i = dy_i . y_i (= sum_j P_ij dP_ij, Dao et al. 2022):
//
//   dP_ij = dy_i . v_j                        dS_ij = P_ij (dP_ij - delta_i)
//   dq_i = sum_j dS_ij k_j / sqrt(D)          dk_j = sum_i dS_ij q_i / sqrt(D)
//   dv_j = sum_i P_ij dy_i
//
// The scores of a block of queries at a time: neither B x H x T x T nor T x T is ever held. lse [B, H, T] is all that
// is kept.
#pragma once

#include "kernels/kernel.h"

namespace nascent {

KERNEL(attention_forward, Tensor y, Tensor lse, View qkv, int heads);
KERNEL(attention_backward, Tensor dqkv, View dy, View y, View lse, View qkv, int heads);

}  // namespace nascent
