#include "data/counts.h"

#include <algorithm>
#include <limits>

#include "kernels/error.h"

namespace nascent {
namespace {

constexpr std::uint64_t kChunkTokens = std::uint64_t{1} << 16;
constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();

// f(place of the first token, tokens)
template <class F>
void for_each_chunk(const TokenStream& stream, F&& f) {
  std::vector<std::int32_t> chunk;
  for (std::uint64_t begin = 0; begin < stream.size(); begin += chunk.size()) {
    chunk.resize(std::min(kChunkTokens, stream.size() - begin));
    stream.read(begin, chunk);
    f(begin, std::span<const std::int32_t>(chunk));
  }
}

void check_edges(std::span<const std::int64_t> edges) {
  for (std::size_t i = 0; i < edges.size(); ++i) {
    if (i == 0 && edges[i] != 1) throw input_error("edges: the first edge is rank {}, expected 1", edges[i]);
    if (i > 0 && edges[i] <= edges[i - 1])
      throw input_error("edges: edge {} behind edge {}, expected ascending ranks", edges[i], edges[i - 1]);
  }
}

// Ids that are not special, the most frequent first.
std::vector<std::int32_t> ranked_types(std::span<const std::int64_t> counts, std::span<const std::int32_t> special) {
  std::vector<bool> is_special(counts.size());
  for (const std::int32_t id : special) {
    if (id < 0 || static_cast<std::size_t>(id) >= counts.size())
      throw input_error("bins: special id {} is outside the vocabulary of {}", id, counts.size());
    is_special[static_cast<std::size_t>(id)] = true;
  }
  std::vector<std::int32_t> types;
  for (std::size_t id = 0; id < counts.size(); ++id) {
    if (counts[id] < 0) throw input_error("bins: the count of id {} is {}", id, counts[id]);
    if (!is_special[id]) types.push_back(static_cast<std::int32_t>(id));
  }
  std::ranges::stable_sort(types, [&](std::int32_t a, std::int32_t b) {
    return counts[static_cast<std::size_t>(a)] > counts[static_cast<std::size_t>(b)];
  });
  return types;
}

// The powers of ten where none are given: no rank is as large as their last.
std::vector<std::int64_t> edges_or_decades(std::span<const std::int64_t> edges) {
  check_edges(edges);
  std::vector<std::int64_t> all(edges.begin(), edges.end());
  for (std::int64_t decade = 1; edges.empty() && decade <= std::int64_t{10'000'000'000}; decade *= 10)
    all.push_back(decade);
  return all;
}

}  // namespace

std::vector<std::int64_t> token_counts(const TokenStream& stream, std::int64_t vocab) {
  if (vocab < 1) throw input_error("counts: a vocabulary of {}, expected at least 1", vocab);
  std::vector<std::int64_t> counts(static_cast<std::size_t>(vocab));
  for_each_chunk(stream, [&](std::uint64_t begin, std::span<const std::int32_t> chunk) {
    for (std::size_t i = 0; i < chunk.size(); ++i) {
      if (chunk[i] < 0 || chunk[i] >= vocab)
        throw input_error("counts: token {} of the stream is {}, outside the vocabulary of {}", begin + i, chunk[i],
                          vocab);
      ++counts[static_cast<std::size_t>(chunk[i])];
    }
  });
  return counts;
}

std::int32_t largest_id(const TokenStream& stream) {
  std::int32_t largest = -1;
  for_each_chunk(stream, [&](std::uint64_t, std::span<const std::int32_t> chunk) {
    largest = std::max(largest, *std::ranges::max_element(chunk));
  });
  return largest;
}

FrequencyBins frequency_bins(std::span<const std::int64_t> counts, std::span<const std::int64_t> edges,
                             std::int64_t equal_mass, std::span<const std::int32_t> special) {
  if (equal_mass < 0) throw input_error("bins: equal_mass is {}, expected at least 0", equal_mass);
  const std::vector<std::int32_t> types = ranked_types(counts, special);
  std::int64_t total = 0;  // times equal_mass it must fit: shares are compared in whole numbers, exactly
  for (const std::int32_t id : types) {
    const std::int64_t count = counts[static_cast<std::size_t>(id)];
    if (count > kMost / std::max<std::int64_t>(equal_mass, 1) - total)
      throw input_error("bins: the counts add up to more than 2^63 in {} bins of equal mass", equal_mass);
    total += count;
  }

  FrequencyBins bins;
  bins.rank.resize(counts.size());
  bins.bin.resize(counts.size());
  const std::vector<std::int64_t> edge = edges_or_decades(edges);
  std::int64_t rank = 0, before = 0, last = -1;
  for (const std::int32_t id : types) {
    const auto at = static_cast<std::size_t>(id);
    ++rank;
    // Before bins without a type are dropped.
    const std::int64_t bin = equal_mass == 0 ? std::ranges::upper_bound(edge, rank) - edge.begin()
                             : total == 0    ? 0
                                             : std::min(equal_mass - 1, equal_mass * before / total);
    before += counts[at];
    if (bin != last) bins.labels.push_back(std::to_string(rank));
    last = bin;
    bins.rank[at] = rank;
    bins.bin[at] = static_cast<std::int32_t>(bins.labels.size()) - 1;
  }
  if (!special.empty()) bins.labels.emplace_back("special");
  for (const std::int32_t id : special)
    bins.bin[static_cast<std::size_t>(id)] = static_cast<std::int32_t>(bins.labels.size()) - 1;
  return bins;
}

}  // namespace nascent
