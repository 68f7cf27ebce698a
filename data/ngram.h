// What counting alone achieves: n-gram cross entropies, the baselines that a language model's loss is held
// against.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "data/dataset.h"

namespace nascent {

// Counts of all n-grams of one order, as one sorted row of keys: the n-grams that share a context lie next to
// each other.
class NgramCounts {
 public:
  // order 1 to 3; V^order must fit into 64 bits, so V < 2^21.
  NgramCounts(std::span<const std::int32_t> tokens, std::uint64_t vocab_size, std::size_t order);

  // How often an n-gram occurs; the key is its tokens as digits to the base V, the first one highest.
  std::uint64_t count(std::uint64_t key) const;

  struct Context {
    std::uint64_t total;     // n-grams that begin with the context: c(u .)
    std::uint64_t distinct;  // different ones among them: N1+(u .)
  };
  Context context(std::uint64_t key) const;  // key: the n-gram's but its last token

  double discount() const { return discount_; }  // D

 private:
  std::uint64_t vocab_size_;
  std::vector<std::uint64_t> keys_;
  std::vector<std::uint64_t> before_;  // n-grams counted before each key, and in all (one entry more)
  double discount_ = 0;
};

// Interpolated absolute discounting (Ney, Essen & Kneser 1994). With c the counts in the training tokens, V
// the vocabulary,
//   p1(w)     = (c(w) + 1) / (N + V)
//   pn(w | u) = max(c(u w) - D, 0) / c(u .) + D N1+(u .) / c(u .) p(n-1)(w | u without its first token)
//   D         = n1 / (n1 + 2 n2),  n1 and n2: how many n-grams occur once and twice
// and p(n-1) alone where the context u never occurs. Each is a distribution over all V tokens, none ever 0.
class NgramModel {
 public:
  static constexpr std::size_t kOrders = 3;

  // tokens: the training stream, ids in [0, vocab_size). Throws an input error when empty or when vocab_size
  // >= 2^21.
  NgramModel(std::span<const std::int32_t> tokens, std::int64_t vocab_size);

  // p1, p2, p3 of `token` behind `past` (oldest first; only the last two matter). Behind a shorter past
  // the higher orders equal the highest one that fits.
  std::array<double, kOrders> probabilities(std::span<const std::int32_t> past, std::int32_t token) const;

 private:
  std::uint64_t vocab_size_;
  double tokens_;
  std::array<NgramCounts, kOrders> counts_;
};

struct NgramBaselines {
  std::array<double, NgramModel::kOrders> nats{};  // cross entropy per token of orders 1, 2, 3
  std::uint64_t targets = 0;                       // over how many tokens
};

// Fits on `train`, evaluates on exactly the causal targets of the held-out windows: tokens 1 to count T of
// their stream, each given the ones before it. Throws an input error when there is no training token or no
// held-out window. Sorts in memory: at most about 60 bytes a training token, 0.2 s for a million.
NgramBaselines ngram_baselines(const TokenStream& train, const TokenStream& heldout, std::int64_t T,
                               std::int64_t vocab_size);

}  // namespace nascent
