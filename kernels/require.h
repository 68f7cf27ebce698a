// Checks at an op's border; inside it sizes are trusted. Plain C++: CUDA files include this too.
#pragma once

#include "kernels/view.h"

namespace nascent {

// Throws (machine): "norm_forward: w has shape (512), expected (768)".
[[noreturn]] void throw_shape(const char* op, const char* name, const Shape& found, const Shape& wanted);
[[noreturn]] void throw_rows(const char* op, const char* name, const Shape& found, std::int64_t wanted);

inline void require_shape(const char* op, const char* name, const View& x, const Shape& wanted) {
  if (x.shape() != wanted) throw_shape(op, name, x.shape(), wanted);
}

inline void require_rows(const char* op, const char* name, const View& x, std::int64_t rows) {
  if (x.rows() != rows) throw_rows(op, name, x.shape(), rows);
}

}  // namespace nascent
