// Checks at an op's border; inside it sizes are trusted.
#pragma once

#include "kernels/error.h"
#include "kernels/view.h"

namespace nascent {

inline void require_shape(const char* op, const char* name, const View& x, const Shape& wanted) {
  if (x.shape() == wanted) return;
  throw machine_error("{}: {} has shape {}, expected {}", op, name, x.shape().text(), wanted.text());
}

inline void require_rows(const char* op, const char* name, const View& x, std::int64_t rows) {
  if (x.rows() == rows) return;
  throw machine_error("{}: {} has shape {}, expected {} rows", op, name, x.shape().text(), rows);
}

}  // namespace nascent
