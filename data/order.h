// The order in which samples are seen: a pure function of (number of samples, seed, position). Batch size,
// ranks, the length of the run and interruptions cannot change it, and no permutation is ever stored.
#pragma once

#include <cstdint>

namespace nascent {

class SampleOrder {
 public:
  // `count` samples, at least 1 (else an input error); seed is the run's seed.data.
  SampleOrder(std::uint64_t count, std::uint64_t seed);

  std::uint64_t count() const { return count_; }

  // The sample, in [0, count), at a position that goes on over epochs: positions [e count, (e + 1) count) are
  // a permutation of all samples, another one in each epoch.
  std::uint64_t at(std::uint64_t position) const;

 private:
  std::uint64_t count_;
  std::uint64_t seed_;
  int half_bits_;
};

}  // namespace nascent
