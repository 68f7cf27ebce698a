#include <cmath>

#include "kernels/philox.h"
#include "tests/catch.h"

using namespace nascent;

// The known answers published with Random123 (kat_vectors, philox4x32 10).
TEST_CASE("Philox4x32-10 gives the published known answers") {
  CHECK(philox4x32({0, 0, 0, 0}, {0, 0}) ==
        std::array<std::uint32_t, 4>{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
  CHECK(philox4x32({~0u, ~0u, ~0u, ~0u}, {~0u, ~0u}) ==
        std::array<std::uint32_t, 4>{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd});
  CHECK(philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}) ==
        std::array<std::uint32_t, 4>{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1});
}

TEST_CASE("draws are a function of seed, purpose, name and index alone, and have their moments") {
  const Random a(1, "init", "w"), same(1, "init", "w"), other_seed(2, "init", "w"), other_name(1, "init", "v");
  CHECK(a.bits(7) == same.bits(7));
  CHECK(a.bits(7) != other_seed.bits(7));
  CHECK(a.bits(7) != other_name.bits(7));
  CHECK(Random(1, "a", "bc").bits(0) != Random(1, "ab", "c").bits(0));

  const int n = 20000;
  double mean = 0, square = 0, uniform = 0;
  for (int i = 0; i < n; ++i) {
    mean += a.normal(static_cast<std::uint64_t>(i)) / n;
    square += a.normal(static_cast<std::uint64_t>(i)) * a.normal(static_cast<std::uint64_t>(i)) / n;
    uniform += a.uniform(static_cast<std::uint64_t>(i)) / n;
  }
  // Four standard errors of each mean.
  CHECK(std::abs(mean) < 4 / std::sqrt(n));
  CHECK(std::abs(square - 1) < 4 * std::sqrt(2.0 / n));
  CHECK(std::abs(uniform - 0.5) < 4 * std::sqrt(1.0 / 12 / n));
}

TEST_CASE("seeds and indices that differ beyond their low 32 bits draw differently") {
  const std::uint64_t beyond = std::uint64_t{1} << 32;
  CHECK(Random(1, "init").bits(7) != Random(1 + beyond, "init").bits(7));
  CHECK(Random(1, "init").bits(7) != Random(1, "init").bits(7 + beyond));
}
