#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/gemm.h"
#include "kernels/parallel.h"
#include "kernels/require.h"
#include "kernels/second_moments.h"

namespace nascent::cpu {
namespace {

constexpr std::int64_t kRows = 1024;   // positions centred at a time
constexpr std::int64_t kStrip = 128;   // rows of the triangle in one product
constexpr std::int64_t kTile = 64;     // columns of it, where one thread takes one
constexpr std::int64_t kRounded = 64;  // zero rows fill up to a multiple of it: few shapes of products to prepare

}  // namespace

namespace {

// product [d, d] (+)= centred^T centred [height, d] in the upper triangle of strips: float by a library that uses all
// threads itself.
void add_products(Stream& s, float* product, const float* centred, std::int64_t height, std::int64_t d, Into into) {
  for (std::int64_t strip = 0; strip < d; strip += kStrip) {
    const std::int64_t part = std::min(kStrip, d - strip), width = d - strip;
    const Matrix<const float> left{centred + strip, height, part, d}, right{centred + strip, height, width, d};
    gemm<float>(s, {product + strip * d + strip, part, width, d}, left.transposed(), right, into);
  }
}

// Double by one that uses a single thread: tiles side by side.
void add_products(Stream& s, double* product, const double* centred, std::int64_t height, std::int64_t d, Into into) {
  struct Tile {
    const Gemm* gemm;
    std::int64_t row, column;
  };
  std::vector<Tile> tiles;
  for (std::int64_t row = 0; row < d; row += kStrip) {
    for (std::int64_t column = row; column < d; column += kTile) {
      const Matrix<const double> left{centred + row, height, std::min(kStrip, d - row), d},
          right{centred + column, height, std::min(kTile, d - column), d};
      const Matrix<const double> out{product, left.cols, right.cols, d};
      tiles.push_back({&s.gemm(gemm_shape<double>(out, left.transposed(), right, into == Into::kAdd)), row, column});
    }
  }
  parallel_for(s, static_cast<std::int64_t>(tiles.size()), 1, [&](std::int64_t begin, std::int64_t end, int) {
    for (std::int64_t i = begin; i < end; ++i) {
      const Tile& t = tiles[static_cast<std::size_t>(i)];
      t.gemm->run(product + t.row * d + t.column, centred + t.row, centred + t.column, nullptr, nullptr);
    }
  });
}

// T: of x, P: of the products.
template <class T, class P>
void accumulate(Stream& s, double* total, View x, View rows, const double* mu, double scale, View factor, View weight) {
  const std::int64_t n = rows.size(), d = x.cols();
  const double* factors = factor ? factor.data<double>() : nullptr;
  const double* weights = weight ? weight.data<double>() : nullptr;
  const std::int32_t* chosen = rows.data<std::int32_t>();
  const auto centred_memory = s.scratch(DTypeOf<P>::value, {kRows, d});
  const auto product_memory = s.scratch(DTypeOf<P>::value, {d, d});
  P* centred = centred_memory.template data<P>();
  P* product = product_memory.template data<P>();
  for (std::int64_t first = 0; first < n; first += kRows) {
    const std::int64_t filled = std::min(kRows, n - first), height = (filled + kRounded - 1) / kRounded * kRounded;
    parallel_for(s, height, 16, [&](std::int64_t begin, std::int64_t end, int) {
      for (std::int64_t i = begin; i < end; ++i) {
        P* out = centred + i * d;
        if (i >= filled) {
          std::fill_n(out, d, P{0});
          continue;
        }
        const std::int64_t row = chosen[first + i];
        const T* in = x.data<T>() + row * d;
        const double f = factors ? factors[row] : 1, w = weights ? scale * std::sqrt(weights[row]) : scale;
        for (std::int64_t j = 0; j < d; ++j) out[j] = static_cast<P>((f * static_cast<double>(in[j]) - mu[j]) * w);
      }
    });
    add_products(s, product, centred, height, d, first == 0 ? Into::kAssign : Into::kAdd);
  }
  const double undo = 1 / (scale * scale);
  parallel_for(s, d, 8, [&](std::int64_t begin, std::int64_t end, int) {
    for (std::int64_t i = begin; i < end; ++i) {
      for (std::int64_t j = 0; j < d; ++j) {
        // Element (i, j) of the upper triangle of strips, or its mirror image.
        const bool computed = j >= i / kStrip * kStrip;
        total[i * d + j] = static_cast<double>(computed ? product[i * d + j] : product[j * d + i]) * undo;
      }
    }
  });
}

}  // namespace

void second_moments(Stream& s, Tensor scatter, View x, View rows, View mean, double largest, View factor, View weight,
                    DType products) {
  const std::int64_t d = x.cols();
  require_shape("second_moments", "scatter", scatter, {d, d});
  require_shape("second_moments", "mean", mean, {d});
  double* total = scatter.data<double>();
  std::fill_n(total, d * d, 0.0);
  if (rows.size() == 0 || !(largest > 0)) return;
  const double scale = std::ldexp(1.0, -std::ilogb(largest));  // exact: a power of two
  const double* mu = mean.data<double>();
  dispatch(x.dtype(), [&]<class T>() {
    dispatch(products, [&]<class P>() { accumulate<T, P>(s, total, x, rows, mu, scale, factor, weight); });
  });
}

}  // namespace nascent::cpu
