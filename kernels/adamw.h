// AdamW (Loshchilov & Hutter 2019), one tensor, in place, as torch.optim.AdamW does it:
//
//   g <- gradient_scale g                w <- w (1 - lr weight_decay)
//   m <- beta1 m + (1 - beta1) g         v <- beta2 v + (1 - beta2) g^2
//   w <- w - lr m / (1 - beta1^t) / (sqrt(v / (1 - beta2^t)) + eps)
#pragma once

#include <cstdint>

#include "kernels/kernel.h"

namespace nascent {

struct AdamW {
  double lr, beta1, beta2, eps, weight_decay;
  double gradient_scale;  // the clip factor, 1 when nothing is clipped
  std::int64_t t;         // this update's number, from 1
};

KERNEL(adamw_update, Tensor w, Tensor m, Tensor v, View g, AdamW rule);

}  // namespace nascent
