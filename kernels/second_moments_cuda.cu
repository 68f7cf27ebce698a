#include <cmath>

#include "kernels/cuda.cuh"
#include "kernels/gemm.h"
#include "kernels/require.h"
#include "kernels/second_moments.h"

namespace nascent::cuda {
namespace {

constexpr std::int64_t kRows = 8192;  // positions centred at a time

// out [height, d] = (factor x_row - mean) scale sqrt(weight) of the chosen rows. A block a row.
template <class T, class P>
__global__ void centre(P* out, const T* x, const std::int32_t* chosen, const double* mean, double scale,
                       const double* factor, const double* weight, std::int64_t d) {
  const std::int64_t row = chosen[blockIdx.x];
  const double f = factor ? factor[row] : 1, w = weight ? scale * std::sqrt(weight[row]) : scale;
  for (std::int64_t j = threadIdx.x; j < d; j += blockDim.x) {
    out[blockIdx.x * d + j] = static_cast<P>((f * static_cast<double>(x[row * d + j]) - mean[j]) * w);
  }
}

// out [d, d] = undo * product's upper triangle, mirrored: symmetric to the bit.
template <class P>
__global__ void mirror(double* out, const P* product, double undo, std::int64_t d) {
  const std::int64_t at = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (at >= d * d) return;
  const std::int64_t i = at / d, j = at % d;
  out[at] = undo * static_cast<double>(i <= j ? product[at] : product[j * d + i]);
}

template <class T, class P>
void accumulate(Stream& s, Tensor scatter, View x, View rows, View mean, double scale, View factor, View weight) {
  const std::int64_t n = rows.size(), d = x.cols(), most = n < kRows ? n : kRows;
  const auto centred = s.scratch(DTypeOf<P>::value, {most, d});
  const auto product = s.scratch(DTypeOf<P>::value, {d, d});
  for (std::int64_t first = 0; first < n; first += most) {
    const std::int64_t height = n - first < most ? n - first : most;
    launch(s, "second_moments", centre<T, P>, blocks_for(height, 1), kThreads, centred.template data<P>(), x.data<T>(),
           rows.data<std::int32_t>() + first, mean.data<double>(), scale, factor ? factor.data<double>() : nullptr,
           weight ? weight.data<double>() : nullptr, d);
    const Matrix<const P> block{centred.template data<P>(), height, d, d};
    gemm<P>(s, {product.template data<P>(), d, d, d}, block.transposed(), block,
            first == 0 ? Into::kAssign : Into::kAdd);
  }
  launch(s, "second_moments", mirror<P>, blocks_for(d * d, kThreads), kThreads, scatter.data<double>(),
         product.template data<P>(), 1 / (scale * scale), d);
}

}  // namespace

void second_moments(Stream& s, Tensor scatter, View x, View rows, View mean, double largest, View factor, View weight,
                    DType products) {
  const std::int64_t d = x.cols();
  require_shape("second_moments", "scatter", scatter, {d, d});
  require_shape("second_moments", "mean", mean, {d});
  if (rows.size() == 0 || !(largest > 0)) {
    CUDA_CHECK(cudaMemsetAsync(scatter.address(), 0, scatter.bytes(), stream_of(s)));
    return;
  }
  const double scale = std::ldexp(1.0, -std::ilogb(largest));  // exact: a power of two
  dispatch(x.dtype(), [&]<class T>() {
    dispatch(products, [&]<class P>() { accumulate<T, P>(s, scatter, x, rows, mean, scale, factor, weight); });
  });
}

}  // namespace nascent::cuda
