#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/attention.h"
#include "kernels/error.h"
#include "kernels/gemm.h"
#include "kernels/parallel.h"
#include "kernels/require.h"
#include "kernels/slab.h"
#include "kernels/vecmath.h"

namespace nascent::cpu {
namespace {

// Queries of one block: its scores against 1,024 keys take 256 kB, which fits a core's own cache.
constexpr std::int64_t kQueries = 64;

// An interval of positions.
struct Range {
  std::int64_t begin, end;
  std::int64_t size() const { return end - begin; }
};

struct Sizes {
  std::int64_t b, t, d, heads, groups;                              // groups: K
  std::int64_t width() const { return heads * d; }                  // of a row of y
  std::int64_t stride() const { return (heads + 2 * groups) * d; }  // of a row of qkv
  std::int64_t heads_of_group() const { return heads / groups; }
  std::int64_t blocks() const { return (t + kQueries - 1) / kQueries; }
  Range queries(std::int64_t block) const { return {block * kQueries, std::min(t, (block + 1) * kQueries)}; }
};

Sizes sizes_of(const char* op, const View& y, const View& qkv, AttentionHeads heads, const AttentionMask& mask) {
  const std::int64_t b = y.shape()[0], t = y.shape()[1], c = y.cols();
  if (heads.query < 1 || c % heads.query != 0) {
    throw machine_error("{}: {} heads do not divide the width {}", op, heads.query, c);
  }
  if (heads.key_value < 1 || heads.query % heads.key_value != 0) {
    throw machine_error("{}: {} heads of keys do not divide {} of queries", op, heads.key_value, heads.query);
  }
  const Sizes z{b, t, c / heads.query, heads.query, heads.key_value};
  require_shape(op, "qkv", qkv, {b, t, z.stride()});
  if (mask.documents) require_shape(op, "documents", mask.documents, {b, t});
  return z;
}

// The keys that each position sees, documents aside.
Range reach(const Sizes& z, const AttentionMask& mask, std::int64_t i) {
  const std::int64_t before = mask.window > 0 ? std::min(i, mask.window - 1) : i;
  const std::int64_t after = mask.causal ? 0 : mask.window > 0 ? mask.window - 1 : z.t;
  return {i - before, std::min(z.t, i + after + 1)};
}

// The same for every position of every sequence, documents included: [B T].
std::vector<Range> reaches(const Sizes& z, const AttentionMask& mask) {
  std::vector<Range> all(static_cast<std::size_t>(z.b * z.t));
  const std::int32_t* document = mask.documents ? mask.documents.data<std::int32_t>() : nullptr;
  for (std::int64_t b = 0; b < z.b; ++b) {
    Range whole{0, document ? 0 : z.t};  // the document around i
    for (std::int64_t i = 0; i < z.t; ++i) {
      if (i == whole.end) {
        const std::int32_t* row = document + b * z.t;
        whole = {i, i + 1};
        while (whole.end < z.t && row[whole.end] == row[i]) ++whole.end;
      }
      const Range seen = reach(z, mask, i);
      all[static_cast<std::size_t>(b * z.t + i)] = {std::max(seen.begin, whole.begin), std::min(seen.end, whole.end)};
    }
  }
  return all;
}

// The products of every block of queries with the keys that any of them may see, prepared before threads start.
template <class T>
class Products {
 public:
  enum Name { kScores, kOutput, kScoreGradient, kQuery, kKey, kValue, kNames };

  Products(Stream& s, const Sizes& z, const AttentionMask& mask, bool backward) {
    for (std::int64_t i = 0; i < z.blocks(); ++i) {
      const Range q = z.queries(i);
      keys_.push_back({reach(z, mask, q.begin).begin, reach(z, mask, q.end - 1).end});
      const Range k = keys_.back();
      using M = Matrix<const T>;
      const M scores{nullptr, q.size(), k.size(), k.size()}, queries{nullptr, q.size(), z.d, z.stride()};
      const M keys{nullptr, k.size(), z.d, z.stride()}, output{nullptr, q.size(), z.d, z.width()};
      const auto prepare = [&](Name name, const M& c, const M& left, const M& right, bool accumulate) {
        const Gemm& gemm = s.gemm(gemm_shape<T>(c, left, right, accumulate));
        gemms_[name].push_back(&gemm);
        scratch_ = std::max(scratch_, gemm.scratch_bytes());
      };
      prepare(kScores, scores, queries, keys.transposed(), false);
      if (backward) {
        prepare(kScoreGradient, scores, output, keys.transposed(), false);
        prepare(kQuery, queries, scores, keys, false);
        prepare(kKey, keys, scores.transposed(), queries, true);
        prepare(kValue, keys, scores.transposed(), output, true);
      } else {
        prepare(kOutput, output, scores, keys, false);
      }
    }
  }

  Range keys(std::int64_t block) const { return keys_[static_cast<std::size_t>(block)]; }
  const Gemm& operator()(Name name, std::int64_t block) const { return *gemms_[name][static_cast<std::size_t>(block)]; }
  // Of one thread, a multiple of the alignment.
  std::int64_t scratch_elements() const {
    constexpr std::size_t kAligned = Slab::kAlignment;
    return static_cast<std::int64_t>((scratch_ + kAligned) / kAligned * kAligned / sizeof(T));
  }

 private:
  std::vector<Range> keys_;
  std::vector<const Gemm*> gemms_[kNames];
  std::size_t scratch_ = 0;
};

// Scores that are not seen have no weight and no gradient.
template <class T>
void clear_outside(T* row, Range seen, std::int64_t keys) {
  std::fill(row, row + seen.begin, T{0});
  std::fill(row + seen.end, row + keys, T{0});
}

}  // namespace

void attention_forward(Stream& s, Tensor y, Tensor lse, View qkv, AttentionHeads heads, AttentionMask mask) {
  const Sizes z = sizes_of("attention_forward", y, qkv, heads, mask);
  require_shape("attention_forward", "lse", lse, {z.b, z.heads, z.t});
  const std::vector<Range> seen = reaches(z, mask);
  dispatch(y.dtype(), [&]<class T>() {
    using P = Products<T>;
    const P product(s, z, mask, false);
    const auto scores = s.scratch(y.dtype(), {s.threads(), kQueries * z.t});
    const auto scratch = s.scratch(y.dtype(), {s.threads(), product.scratch_elements()});
    const T scale = 1 / std::sqrt(static_cast<T>(z.d));

    parallel_for(s, z.b * z.heads, 1, [&](std::int64_t begin, std::int64_t end, int thread) {
      T* p = scores.template data<T>() + thread * kQueries * z.t;
      T* work = scratch.template data<T>() + thread * product.scratch_elements();
      for (std::int64_t item = begin; item < end; ++item) {
        const std::int64_t batch = item / z.heads, head = item % z.heads, group = head / z.heads_of_group();
        const T* row_start = qkv.data<T>() + batch * z.t * z.stride();
        const T* q = row_start + head * z.d;
        const T *k = row_start + (z.heads + group) * z.d, *v = k + z.groups * z.d;
        T* out = y.data<T>() + batch * z.t * z.width() + head * z.d;
        T* log_sum = lse.data<T>() + item * z.t;
        for (std::int64_t block = 0; block < z.blocks(); ++block) {
          const Range queries = z.queries(block), keys = product.keys(block);
          product(P::kScores, block).run(p, q + queries.begin * z.stride(), k + keys.begin * z.stride(), nullptr, work);
          for (std::int64_t i = queries.begin; i < queries.end; ++i) {
            T* r = p + (i - queries.begin) * keys.size();
            const Range whole = seen[static_cast<std::size_t>(batch * z.t + i)];
            const Range own{whole.begin - keys.begin, whole.end - keys.begin};
            T most = r[own.begin], total = 0;
#pragma omp simd reduction(max : most)
            for (std::int64_t j = own.begin; j < own.end; ++j) most = r[j] > most ? r[j] : most;
#pragma omp simd reduction(+ : total)
            for (std::int64_t j = own.begin; j < own.end; ++j) total += r[j] = exp_of((r[j] - most) * scale);
            for (std::int64_t j = own.begin; j < own.end; ++j) r[j] /= total;
            clear_outside(r, own, keys.size());
            log_sum[i] = most * scale + std::log(total);
          }
          product(P::kOutput, block)
              .run(out + queries.begin * z.width(), p, v + keys.begin * z.stride(), nullptr, work);
        }
      }
    });
  });
}

void attention_backward(Stream& s, Tensor dqkv, View dy, View y, View lse, View qkv, AttentionHeads heads,
                        AttentionMask mask) {
  const Sizes z = sizes_of("attention_backward", y, qkv, heads, mask);
  require_shape("attention_backward", "dqkv", dqkv, qkv.shape());
  require_shape("attention_backward", "dy", dy, y.shape());
  const std::vector<Range> seen = reaches(z, mask);
  dispatch(y.dtype(), [&]<class T>() {
    using P = Products<T>;
    const P product(s, z, mask, true);
    const auto scores = s.scratch(y.dtype(), {s.threads(), 2, kQueries * z.t});
    const auto scratch = s.scratch(y.dtype(), {s.threads(), product.scratch_elements()});
    const T scale = 1 / std::sqrt(static_cast<T>(z.d));
    const std::int64_t stride = z.stride(), width = z.width();

    // One head's part: dq assigned, dk and dv added to.
    const auto one_head = [&](std::int64_t batch, std::int64_t head, int thread) {
      T* p = scores.template data<T>() + std::int64_t{thread} * 2 * kQueries * z.t;
      T* dp = p + kQueries * z.t;
      T* work = scratch.template data<T>() + thread * product.scratch_elements();
      const std::int64_t start = batch * z.t * stride, k_at = (z.heads + head / z.heads_of_group()) * z.d;
      const T *q = qkv.data<T>() + start + head * z.d, *k = qkv.data<T>() + start + k_at, *v = k + z.groups * z.d;
      T *dq = dqkv.data<T>() + start + head * z.d, *dk = dqkv.data<T>() + start + k_at, *dv = dk + z.groups * z.d;
      const T* out = y.data<T>() + batch * z.t * width + head * z.d;
      const T* dout = dy.data<T>() + batch * z.t * width + head * z.d;
      const T* log_sum = lse.data<T>() + (batch * z.heads + head) * z.t;
      for (std::int64_t block = 0; block < z.blocks(); ++block) {
        const Range queries = z.queries(block), keys = product.keys(block);
        const T *q_block = q + queries.begin * stride, *dout_block = dout + queries.begin * width;
        const std::int64_t first_key = keys.begin * stride;
        product(P::kScores, block).run(p, q_block, k + first_key, nullptr, work);
        product(P::kScoreGradient, block).run(dp, dout_block, v + first_key, nullptr, work);
        for (std::int64_t i = queries.begin; i < queries.end; ++i) {
          T* r = p + (i - queries.begin) * keys.size();
          T* dr = dp + (i - queries.begin) * keys.size();
          const Range whole = seen[static_cast<std::size_t>(batch * z.t + i)];
          const Range own{whole.begin - keys.begin, whole.end - keys.begin};
          const T log_sum_i = log_sum[i];
          T delta = 0;
#pragma omp simd reduction(+ : delta)
          for (std::int64_t j = 0; j < z.d; ++j) delta += dout[i * width + j] * out[i * width + j];
#pragma omp simd
          for (std::int64_t j = own.begin; j < own.end; ++j) {
            r[j] = exp_of(r[j] * scale - log_sum_i);
            dr[j] = r[j] * (dr[j] - delta) * scale;
          }
          clear_outside(r, own, keys.size());
          clear_outside(dr, own, keys.size());
        }
        product(P::kQuery, block).run(dq + queries.begin * stride, dp, k + first_key, nullptr, work);
        product(P::kKey, block).run(dk + first_key, dp, q_block, nullptr, work);
        product(P::kValue, block).run(dv + first_key, p, dout_block, nullptr, work);
      }
    };

    // The heads of a group share dk and dv: one thread walks them in order.
    parallel_for(s, z.b * z.groups, 1, [&](std::int64_t begin, std::int64_t end, int thread) {
      for (std::int64_t item = begin; item < end; ++item) {
        const std::int64_t batch = item / z.groups, group = item % z.groups;
        T* dk = dqkv.data<T>() + batch * z.t * stride + (z.heads + group) * z.d;
        for (std::int64_t j = 0; j < z.t; ++j) {
          std::fill_n(dk + j * stride, z.d, T{0});
          std::fill_n(dk + z.groups * z.d + j * stride, z.d, T{0});
        }
        for (std::int64_t h = 0; h < z.heads_of_group(); ++h) one_head(batch, group * z.heads_of_group() + h, thread);
      }
    });
  });
}

}  // namespace nascent::cpu
