#include "kernels/philox.h"

#include <cmath>
#include <numbers>
#include <string>
#include <xxhash.h>

namespace nascent {
namespace {

std::uint64_t join(std::uint32_t low, std::uint32_t high) { return (std::uint64_t{high} << 32) | low; }
std::uint32_t low(std::uint64_t x) { return static_cast<std::uint32_t>(x); }
std::uint32_t high(std::uint64_t x) { return static_cast<std::uint32_t>(x >> 32); }

// The middle of one of 2^53 equal intervals of (0, 1).
double open_unit(std::uint64_t bits) { return (static_cast<double>(bits >> 11) + 0.5) * 0x1p-53; }

}  // namespace

std::array<std::uint32_t, 4> philox4x32(std::array<std::uint32_t, 4> c, std::array<std::uint32_t, 2> k) {
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t a = std::uint64_t{0xD2511F53u} * c[0];
    const std::uint64_t b = std::uint64_t{0xCD9E8D57u} * c[2];
    c = {high(b) ^ c[1] ^ k[0], low(b), high(a) ^ c[3] ^ k[1], low(a)};
    k[0] += 0x9E3779B9u;
    k[1] += 0xBB67AE85u;
  }
  return c;
}

Random::Random(std::uint64_t seed, std::string_view purpose, std::string_view name) : key_{low(seed), high(seed)} {
  const std::string text = std::string(purpose) + '\0' + std::string(name);
  const std::uint64_t stream = XXH3_64bits(text.data(), text.size());
  stream_ = {low(stream), high(stream)};
}

std::array<std::uint32_t, 4> Random::draw(std::uint64_t index) const {
  return philox4x32({low(index), high(index), stream_[0], stream_[1]}, key_);
}

std::uint64_t Random::bits(std::uint64_t index) const {
  const auto r = draw(index);
  return join(r[0], r[1]);
}

double Random::uniform(std::uint64_t index) const { return open_unit(bits(index)); }

double Random::normal(std::uint64_t index) const {
  const auto r = draw(index);
  const double radius = std::sqrt(-2.0 * std::log(open_unit(join(r[0], r[1]))));
  return radius * std::cos(2.0 * std::numbers::pi * open_unit(join(r[2], r[3])));
}

}  // namespace nascent
