// What becomes of a step, judged by its gradient before the optimizer moves.
#pragma once

#include <cstdint>

namespace nascent {

enum class Verdict {
  kUpdate,
  kNoTarget,   // nothing was to be predicted: there is no loss, and its gradient is 0
  kNotFinite,  // NaN or infinity: nothing of it may reach weights or moments
};

// Of the whole step, all micro-batches: targets that counted, mean loss, norm of the gradient.
Verdict verdict_of(std::int64_t counted_targets, double loss, double gradient_norm);

}  // namespace nascent
