#include "train/verdict.h"

#include <cmath>

namespace nascent {

Verdict verdict_of(std::int64_t counted_targets, double loss, double gradient_norm) {
  // First the gradient: weights that are not finite give NaN also where no target counts.
  if (!std::isfinite(gradient_norm)) return Verdict::kNotFinite;
  if (counted_targets == 0) return Verdict::kNoTarget;
  return std::isfinite(loss) ? Verdict::kUpdate : Verdict::kNotFinite;
}

}  // namespace nascent
