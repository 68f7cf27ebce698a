// Which held-out windows make a probe set: the fixed batch that runs are compared on. Text drawn at random holds its few
// frequent types thousands of times and the many others hardly ever, so windows are chosen such that every band of
// ranks (frequency_bins over the training counts) has types to measure: 64 of them, or all the band has, each with 64
// occurrences in 16 documents.
//
// The windows are those of the held-out evaluation (Windows), so the text is cut and stands across the borders of
// documents as in training, and documents shorter than a window are not lost. Occurrences are those among the inputs.
//
// The choice:
//   1. The wanted types of a band are its 64 most frequent in the held-out windows (ties: the lower id) among those that
//      occur often enough there.
//   2. Windows for a list of wanted types are taken one by one, each time the most useful, until no type lacks
//      anything. Useful is what a type still lacks: each of its occurrences in the window counts 1, up to the number it
//      lacks, and each document not yet met counts 4 = 64/16 while it lacks documents. Ties: the window first in an
//      order drawn from the seed. (Greedy maximum coverage: within 1 - 1/e of the best for as many windows.)
//   3. The list begins empty and grows band by band, from the most frequent on, because those take the fewest windows:
//      by all wanted types of the band or, where these take more windows than there may be, by as many of the most
//      frequent of them as bisection finds room for.
//   4. The windows of the last list are chosen; those left over are the first of the drawn order.
// The windows come out in the drawn order: any first part of them is spread over the text.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "data/dataset.h"

namespace nascent {

inline constexpr std::int64_t kProbeTypes = 64;        // of a band
inline constexpr std::int64_t kProbeOccurrences = 64;  // of a type
inline constexpr std::int64_t kProbeDocuments = 16;    // they stand in

struct ProbeSetSettings {
  std::int64_t sequences = 128;
  std::int64_t T = 256;               // tokens in a sequence
  std::vector<std::int64_t> edges;    // of the bands; empty: 1, 10, 100, ...
  std::vector<std::int32_t> special;  // ids without a rank: in no band
  std::uint64_t seed = 0;
};

struct ProbeBand {
  std::int64_t first_rank = 0, last_rank = 0;
  std::int64_t wanted = 0;            // types: 64, or all there are
  std::int64_t possible = 0;          // types that the held-out windows hold often enough
  std::int64_t reached = 0;           // types that the chosen windows hold often enough, wanted ones or not
  std::int64_t most_occurrences = 0;  // of one type in the held-out windows
  std::int64_t most_documents = 0;    // that one type stands in there
};

struct ProbeSetChoice {
  std::vector<std::uint64_t> windows;  // min(sequences, all there are), in the drawn order
  std::uint64_t available = 0;         // windows of the held-out text
  std::vector<ProbeBand> bands;        // ascending
};

// training_counts [V]: counts of the training documents. A pure function of its arguments. Takes up to 12 bytes of
// memory for a held-out token. Throws an input error when the stream has no window, on a token outside [0, V), and as
// frequency_bins does.
ProbeSetChoice choose_probe_set(const TokenStream& heldout, std::span<const std::int64_t> training_counts,
                                const ProbeSetSettings& settings);

}  // namespace nascent
