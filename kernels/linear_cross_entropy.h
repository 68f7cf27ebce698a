// The head: logits = h W^T and their cross entropy, by blocks of positions with all columns each, so that the full N x
// V logits never exist. Made of linear and cross_entropy, so it is the same on every device.
#pragma once

#include <functional>

#include "kernels/cross_entropy.h"
#include "kernels/linear.h"

namespace nascent {

// Positions of one block for a vocabulary of V: about four million logits, at least 64 positions, at most 1,024.
std::int64_t head_block_rows(std::int64_t vocab);

// Sees each block: first position, logits [n, V], their gradient [n, V] (empty in a forward without gradient).
using BlockListener = std::function<void(std::int64_t first, View logits, View dlogits)>;

// losses [N]; h [N, C], w [V, C], targets [N] i32.
void linear_cross_entropy_forward(Stream& s, Tensor losses, View h, View w, View targets,
                                  const BlockListener& on_block = {});

// The same, and dh [N, C] = , dw [V, C] += the gradients of scale * sum of losses.
void linear_cross_entropy_forward_backward(Stream& s, Tensor losses, Tensor dh, Tensor dw, View h, View w, View targets,
                                           double scale, const BlockListener& on_block = {});

}  // namespace nascent
