#include "data/ngram.h"

#include <algorithm>
#include <cmath>

#include "kernels/error.h"

namespace nascent {
namespace {

constexpr std::int64_t kMostVocabulary = std::int64_t{1} << 21;  // its cube is the largest key: 2^63

std::uint64_t digit(std::int32_t token) { return static_cast<std::uint64_t>(token); }

// Order 1 is built first, so the checks stand before it.
std::span<const std::int32_t> checked(std::span<const std::int32_t> tokens, std::int64_t vocab_size) {
  if (vocab_size < 1 || vocab_size >= kMostVocabulary)
    throw input_error("n-grams: a vocabulary of {}, expected 1 to {}", vocab_size, kMostVocabulary - 1);
  if (tokens.empty()) throw input_error("n-grams: there is no token to count");
  for (std::size_t i = 0; i < tokens.size(); ++i)
    if (tokens[i] < 0 || tokens[i] >= vocab_size)
      throw input_error("n-grams: token {} is {}, outside the vocabulary of {}", i, tokens[i], vocab_size);
  return tokens;
}

std::vector<std::int32_t> read_all(const TokenStream& stream, std::uint64_t size) {
  std::vector<std::int32_t> tokens(size);
  stream.read(0, tokens);
  return tokens;
}

}  // namespace

NgramCounts::NgramCounts(std::span<const std::int32_t> tokens, std::uint64_t vocab_size, std::size_t order)
    : vocab_size_(vocab_size) {
  std::vector<std::uint64_t> all;
  all.reserve(tokens.size());
  for (std::size_t end = order; end <= tokens.size(); ++end) {
    std::uint64_t key = 0;
    for (const std::int32_t token : tokens.subspan(end - order, order)) key = key * vocab_size + digit(token);
    all.push_back(key);
  }
  std::ranges::sort(all);

  std::uint64_t once = 0, twice = 0;
  for (std::size_t i = 0; i < all.size();) {
    std::size_t end = i + 1;
    while (end < all.size() && all[end] == all[i]) ++end;
    keys_.push_back(all[i]);
    before_.push_back(i);
    if (end - i == 1) ++once;
    if (end - i == 2) ++twice;
    i = end;
  }
  before_.push_back(all.size());
  // Where nothing occurs once the estimate is 0 and would leave nothing for the unseen.
  discount_ = once == 0 ? 0.5 : static_cast<double>(once) / static_cast<double>(once + 2 * twice);
}

std::uint64_t NgramCounts::count(std::uint64_t key) const {
  const auto at = std::ranges::lower_bound(keys_, key);
  if (at == keys_.end() || *at != key) return 0;
  const auto i = static_cast<std::size_t>(at - keys_.begin());
  return before_[i + 1] - before_[i];
}

NgramCounts::Context NgramCounts::context(std::uint64_t key) const {
  const auto begin = std::ranges::lower_bound(keys_, key * vocab_size_);
  const auto end = std::lower_bound(begin, keys_.end(), (key + 1) * vocab_size_);
  const auto i = static_cast<std::size_t>(begin - keys_.begin());
  const auto j = static_cast<std::size_t>(end - keys_.begin());
  return {before_[j] - before_[i], j - i};
}

NgramModel::NgramModel(std::span<const std::int32_t> tokens, std::int64_t vocab_size)
    : vocab_size_(static_cast<std::uint64_t>(vocab_size)),
      tokens_(static_cast<double>(tokens.size())),
      counts_{NgramCounts(checked(tokens, vocab_size), vocab_size_, 1), NgramCounts(tokens, vocab_size_, 2),
              NgramCounts(tokens, vocab_size_, 3)} {}

std::array<double, NgramModel::kOrders> NgramModel::probabilities(std::span<const std::int32_t> past,
                                                                  std::int32_t token) const {
  const auto seen = static_cast<double>(counts_[0].count(digit(token)));
  double p = (seen + 1) / (tokens_ + static_cast<double>(vocab_size_));
  std::array<double, kOrders> out{p, p, p};
  std::uint64_t context = 0, place = 1;  // the context's digits, and the worth of its next older one
  for (std::size_t n = 1; n < kOrders; ++n) {
    if (n <= past.size()) {
      context += digit(past[past.size() - n]) * place;
      place *= vocab_size_;
      const auto [total, distinct] = counts_[n].context(context);
      if (total > 0) {
        const double D = counts_[n].discount();
        const auto count = static_cast<double>(counts_[n].count(context * vocab_size_ + digit(token)));
        p = (std::max(count - D, 0.0) + D * static_cast<double>(distinct) * p) / static_cast<double>(total);
      }
    }
    out[n] = p;
  }
  return out;
}

NgramBaselines ngram_baselines(const TokenStream& train, const TokenStream& heldout, std::int64_t T,
                               std::int64_t vocab_size) {
  const Windows windows(heldout, T);
  const NgramModel model(read_all(train, train.size()), vocab_size);
  NgramBaselines baselines;
  baselines.targets = windows.count() * static_cast<std::uint64_t>(T);
  const std::vector<std::int32_t> row = read_all(heldout, baselines.targets + 1);
  const std::span<const std::int32_t> tokens = checked(row, vocab_size);
  for (std::size_t at = 1; at < tokens.size(); ++at) {
    const auto p = model.probabilities(tokens.first(at), tokens[at]);
    for (std::size_t n = 0; n < p.size(); ++n) baselines.nats[n] -= std::log(p[n]);
  }
  for (double& nats : baselines.nats) nats /= static_cast<double>(baselines.targets);
  return baselines;
}

}  // namespace nascent
