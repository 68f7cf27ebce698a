// `nascent measure`: a probe on stored arrays, from this program's files or anyone's.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "probes/record.h"

namespace nascent {

struct MeasureOptions {
  std::filesystem::path file;    // safetensors
  std::string probe;             // "moments", "tangent", "gradient_energy"
  std::vector<std::string> set;  // choices, "rank=8": LookKeys, local ones, the probe's own
  std::filesystem::path json;    // where to write the records; empty: a table on standard output
};

// The records of a probe on the arrays of a file:
//   h:TAP, g:TAP        [N, d] floats (f32, f64 or bf16): activations and gradients
//   token, sequence     [N] integers: types, and which sequence a position belongs to
//   target              [N] integers, -1 for none
//   counts              [V] integers: of each type in the training corpus, for frequency bins
//   special             integers: types without a rank
//   basis:NAME:TAP      [d, r] floats, orthonormal; `current` is fitted on h:TAP
// Integers are i64, i32 or u16; other tensors are passed over. Second moments are taken in double. Throws (input) and names the tensor, what it is and what was expected.
Records measure(const MeasureOptions& options);

// measure(), and the records written where the options say.
void measure_file(const MeasureOptions& options);

}  // namespace nascent
