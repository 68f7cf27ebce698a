// What single ops promise beyond the suite: refusals, edges of AdamW, the head's blocks, reductions.
#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/adamw.h"
#include "kernels/attention.h"
#include "kernels/linear.h"
#include "kernels/linear_cross_entropy.h"
#include "kernels/reduce.h"
#include "tests/catch.h"
#include "tests/memory.h"

using namespace nascent;
using namespace nascent::test;

TEST_CASE("an op refuses shapes that do not fit, naming the op, the tensor and what it expected") {
  Stream s;
  Memory m;
  CHECK_THROWS_WITH(linear_forward(s, m.zeros({2, 3}), m.zeros({2, 5}), m.zeros({3, 4}), {}),
                    "linear_forward: w has shape (3, 4), expected (3, 5)");
  CHECK_THROWS_WITH(attention_forward(s, m.zeros({1, 2, 7}), m.zeros({1, 2, 2}), m.zeros({1, 2, 21}), {2, 2}, {}),
                    "attention_forward: 2 heads do not divide the width 7");
}

TEST_CASE("AdamW with eps = 0 leaves alone what has no gradient, and what has one too small to square") {
  for (const DType dtype : {DType::kF32, DType::kF64}) {
    Memory memory(dtype);
    Stream s;
    const Tensor w = memory.zeros({3}), first = memory.zeros({3}), second = memory.zeros({3}), g = memory.zeros({3});
    for (std::int64_t i = 0; i < 3; ++i) Memory::set(w, i, 0.5);
    Memory::set(g, 1, dtype == DType::kF32 ? 1e-30 : 1e-200);
    Memory::set(g, 2, 2.0);
    adamw_update(s, w, first, second, g, AdamW{0.1, 0.9, 0.95, 0, 0, 1, 1});
    CHECK(Memory::get(w, 0) == 0.5);
    CHECK(Memory::get(w, 1) == 0.5);
    CHECK(Memory::get(w, 2) == Approx(0.4).epsilon(1e-5));
  }
}

TEST_CASE("the largest of a column with a NaN is NaN, wherever it stands") {
  for (const std::int64_t at : {0, 1, 6}) {
    Memory memory(DType::kF32);
    Stream s;
    const Tensor x = memory.normal("x", {7, 3}), most = memory.zeros({3});
    Memory::set(x, at * 3 + 1, std::nan(""));
    column_max(s, most, x);
    CHECK(std::isnan(Memory::get(most, 1)));
    CHECK(std::isfinite(Memory::get(most, 0)));
    CHECK(std::isfinite(Memory::get(most, 2)));
  }
}

TEST_CASE("the head shows each block of logits and gradients once, by the position it begins at") {
  Stream s;
  Memory m(DType::kF64);
  const std::int64_t n = 1027, c = 3, vocab = 5;  // two blocks
  const Tensor h = m.normal("h", {n, c}), w = m.normal("w", {vocab, c}), dw = m.zeros({vocab, c}), dh = m.zeros({n, c});
  const Tensor targets = m.ids("targets", {n}, vocab), losses = m.zeros({n}), all = m.zeros({n, vocab});
  linear_forward(s, all, h, w, {});
  for (const bool backward : {false, true}) {
    std::int64_t seen = 0, blocks = 0;
    const BlockListener on_block = [&](std::int64_t first, View logits, View dlogits) {
      CHECK(first == seen);
      CHECK(gradient_error(values(logits), values(all.slice(seen, logits.rows())), 0) <= 1e-12);
      CHECK(static_cast<bool>(dlogits) == backward);
      seen += logits.rows();
      ++blocks;
    };
    if (backward) {
      linear_cross_entropy_forward_backward(s, losses, dh, dw, h, w, targets, 1, on_block);
    } else {
      linear_cross_entropy_forward(s, losses, h, w, targets, on_block);
    }
    CHECK(seen == n);
    CHECK(blocks == 2);
  }
}

TEST_CASE(
    "sums, sums of squares and largest values are those of a plain loop, below and beyond every run of elements") {
  Stream s;
  for (const DType dtype : {DType::kF32, DType::kF64}) {
    for (const std::int64_t n : {1, 3, 33, 4096, 4097, 10001}) {
      INFO(n << " of " << name_of(dtype));
      Memory m(dtype);
      const Tensor x = m.normal("x", {n, 3}), y = m.normal("y", {n, 3});
      std::vector<double> columns(3, 0.0), most(3, -9.0);
      double plain = 0, squares = 0, differences = 0, largest = 0;
      for (std::int64_t i = 0; i < 3 * n; ++i) {
        const double a = Memory::get(x, i), b = Memory::get(y, i);
        const auto column = static_cast<std::size_t>(i % 3);
        plain += a;
        squares += a * a;
        differences += (a - b) * (a - b);
        largest = std::max(largest, std::abs(a));
        columns[column] += a;
        most[column] = std::max(most[column], a);
      }
      double found = -1;
      const Tensor one(&found, DType::kF64, {1});
      // Far above what rounding leaves of sums up to 1e5, far below one element.
      const double rounding = 1e-8;
      sum(s, one, x);
      CHECK(std::abs(found - plain) <= rounding);
      sum_squares(s, one, x);
      CHECK(std::abs(found - squares) <= rounding);
      sum_squared_difference(s, one, x, y);
      CHECK(std::abs(found - differences) <= rounding);
      max_abs(s, one, x);
      CHECK(found == largest);

      // Both go on from what `out` holds.
      const Tensor total = m.zeros({3}), top = m.zeros({3});
      for (std::int64_t j = 0; j < 3; ++j) Memory::set(total, j, 1), Memory::set(top, j, -9);
      column_sum(s, total, x);
      column_max(s, top, x);
      for (std::int64_t j = 0; j < 3; ++j) {
        const auto column = static_cast<std::size_t>(j);
        const double precision = dtype == DType::kF32 ? 1e-6 : 1e-14;
        CHECK(std::abs(Memory::get(total, j) - 1 - columns[column]) <= precision * static_cast<double>(n));
        CHECK(Memory::get(top, j) == most[column]);
      }
      Memory::set(x, 3 * n - 1, std::nan(""));
      max_abs(s, one, x);
      CHECK(std::isnan(found));
    }
  }
}
