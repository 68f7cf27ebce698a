#include <algorithm>

#include "kernels/embedding.h"
#include "kernels/error.h"
#include "kernels/parallel.h"
#include "kernels/require.h"

namespace nascent::cpu {

void embedding_forward(Stream& s, Tensor y, View tokens, View table) {
  const std::int64_t n = tokens.size(), c = table.cols();
  require_rows("embedding_forward", "y", y, n);
  dispatch(y.dtype(), [&]<class T>() {
    T* out = y.data<T>();
    const T* rows = table.data<T>();
    const std::int32_t* ids = tokens.data<std::int32_t>();
    parallel_for(s, n, 16, [&](std::int64_t begin, std::int64_t end, int) {
      for (std::int64_t i = begin; i < end; ++i) std::copy_n(rows + ids[i] * c, c, out + i * c);
    });
  });
}

// Each thread owns a strip of columns and walks all positions in order.
void embedding_backward(Stream& s, Tensor dtable, View dy, View tokens) {
  const std::int64_t n = tokens.size(), c = dtable.cols();
  require_rows("embedding_backward", "dy", dy, n);
  dispatch(dy.dtype(), [&]<class T>() {
    T* rows = dtable.data<T>();
    const T* in = dy.data<T>();
    const std::int32_t* ids = tokens.data<std::int32_t>();
    parallel_for(s, c, 16, [&](std::int64_t begin, std::int64_t end, int) {
      for (std::int64_t i = 0; i < n; ++i) {
        T* row = rows + ids[i] * c;
        for (std::int64_t j = begin; j < end; ++j) row[j] += in[i * c + j];
      }
    });
  });
}

void position_forward(Stream& s, Tensor y, View x, View table) {
  const std::int64_t b = x.shape()[0], t = x.shape()[1], c = x.cols();
  require_shape("position_forward", "y", y, x.shape());
  if (table.rows() < t) throw machine_error("position_forward: table has {} positions, x has {}", table.rows(), t);
  dispatch(y.dtype(), [&]<class T>() {
    T* out = y.data<T>();
    const T *in = x.data<T>(), *rows = table.data<T>();
    parallel_for(s, b * t, 16, [&](std::int64_t begin, std::int64_t end, int) {
      for (std::int64_t i = begin; i < end; ++i) {
        for (std::int64_t j = 0; j < c; ++j) out[i * c + j] = in[i * c + j] + rows[(i % t) * c + j];
      }
    });
  });
}

void position_backward(Stream& s, Tensor dtable, View dy) {
  const std::int64_t b = dy.shape()[0], t = dy.shape()[1], c = dy.cols();
  dispatch(dy.dtype(), [&]<class T>() {
    T* rows = dtable.data<T>();
    const T* in = dy.data<T>();
    parallel_for(s, t, 1, [&](std::int64_t begin, std::int64_t end, int) {
      for (std::int64_t batch = 0; batch < b; ++batch) {
        for (std::int64_t i = begin; i < end; ++i) {
          for (std::int64_t j = 0; j < c; ++j) rows[i * c + j] += in[(batch * t + i) * c + j];
        }
      }
    });
  });
}

}  // namespace nascent::cpu
