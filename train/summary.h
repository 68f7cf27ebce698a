// What a run came to, read back from its metrics.db.
#pragma once

#include "train/metrics_db.h"

namespace nascent {

// Prints the loss at the start and at the end, the held-out loss beside n-gram models, the share of the gradient in
// each tangent basis at the first, the middle and the last measured step, and what the probes cost. What a run has not
// measured is left out.
void print_summary(const MetricsDb& metrics);

}  // namespace nascent
