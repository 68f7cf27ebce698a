// exp for loops that the compiler turns into vector code: libm's is a call for each element, eight times slower.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

namespace nascent {

inline double exp_of(double x) { return std::exp(x); }

// x = n ln 2 + r with |r| <= ln 2 / 2, exp(x) = 2^n exp(r), exp(r) by its Taylor series to r^7 (remainder below 6e-9 of
// it, a tenth of an ulp). Inputs beyond the range of normal floats are clamped; NaN stays NaN.
inline float exp_of(float x) {
  constexpr float kLog2E = 1.44269504f, kLn2High = 0.693359375f, kLn2Low = -2.12194440e-4f;
  constexpr float kRound = 12582912.0f;  // 1.5 * 2^23: adding it leaves the nearest integer in the low bits
  x = x < -87.0f ? -87.0f : x;
  x = x > 88.0f ? 88.0f : x;
  const float shifted = x * kLog2E + kRound;
  const float n = shifted - kRound;
  const float r = (x - n * kLn2High) - n * kLn2Low;
  float p = 1.0f / 5040;
  p = p * r + 1.0f / 720;
  p = p * r + 1.0f / 120;
  p = p * r + 1.0f / 24;
  p = p * r + 1.0f / 6;
  p = p * r + 0.5f;
  p = p * r + 1.0f;
  p = p * r + 1.0f;
  const std::int32_t exponent = std::bit_cast<std::int32_t>(shifted) - std::bit_cast<std::int32_t>(kRound) + 127;
  return p * std::bit_cast<float>(exponent << 23);
}

}  // namespace nascent
