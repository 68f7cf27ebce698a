// Held-out loss.
#pragma once

#include <cstdint>

#include "data/dataset.h"
#include "model/transformer.h"

namespace nascent {

struct Evaluation {
  double loss = 0;  // nats per target
  std::int64_t targets = 0;
};

// Mean cross entropy over the first `sequences` windows (0: all of them), forward only, in the model's own planned
// batches. The listener is not called.
Evaluation evaluate(Stream& s, Transformer& model, const Windows& windows, std::int64_t sequences);

}  // namespace nascent
