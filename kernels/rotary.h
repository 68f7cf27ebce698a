// Rotary position embedding (Su et al. 2021), the halves of Hugging Face's models. Of each head of q and k, the first `dims`
// numbers are dims / 2 pairs (x_i, x_{i + dims/2}); the pair i of position t turns by the angle a = t base^(-2i / dims):
//
//   y_i = x_i cos a - x_{i + dims/2} sin a          y_{i + dims/2} = x_{i + dims/2} cos a + x_i sin a
//
// The other numbers of a head, and v, pass through. Backward turns the gradient by -a.
#pragma once

#include <cstdint>

#include "kernels/attention.h"
#include "kernels/kernel.h"

namespace nascent {

struct Rotary {
  std::int64_t dims = 0;  // even, at most the head size
  double base = 10000;
};

// x, y [B, T, (H + 2K) D] as attention takes them; y may be x. Likewise dx, dy.
KERNEL(rotary_forward, Tensor y, View x, AttentionHeads heads, Rotary rule);
KERNEL(rotary_backward, Tensor dx, View dy, AttentionHeads heads, Rotary rule);

}  // namespace nascent
