// How a file lays out a linear's weight and bias, beside this program's [out, in].
#pragma once

#include <cstdint>

#include "kernels/view.h"

namespace nascent {

struct Layout {
  enum Kind {
    kPlain,       // as here
    kTransposed,  // [in, out]: GPT-2's Conv1D
    kHeadwise,    // rows of q, k, v interleaved by head, [head][q, k, v][head size]: GPT-NeoX; here all q, all k, all v
  };
  Kind kind = kPlain;
  std::int64_t heads = 0;  // of kHeadwise
};

Shape shape_in_file(const Layout& layout, const Shape& ours);

// Copies a tensor's elements to their places in the other layout. Shapes: ours, and shape_in_file of it; dtypes are the same.
void to_file(const Tensor& file, const View& ours, const Layout& layout);
void from_file(const Tensor& ours, const View& file, const Layout& layout);

}  // namespace nascent
