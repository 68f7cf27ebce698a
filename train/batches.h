// The batch of each step: a pure function of dataset, seed and how many samples came before.
#pragma once

#include <cstdint>
#include <string>

#include "data/dataset.h"
#include "data/order.h"
#include "kernels/slab.h"

namespace nascent {

class Batches {
 public:
  // Steps of `batch` sequences in micro-batches of `micro_batch`. The windows must outlive this.
  Batches(const Windows& windows, std::uint64_t seed, std::int64_t batch, std::int64_t micro_batch);

  // Reads the samples at positions [first, first + batch) of the order.
  void load(std::int64_t first);

  std::int64_t micro_batches() const { return inputs_.shape()[0] / micro_batch_; }
  View inputs() const { return inputs_; }  // [S, T] i32: the whole step's
  View targets() const { return targets_; }
  View inputs(std::int64_t i) const { return inputs_.slice(i * micro_batch_, micro_batch_); }    // [b, T] i32
  View targets(std::int64_t i) const { return targets_.slice(i * micro_batch_, micro_batch_); }  // [b, T] i32
  std::int64_t tokens() const { return inputs_.size(); }
  std::int64_t counted_targets() const { return counted_; }  // of the whole step: those that are not ignored
  // Which text it is: "samples 6 to 7 of the order: windows 12 (begins in document 3), 57 (begins in document 14)".
  std::string text() const;

 private:
  const Windows& windows_;
  SampleOrder order_;
  std::int64_t micro_batch_;
  Slab slab_{"batch"};
  Tensor inputs_, targets_;
  std::uint64_t first_ = 0;  // position in the order of its first sample
  std::int64_t counted_ = 0;
};

}  // namespace nascent
