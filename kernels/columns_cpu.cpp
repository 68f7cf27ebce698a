#include <algorithm>

#include "kernels/columns.h"
#include "kernels/error.h"
#include "kernels/parallel.h"
#include "kernels/require.h"

namespace nascent::cpu {
namespace {

void check(const char* op, const View& y, const View& x, std::int64_t first) {
  require_rows(op, "y", y, x.rows());
  if (first < 0 || first + y.cols() > x.cols()) {
    throw machine_error("{}: columns {} to {} of {}", op, first, first + y.cols(), x.cols());
  }
}

}  // namespace

void take_columns(Stream& s, Tensor y, View x, std::int64_t first) {
  check("take_columns", y, x, first);
  dispatch(y.dtype(), [&]<class T>() {
    parallel_for(s, x.rows(), 64, [&](std::int64_t begin, std::int64_t end, int) {
      for (std::int64_t i = begin; i < end; ++i)
        std::copy_n(x.data<T>() + i * x.cols() + first, y.cols(), y.data<T>() + i * y.cols());
    });
  });
}

void put_columns(Stream& s, Tensor x, View y, std::int64_t first) {
  check("put_columns", y, x, first);
  dispatch(y.dtype(), [&]<class T>() {
    parallel_for(s, x.rows(), 64, [&](std::int64_t begin, std::int64_t end, int) {
      for (std::int64_t i = begin; i < end; ++i)
        std::copy_n(y.data<T>() + i * y.cols(), y.cols(), x.data<T>() + i * x.cols() + first);
    });
  });
}

}  // namespace nascent::cpu
