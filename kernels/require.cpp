#include "kernels/require.h"

#include "kernels/error.h"

namespace nascent {

void throw_shape(const char* op, const char* name, const Shape& found, const Shape& wanted) {
  throw machine_error("{}: {} has shape {}, expected {}", op, name, found.text(), wanted.text());
}

void throw_rows(const char* op, const char* name, const Shape& found, std::int64_t wanted) {
  throw machine_error("{}: {} has shape {}, expected {} rows", op, name, found.text(), wanted);
}

}  // namespace nascent
