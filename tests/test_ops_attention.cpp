// Attention and rotary positions: who sees whom, and how a pair turns.
#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/rotary.h"
#include "tests/catch.h"
#include "tests/ops.h"

using namespace nascent;
using namespace nascent::test;

TEST_CASE("attention is its formula over exactly the positions that its mask lets each one see") {
  Stream s;
  for (const AttentionCase& c : attention_cases()) {
    INFO(c.name);
    Memory m(DType::kF64);
    const std::int64_t h_count = c.heads.query, groups = c.heads.key_value, row = (h_count + 2 * groups) * c.d;
    const Tensor qkv = m.normal("qkv", {c.b, c.t, row}), y = m.zeros({c.b, c.t, h_count * c.d}),
                 lse = m.zeros({c.b, h_count, c.t});
    const Tensor documents = documents_of(m, c);
    attention_forward(s, y, lse, qkv, c.heads, mask_of(m, c));
    double worst = 0;
    for (std::int64_t b = 0; b < c.b; ++b) {
      for (std::int64_t h = 0; h < h_count; ++h) {
        for (std::int64_t i = 0; i < c.t; ++i) {
          const auto at = [&](std::int64_t position, std::int64_t head, std::int64_t k) {
            return qkv.data<double>()[(b * c.t + position) * row + head * c.d + k];
          };
          const std::int64_t group = h / (h_count / groups);
          const auto sees = [&](std::int64_t j) {
            const std::int32_t* document = documents.data<std::int32_t>() + b * c.t;
            return document[i] == document[j] && (!c.causal || j <= i) && (c.window == 0 || std::abs(i - j) < c.window);
          };
          double total = 0;
          std::vector<double> wanted(static_cast<std::size_t>(c.d), 0.0);
          for (std::int64_t j = 0; j < c.t; ++j) {
            if (!sees(j)) continue;
            double score = 0;
            for (std::int64_t k = 0; k < c.d; ++k) score += at(i, h, k) * at(j, h_count + group, k);
            const double weight = std::exp(score / std::sqrt(static_cast<double>(c.d)));
            total += weight;
            for (std::int64_t k = 0; k < c.d; ++k)
              wanted[static_cast<std::size_t>(k)] += weight * at(j, h_count + groups + group, k);
          }
          for (std::int64_t k = 0; k < c.d; ++k) {
            const double got = y.data<double>()[((b * c.t + i) * h_count + h) * c.d + k];
            worst = larger(worst, std::abs(got - wanted[static_cast<std::size_t>(k)] / total));
          }
          worst = larger(worst, std::abs(lse.data<double>()[(b * h_count + h) * c.t + i] - std::log(total)));
        }
      }
    }
    CHECK(worst <= 1e-12);
  }
}

TEST_CASE("rotary turns halves, not neighbours: pairs are (i, i + dims/2), position 0 stays, lengths stay") {
  Stream s;
  Memory m(DType::kF64);
  const Tensor x = m.normal("x", {1, 18, 15}), y = m.zeros({1, 18, 15});  // one head of 5, four of them turn
  rotary_forward(s, y, x, {1, 1}, {4, 10000});
  for (const std::int64_t t : {0, 1, 17}) {
    for (const std::int64_t head : {0, 1}) {
      const double* in = x.data<double>() + t * 15 + head * 5;
      const double* out = y.data<double>() + t * 15 + head * 5;
      for (std::int64_t i = 0; i < 2; ++i) {
        const double angle = static_cast<double>(t) * std::pow(10000.0, -static_cast<double>(i) / 2);
        CHECK(out[i] == Approx(in[i] * std::cos(angle) - in[i + 2] * std::sin(angle)).margin(1e-12));
        CHECK(out[i + 2] == Approx(in[i + 2] * std::cos(angle) + in[i] * std::sin(angle)).margin(1e-12));
      }
      CHECK(out[4] == in[4]);
    }
    for (std::int64_t i = 10; i < 15; ++i) CHECK(y.data<double>()[t * 15 + i] == x.data<double>()[t * 15 + i]);
  }
}

TEST_CASE("a document cannot be told from the others in its sequence: changing one changes no bit of another") {
  Stream s;
  for (const DType dtype : {DType::kF32, DType::kF64}) {
    Memory m(dtype);
    const AttentionCase c{"", 1, 70, 2, {2, 2}, true, 0, {30}};
    const AttentionMask mask = mask_of(m, c);
    const Tensor qkv = m.normal("qkv", {1, 70, 12}), y = m.zeros({1, 70, 4}), lse = m.zeros({1, 2, 70}),
                 dy = m.normal("dy", {1, 70, 4});
    const Tensor gradient = m.zeros({1, 70, 12});
    const auto second = [&](const Tensor& x) {
      const std::vector<double> all = values(x);
      return std::vector<double>(all.begin() + 30 * x.cols(), all.end());
    };
    const auto run = [&] {
      attention_forward(s, y, lse, qkv, c.heads, mask);
      attention_backward(s, gradient, dy, y, lse, qkv, c.heads, mask);
      return std::pair(second(y), second(gradient));
    };
    const auto before = run();
    for (std::int64_t i = 0; i < 30 * 12; ++i) Memory::set(qkv, i, 3 * Memory::get(qkv, i) + 1);
    CHECK(run() == before);
  }
}
