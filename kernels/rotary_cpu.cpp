#include <algorithm>
#include <cmath>

#include "kernels/error.h"
#include "kernels/parallel.h"
#include "kernels/require.h"
#include "kernels/rotary.h"

namespace nascent::cpu {
namespace {

// Turns every pair by `sign` times its angle.
void turn(Stream& s, const char* op, Tensor y, View x, AttentionHeads heads, const Rotary& rule, double sign) {
  require_shape(op, "y", y, x.shape());
  const std::int64_t b = x.shape()[0], t = x.shape()[1], row = x.cols();
  const std::int64_t turned_heads = heads.query + heads.key_value, d = row / (turned_heads + heads.key_value);
  if (d * (turned_heads + heads.key_value) != row) {
    throw machine_error("{}: {} + 2 * {} heads do not divide the width {}", op, heads.query, heads.key_value, row);
  }
  if (rule.dims % 2 != 0 || rule.dims < 0 || rule.dims > d) {
    throw machine_error("{}: {} rotary dimensions, expected an even number up to the head size {}", op, rule.dims, d);
  }
  const std::int64_t half = rule.dims / 2;
  dispatch(x.dtype(), [&]<class T>() {
    const auto table =
        s.scratch(x.dtype(), {t, 2, std::max<std::int64_t>(half, 1)});  // cosines and sines of each position
    T* angles = table.template data<T>();
    for (std::int64_t i = 0; i < half; ++i) {
      const double frequency = std::pow(rule.base, -2.0 * static_cast<double>(i) / static_cast<double>(rule.dims));
      for (std::int64_t position = 0; position < t; ++position) {
        const double angle = static_cast<double>(position) * frequency;
        angles[position * 2 * half + i] = static_cast<T>(std::cos(angle));
        angles[position * 2 * half + half + i] = static_cast<T>(sign * std::sin(angle));
      }
    }
    parallel_for(s, b * t, 16, [&](std::int64_t begin, std::int64_t end, int) {
      for (std::int64_t n = begin; n < end; ++n) {
        const T *in = x.data<T>() + n * row, *cosines = angles + (n % t) * 2 * half, *sines = cosines + half;
        T* out = y.data<T>() + n * row;
        if (out != in) std::copy_n(in, row, out);
        for (std::int64_t head = 0; head < turned_heads; ++head) {
          T *first = out + head * d, *second = first + half;
          for (std::int64_t i = 0; i < half; ++i) {
            const T u = first[i], v = second[i];
            first[i] = u * cosines[i] - v * sines[i];
            second[i] = v * cosines[i] + u * sines[i];
          }
        }
      }
    });
  });
}

}  // namespace

void rotary_forward(Stream& s, Tensor y, View x, AttentionHeads heads, Rotary rule) {
  turn(s, "rotary_forward", y, x, heads, rule, 1);
}

void rotary_backward(Stream& s, Tensor dx, View dy, AttentionHeads heads, Rotary rule) {
  turn(s, "rotary_backward", dx, dy, heads, rule, -1);
}

}  // namespace nascent::cpu
