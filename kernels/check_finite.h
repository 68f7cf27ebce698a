// What `nascent train --check-nan` does at every op: look for the first number that is NaN or infinite.
#pragma once

#include <cstdint>
#include <string>

#include "kernels/view.h"

namespace nascent {

class Stream;

// The first element that is not finite, counted in row-major order; -1: none. Integers, and a view of nothing, have none.
std::int64_t first_not_finite(const View& x);

// Of an op's arguments, as KERNEL was given them, the name of one: "w" for 2 in "Tensor y, View x, View w, View b".
std::string argument_name(const std::string& arguments, int number);

// Throws (machine) for such an element: "step 3, blocks.1: linear_forward made nan in y at (2, 0, 5) of shape (4, 16, 24)".
// verb: "made" (an output) or "was given" (an input); arguments: the op's, as KERNEL was given them, of which x is `number`.
void require_finite(const Stream& s, const char* kernel, const char* verb, const char* arguments, int number,
                    const View& x);

}  // namespace nascent
