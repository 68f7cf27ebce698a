#include "data/order.h"

#include <algorithm>
#include <bit>
#include <string>

#include "kernels/error.h"
#include "kernels/philox.h"

namespace nascent {
namespace {

// Enough even where a round knows only one bit: all orders of three or four samples are equally likely to a
// fifth of a percent.
constexpr std::uint64_t kRounds = 10;

}  // namespace

SampleOrder::SampleOrder(std::uint64_t count, std::uint64_t seed) : count_(count), seed_(seed) {
  if (count < 1) throw input_error("order: the dataset has no sample");
  half_bits_ = std::max(1, (static_cast<int>(std::bit_width(count - 1)) + 1) / 2);
}

// A Feistel network (Luby & Rackoff 1988) permutes the numbers of 2 half_bits_ bits: each round maps
// (left, right) to (right, left ^ f(right)), which is undone by the same f. That range is at most four times
// count; a result beyond count is permuted again until it falls below, which walks along a cycle and so stays
// a bijection (Black & Rogaway 2002).
std::uint64_t SampleOrder::at(std::uint64_t position) const {
  const Random random(seed_, "order", std::to_string(position / count_));
  const std::uint64_t mask = (std::uint64_t{1} << half_bits_) - 1;
  std::uint64_t sample = position % count_;
  do {
    std::uint64_t left = sample >> half_bits_, right = sample & mask;
    for (std::uint64_t round = 0; round < kRounds; ++round) {
      const std::uint64_t next = left ^ (random.bits(round << 32 | right) & mask);
      left = right;
      right = next;
    }
    sample = left << half_bits_ | right;
  } while (sample >= count_);
  return sample;
}

}  // namespace nascent
