#include "probes/position_labels.h"

#include <algorithm>
#include <numeric>
#include <unordered_map>

#include "kernels/cross_entropy.h"
#include "kernels/error.h"

namespace nascent {

View view_of(const std::vector<std::int32_t>& list) {
  return {list.data(), DType::kI32, {static_cast<std::int64_t>(list.size())}};
}

View view_of(const std::vector<double>& list) {
  return list.empty() ? View() : View(list.data(), DType::kF64, {static_cast<std::int64_t>(list.size())});
}

PositionLabels PositionLabels::of_batch(View inputs, View targets) {
  const auto list = [](View v) {
    return std::vector<std::int32_t>(v.data<std::int32_t>(), v.data<std::int32_t>() + v.size());
  };
  std::vector<std::int32_t> target = list(targets), sequence(static_cast<std::size_t>(inputs.size()));
  for (std::int32_t& t : target) t = t == kIgnored ? kNoTarget : t;
  for (std::size_t i = 0; i < sequence.size(); ++i)
    sequence[i] = static_cast<std::int32_t>(i / static_cast<std::size_t>(inputs.cols()));
  return of_rows(inputs.size(), list(inputs), std::move(target), std::move(sequence));
}

PositionLabels PositionLabels::of_rows(std::int64_t n, std::vector<std::int32_t> token,
                                       std::vector<std::int32_t> target, std::vector<std::int32_t> sequence) {
  PositionLabels p;
  p.n_ = n;
  p.token_ = std::move(token);
  p.target_ = std::move(target);
  p.knows_sequences_ = !sequence.empty();
  p.sequence_.resize(static_cast<std::size_t>(n));
  p.place_.resize(p.sequence_.size());
  std::unordered_map<std::int32_t, std::int32_t> number;
  std::vector<std::int32_t> seen;  // rows of each sequence so far
  for (std::size_t i = 0; i < p.sequence_.size(); ++i) {
    const auto next = static_cast<std::int32_t>(number.size());
    const auto [at, fresh] = number.try_emplace(p.knows_sequences_ ? sequence[i] : 0, next);
    if (fresh) seen.push_back(0);
    p.sequence_[i] = at->second;
    p.place_[i] = seen[static_cast<std::size_t>(at->second)]++;
  }
  p.sequences_ = static_cast<std::int64_t>(number.size());
  return p;
}

std::vector<std::int32_t> PositionLabels::all() const {
  std::vector<std::int32_t> rows(static_cast<std::size_t>(n_));
  std::iota(rows.begin(), rows.end(), 0);
  return rows;
}

std::vector<std::int32_t> PositionLabels::with_target(bool has) const {
  std::vector<std::int32_t> rows;
  for (std::size_t i = 0; i < target_.size(); ++i) {
    if ((target_[i] != kNoTarget) == has) rows.push_back(static_cast<std::int32_t>(i));
  }
  return rows;
}

std::vector<std::int32_t> PositionLabels::without_sinks(std::int64_t sink) const {
  std::vector<std::int32_t> rows;
  for (std::size_t i = 0; i < place_.size(); ++i) {
    if (place_[i] >= sink) rows.push_back(static_cast<std::int32_t>(i));
  }
  return rows;
}

bool PositionLabels::some_without_target() const { return std::ranges::count(target_, kNoTarget) > 0; }

Groups group_by(std::span<const std::int32_t> key, std::span<const std::int32_t> rows,
                std::vector<std::int32_t>* keys) {
  const auto key_of = [&](std::int32_t row) { return key[static_cast<std::size_t>(row)]; };
  Groups groups;
  for (std::int32_t row : rows) {
    if (key_of(row) >= 0) groups.rows.push_back(row);
  }
  std::ranges::stable_sort(groups.rows, {}, key_of);
  if (keys) keys->clear();
  for (std::size_t i = 0; i < groups.rows.size(); ++i) {
    if (i > 0 && key_of(groups.rows[i]) == key_of(groups.rows[i - 1])) {
      ++groups.offsets.back();
    } else {
      groups.offsets.push_back(static_cast<std::int32_t>(i + 1));
      if (keys) keys->push_back(key_of(groups.rows[i]));
    }
  }
  return groups;
}

}  // namespace nascent
