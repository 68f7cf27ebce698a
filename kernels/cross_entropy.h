// Softmax cross entropy of each row of logits [n, V] against target [n] i32, in nats:
//
//   losses_i = ln sum_v exp l_iv - l_i,target          dlogits_iv = scale (softmax(l_i)_v - 1[v = target])
//
// A row whose target is kIgnored has loss 0 and gradient 0. `scale` is 1/(counted targets of the whole optimizer step),
// so that gradients of micro-batches add up to the gradient of the step's mean loss.
#pragma once

#include <cstdint>

#include "kernels/kernel.h"

namespace nascent {

inline constexpr std::int32_t kIgnored = -1;

KERNEL(cross_entropy_forward, Tensor losses, View logits, View targets);
// dlogits may be logits.
KERNEL(cross_entropy_forward_backward, Tensor losses, Tensor dlogits, View logits, View targets, double scale);

}  // namespace nascent
