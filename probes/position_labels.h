// The positions of a step, as labels: what each row of a tap's activations is. And ways to choose and to group rows.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "kernels/view.h"

namespace nascent {

constexpr std::int32_t kNoTarget = -1;

// Groups of rows: those of group g are rows[offsets[g]] ... rows[offsets[g + 1] - 1].
struct Groups {
  std::vector<std::int32_t> rows, offsets = {0};

  std::int64_t count() const { return static_cast<std::int64_t>(offsets.size()) - 1; }
  std::span<const std::int32_t> of(std::int64_t g) const {
    const auto at = static_cast<std::size_t>(g);
    return std::span(rows).subspan(static_cast<std::size_t>(offsets[at]),
                                   static_cast<std::size_t>(offsets[at + 1] - offsets[at]));
  }
};

// The view of a list of row numbers, or of a list of numbers a row. It must outlive the view; empty for an empty list.
View view_of(const std::vector<std::int32_t>& list);
View view_of(const std::vector<double>& list);

class PositionLabels {
 public:
  // PositionLabels of a batch: inputs, targets [S, T] i32 (kIgnored: no target), a row each in this order.
  static PositionLabels of_batch(View inputs, View targets);
  // PositionLabels of n rows of which this much is known; what is not known is empty. sequence: any numbers, counted here
  // from 0 by their first appearance.
  static PositionLabels of_rows(std::int64_t n, std::vector<std::int32_t> token, std::vector<std::int32_t> target,
                                std::vector<std::int32_t> sequence);

  std::int64_t count() const { return n_; }
  const std::vector<std::int32_t>& token() const { return token_; }        // input types; empty: not known
  const std::vector<std::int32_t>& target() const { return target_; }      // target types or kNoTarget; the same
  const std::vector<std::int32_t>& sequence() const { return sequence_; }  // 0 ... sequences() - 1; all 0: not known
  const std::vector<std::int32_t>& place() const { return place_; }        // in its sequence, from 0
  bool knows_sequences() const { return knows_sequences_; }
  std::int64_t sequences() const { return sequences_; }

  std::vector<std::int32_t> all() const;                        // every row
  std::vector<std::int32_t> with_target(bool has) const;        // rows with a target, or those without
  std::vector<std::int32_t> without_sinks(std::int64_t) const;  // rows but the first so many of each sequence
  bool some_without_target() const;

 private:
  std::int64_t n_ = 0, sequences_ = 0;
  bool knows_sequences_ = false;
  std::vector<std::int32_t> token_, target_, sequence_, place_;
};

// The chosen rows grouped by key[row], groups in order of their key, rows of a key below 0 left out. keys (may be null):
// each group's key.
Groups group_by(std::span<const std::int32_t> key, std::span<const std::int32_t> rows,
                std::vector<std::int32_t>* keys = nullptr);

}  // namespace nascent
