// Multi-head attention (Vaswani et al. 2017), with grouped keys and values (Ainslie et al. 2023). qkv [B, T, (H + 2K) D] holds
// H heads of q, then K heads of k, then K of v, each contiguous; head h uses keys and values h / (H / K); y [B, T, H D]. For
// each sequence and head, over the positions j that i may see:
//
//   S_ij = q_i . k_j / sqrt(D)     lse_i = ln sum_j exp S_ij     P_ij = exp(S_ij - lse_i)     y_i = sum_j P_ij v_j
//
// Backward, with delta_i = dy_i . y_i (= sum_j P_ij dP_ij, Dao et al. 2022):
//
//   dP_ij = dy_i . v_j                        dS_ij = P_ij (dP_ij - delta_i)
//   dq_i = sum_j dS_ij k_j / sqrt(D)          dk_j = sum_i dS_ij q_i / sqrt(D)
//   dv_j = sum_i P_ij dy_i
//
// dk and dv are also summed over the heads that share them. The scores of a block of queries at a time, against the keys in
// its reach: neither B x H x T x T nor T x T is ever held. lse [B, H, T] is all that is kept.
#pragma once

#include <cstdint>

#include "kernels/kernel.h"

namespace nascent {

// What a position sees: an interval of positions, always itself among them.
struct AttentionMask {
  bool causal = true;  // j <= i
  std::int64_t window =
      0;           // |i - j| < window: itself and window - 1 before it, and as many after it unless causal; 0: all
  View documents;  // [B, T] i32: only positions of the same number, which stand together; empty: one document
};

struct AttentionHeads {
  int query = 1;      // H
  int key_value = 1;  // K, a divisor of H
};

KERNEL(attention_forward, Tensor y, Tensor lse, View qkv, AttentionHeads heads, AttentionMask mask);
KERNEL(attention_backward, Tensor dqkv, View dy, View y, View lse, View qkv, AttentionHeads heads, AttentionMask mask);

}  // namespace nascent
