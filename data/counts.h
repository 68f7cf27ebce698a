// How often each token type occurs, its rank, and the bins of ranks that measures are reported by.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "data/dataset.h"

namespace nascent {

// Occurrences of each id in the stream [vocab]. One pass, about a nanosecond a token. Throws an input error at the first
// id outside [0, vocab), with its place in the stream.
std::vector<std::int64_t> token_counts(const TokenStream& stream, std::int64_t vocab);

// -1 when the stream is empty.
std::int32_t largest_id(const TokenStream& stream);

// Per type, by id. Ranks and shares of the counts go over the types that are not special.
struct FrequencyBins {
  std::vector<std::int64_t>
      rank;                       // [V] 1 = most frequent; of equal counts the lower id first, count 0 last; 0: special
  std::vector<std::int32_t> bin;  // [V] index into labels; every type has one
  std::vector<std::string> labels;  // lowest rank in each bin, ascending; then "special", if there are special ids
};

// counts [V]: of the training corpus, 0 allowed. special: ids in [0, V), in any order, repetitions allowed.
//   edges       ascending ranks, the first 1: bin b holds the ranks edges[b] to edges[b + 1] - 1. Empty: 1, 10, 100, ...
//   equal_mass  B > 0, in place of edges: bin min(B - 1, floor(B x share of the counts ranked before)), all in the
//               first where every count is 0
// Bins that hold no type (edges beyond the last rank, shares that one frequent type jumps over) do not exist: neither
// a label nor an index is theirs. Throws an input error on anything else.
FrequencyBins frequency_bins(std::span<const std::int64_t> counts, std::span<const std::int64_t> edges,
                             std::int64_t equal_mass, std::span<const std::int32_t> special);

}  // namespace nascent
