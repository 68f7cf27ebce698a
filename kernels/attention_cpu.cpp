#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/attention.h"
#include "kernels/gemm.h"
#include "kernels/parallel.h"
#include "kernels/require.h"
#include "kernels/slab.h"
#include "kernels/vecmath.h"

namespace nascent::cpu {
namespace {

// Queries of one block: its scores against 1,024 keys take 256 kB, which fits a core's own cache.
constexpr std::int64_t kQueries = 64;

struct Sizes {
  std::int64_t b, t, c, heads, d;
  std::int64_t blocks() const { return (t + kQueries - 1) / kQueries; }
};

Sizes sizes_of(const char* op, const View& y, const View& qkv, int heads) {
  const Sizes z{y.shape()[0], y.shape()[1], y.cols(), heads, y.cols() / heads};
  if (z.d * heads != z.c) throw machine_error("{}: {} heads do not divide the width {}", op, heads, z.c);
  require_shape(op, "qkv", qkv, {z.b, z.t, 3 * z.c});
  return z;
}

// One block of queries [begin, end) against the keys [0, end) that it may see. The strides are those of qkv and y.
template <class T>
struct Block {
  std::int64_t begin, end, stride, width, d;

  std::int64_t queries() const { return end - begin; }
  Matrix<T> scores(T* p) const { return {p, queries(), end, end}; }
  Matrix<T> of_queries(T* p) const { return {p + begin * stride, queries(), d, stride}; }  // q, dq
  Matrix<T> of_keys(T* p) const { return {p, end, d, stride}; }                            // k, v, dk, dv
  Matrix<T> of_output(T* p) const { return {p + begin * width, queries(), d, width}; }     // y, dy
};

// The products of every block, prepared before threads start.
template <class T>
class Products {
 public:
  enum Name { kScores, kOutput, kScoreGradient, kQuery, kKey, kValue, kNames };

  Products(Stream& s, const Sizes& z, bool backward) {
    for (std::int64_t i = 0; i < z.blocks(); ++i) {
      const Block<T> b = block(z, i);
      T* none = nullptr;
      const auto prepare = [&](Name name, Matrix<const T> c, Matrix<const T> left, Matrix<const T> right,
                               bool accumulate) {
        const Gemm& gemm = s.gemm(gemm_shape<T>(c, left, right, accumulate));
        gemms_[name].push_back(&gemm);
        scratch_ = std::max(scratch_, gemm.scratch_bytes());
      };
      prepare(kScores, b.scores(none), b.of_queries(none), b.of_keys(none).transposed(), false);
      if (!backward) {
        prepare(kOutput, b.of_output(none), b.scores(none), b.of_keys(none), false);
        continue;
      }
      prepare(kScoreGradient, b.scores(none), b.of_output(none), b.of_keys(none).transposed(), false);
      prepare(kQuery, b.of_queries(none), b.scores(none), b.of_keys(none), false);
      prepare(kKey, b.of_keys(none), b.scores(none).transposed(), b.of_queries(none), true);
      prepare(kValue, b.of_keys(none), b.scores(none).transposed(), b.of_output(none), true);
    }
  }

  static Block<T> block(const Sizes& z, std::int64_t i) {
    return {i * kQueries, std::min(z.t, (i + 1) * kQueries), 3 * z.c, z.c, z.d};
  }
  const Gemm& operator()(Name name, std::int64_t i) const { return *gemms_[name][static_cast<std::size_t>(i)]; }
  // Of one thread, a multiple of the alignment.
  std::int64_t scratch_elements() const {
    constexpr std::size_t aligned = Slab::kAlignment;
    return static_cast<std::int64_t>((scratch_ + aligned) / aligned * aligned / sizeof(T));
  }

 private:
  std::vector<const Gemm*> gemms_[kNames];
  std::size_t scratch_ = 0;
};

}  // namespace

void attention_forward(Stream& s, Tensor y, Tensor lse, View qkv, int heads) {
  const Sizes z = sizes_of("attention_forward", y, qkv, heads);
  require_shape("attention_forward", "lse", lse, {z.b, z.heads, z.t});
  dispatch(y.dtype(), [&]<class T>() {
    using P = Products<T>;
    const P product(s, z, false);
    const auto scores = s.scratch(y.dtype(), {s.threads(), kQueries * z.t});
    const auto scratch = s.scratch(y.dtype(), {s.threads(), product.scratch_elements()});
    const T scale = 1 / std::sqrt(static_cast<T>(z.d));

    parallel_for(s, z.b * z.heads, 1, [&](std::int64_t begin, std::int64_t end, int thread) {
      T* p = scores.template data<T>() + thread * kQueries * z.t;
      T* work = scratch.template data<T>() + thread * product.scratch_elements();
      for (std::int64_t item = begin; item < end; ++item) {
        const std::int64_t batch = item / z.heads, head = item % z.heads;
        const T* q = qkv.data<T>() + batch * z.t * 3 * z.c + head * z.d;
        const T *k = q + z.c, *v = k + z.c;
        T* out = y.data<T>() + batch * z.t * z.c + head * z.d;
        T* log_sum = lse.data<T>() + item * z.t;
        for (std::int64_t i = 0; i < z.blocks(); ++i) {
          const Block<T> block = P::block(z, i);
          product(P::kScores, i).run(p, q + block.begin * block.stride, k, nullptr, work);
          for (std::int64_t row = block.begin; row < block.end; ++row) {
            T* r = p + (row - block.begin) * block.end;
            T most = r[0], total = 0;
#pragma omp simd reduction(max : most)
            for (std::int64_t j = 0; j <= row; ++j) most = r[j] > most ? r[j] : most;
#pragma omp simd reduction(+ : total)
            for (std::int64_t j = 0; j <= row; ++j) total += r[j] = exp_of((r[j] - most) * scale);
            for (std::int64_t j = 0; j <= row; ++j) r[j] /= total;
            std::fill(r + row + 1, r + block.end, T{0});
            log_sum[row] = most * scale + std::log(total);
          }
          product(P::kOutput, i).run(out + block.begin * block.width, p, v, nullptr, work);
        }
      }
    });
  });
}

void attention_backward(Stream& s, Tensor dqkv, View dy, View y, View lse, View qkv, int heads) {
  const Sizes z = sizes_of("attention_backward", y, qkv, heads);
  require_shape("attention_backward", "dqkv", dqkv, qkv.shape());
  require_shape("attention_backward", "dy", dy, y.shape());
  dispatch(y.dtype(), [&]<class T>() {
    using P = Products<T>;
    const P product(s, z, true);
    const auto scores = s.scratch(y.dtype(), {s.threads(), 2, kQueries * z.t});
    const auto scratch = s.scratch(y.dtype(), {s.threads(), product.scratch_elements()});
    const T scale = 1 / std::sqrt(static_cast<T>(z.d));

    parallel_for(s, z.b * z.heads, 1, [&](std::int64_t begin, std::int64_t end, int thread) {
      T* p = scores.template data<T>() + thread * 2 * kQueries * z.t;
      T* dp = p + kQueries * z.t;
      T* work = scratch.template data<T>() + thread * product.scratch_elements();
      for (std::int64_t item = begin; item < end; ++item) {
        const std::int64_t batch = item / z.heads, head = item % z.heads;
        const T* q = qkv.data<T>() + batch * z.t * 3 * z.c + head * z.d;
        const T *k = q + z.c, *v = k + z.c;
        T* dq = dqkv.data<T>() + batch * z.t * 3 * z.c + head * z.d;
        T *dk = dq + z.c, *dv = dk + z.c;
        const T* out = y.data<T>() + batch * z.t * z.c + head * z.d;
        const T* dout = dy.data<T>() + batch * z.t * z.c + head * z.d;
        const T* log_sum = lse.data<T>() + item * z.t;
        for (std::int64_t j = 0; j < z.t; ++j) {
          std::fill_n(dk + j * 3 * z.c, z.d, T{0});
          std::fill_n(dv + j * 3 * z.c, z.d, T{0});
        }
        for (std::int64_t i = 0; i < z.blocks(); ++i) {
          const Block<T> block = P::block(z, i);
          const T* q_block = q + block.begin * block.stride;
          const T* dout_block = dout + block.begin * block.width;
          product(P::kScores, i).run(p, q_block, k, nullptr, work);
          product(P::kScoreGradient, i).run(dp, dout_block, v, nullptr, work);
          for (std::int64_t row = block.begin; row < block.end; ++row) {
            T* r = p + (row - block.begin) * block.end;
            T* dr = dp + (row - block.begin) * block.end;
            T delta = 0;
#pragma omp simd reduction(+ : delta)
            for (std::int64_t j = 0; j < z.d; ++j) delta += dout[row * z.c + j] * out[row * z.c + j];
            const T log_sum_row = log_sum[row];
#pragma omp simd
            for (std::int64_t j = 0; j <= row; ++j) {
              r[j] = exp_of(r[j] * scale - log_sum_row);
              dr[j] = r[j] * (dr[j] - delta) * scale;
            }
            std::fill(r + row + 1, r + block.end, T{0});
            std::fill(dr + row + 1, dr + block.end, T{0});
          }
          product(P::kQuery, i).run(dq + block.begin * block.stride, dp, k, nullptr, work);
          product(P::kKey, i).run(dk, dp, q_block, nullptr, work);
          product(P::kValue, i).run(dv, p, dout_block, nullptr, work);
        }
      }
    });
  });
}

}  // namespace nascent::cpu
