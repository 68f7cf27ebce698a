#include "kernels/reduce.cuh"
#include "kernels/reduce.h"
#include "kernels/require.h"

namespace nascent::cuda {
namespace {

// partials [chunks, c]: a block for each chunk of rows.
template <class T>
__global__ void sum_chunks(T* partials, const T* x, std::int64_t n, std::int64_t c) {
  const std::int64_t first = blockIdx.x * kRowsOfChunk, last = first + kRowsOfChunk < n ? first + kRowsOfChunk : n;
  for (std::int64_t j = threadIdx.x; j < c; j += blockDim.x) {
    T total = 0;
    for (std::int64_t i = first; i < last; ++i) total += x[i * c + j];
    partials[blockIdx.x * c + j] = total;
  }
}

}  // namespace

void column_sum(Stream& s, Tensor out, View x) {
  const std::int64_t n = x.rows(), c = x.cols();
  require_shape("column_sum", "out", out, {c});
  const unsigned chunks = blocks_for(n, kRowsOfChunk);
  dispatch(x.dtype(), [&]<class T>() {
    const auto partials = s.scratch(x.dtype(), {chunks, c});
    T* sums = partials.template data<T>();
    launch(s, "column_sum", sum_chunks<T>, chunks, kThreads, sums, x.data<T>(), n, c);
    launch(s, "column_sum", add_partials<T>, blocks_for(c, kThreads), kThreads, out.data<T>(), sums, chunks, c, c);
  });
}

}  // namespace nascent::cuda
