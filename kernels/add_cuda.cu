#include "kernels/add.h"
#include "kernels/cuda.cuh"
#include "kernels/require.h"

namespace nascent::cuda {
namespace {

template <class T>
__global__ void add(T* y, const T* a, const T* b, std::int64_t n) {
  const std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i < n) y[i] = a[i] + b[i];
}

}  // namespace

void add_forward(Stream& s, Tensor y, View a, View b) {
  require_shape("add_forward", "a", a, y.shape());
  require_shape("add_forward", "b", b, y.shape());
  dispatch(y.dtype(), [&]<class T>() {
    launch(s, "add_forward", add<T>, blocks_for(y.size(), kThreads), kThreads, y.data<T>(), a.data<T>(), b.data<T>(),
           y.size());
  });
}

}  // namespace nascent::cuda
