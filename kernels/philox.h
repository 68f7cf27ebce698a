// Counter-based random numbers: Philox4x32-10 (Salmon et al. 2011, "Parallel random numbers: as easy as 1, 2, 3"). A
// draw is a pure function of (seed, purpose, name, index): adding a layer shifts no other tensor's draws, and any
// sample can be drawn again without drawing those before it.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace nascent {

std::array<std::uint32_t, 4> philox4x32(std::array<std::uint32_t, 4> counter, std::array<std::uint32_t, 2> key);

class Random {
 public:
  // purpose: what the numbers are for ("init", "order", "sample"); name: which tensor, epoch or tap.
  Random(std::uint64_t seed, std::string_view purpose, std::string_view name = {});

  std::uint64_t bits(std::uint64_t index) const;  // 64 uniform bits
  double uniform(std::uint64_t index) const;      // in (0, 1): never 0, never 1
  double normal(std::uint64_t index) const;       // mean 0, variance 1 (Box-Muller, one draw an index)

 private:
  std::array<std::uint32_t, 4> draw(std::uint64_t index) const;

  std::array<std::uint32_t, 2> key_;
  std::array<std::uint32_t, 2> stream_{};
};

}  // namespace nascent
