// Ops whose time is in matrix products.
#include <algorithm>
#include <fmt/format.h>

#include "kernels/attention.h"
#include "kernels/linear.h"
#include "kernels/linear_cross_entropy.h"
#include "tests/bench/bare_onednn.h"
#include "tests/bench/cases.h"

namespace nascent::bench {
namespace {

// y [n, out] = x [n, in] W^T + b
struct Layer {
  std::int64_t n, in, out;
  bool bias = true;
};

using LayerOf = Layer (*)(const Size&);
struct NamedLayer {
  const char* name;
  LayerOf of;
};
constexpr NamedLayer kLayers[] = {
    {"qkv", [](const Size& z) { return Layer{z.n(), z.c, 3 * z.c}; }},
    {"attn out", [](const Size& z) { return Layer{z.n(), z.c, z.c}; }},
    {"mlp in", [](const Size& z) { return Layer{z.n(), z.c, z.hidden()}; }},
    {"mlp out", [](const Size& z) { return Layer{z.n(), z.hidden(), z.c}; }},
    {"head block", [](const Size& z) { return Layer{head_block_rows(z.vocab), z.c, z.vocab, false}; }}};

Matrix<float> matrix(const Tensor& x) { return {x.data<float>(), x.rows(), x.cols(), x.cols()}; }

std::string shape_of(const Layer& l) { return fmt::format("{}x{} to {}", l.n, l.in, l.out); }
// One product of the layer: a multiplication and an addition for every position, input and output.
double flop_of(const Layer& l) {
  return 2.0 * static_cast<double>(l.n) * static_cast<double>(l.in) * static_cast<double>(l.out);
}

Prepared linear(Operands& m, const Layer& l) {
  const Tensor x = m.normal({l.n, l.in}), w = m.normal({l.out, l.in}), y = m.zeros({l.n, l.out});
  const Tensor b = l.bias ? m.normal({l.out}) : Tensor();
  Prepared p{shape_of(l),
             {.flop = flop_of(l), .read = bytes(x, w) + (b ? bytes(b) : 0), .written = bytes(y)},
             [=](Stream& s) { linear_forward(s, y, x, w, b); }};
  if (m.device() == Device::kCpu) {
    const BareProduct product(matrix(y), matrix(x), matrix(w).transposed(), Into::kAssign,
                              b ? b.data<float>() : nullptr);
    p.bare = [=] { product.run(); };
  }
  return p;
}

// The bare calls do not sum dy for db.
Prepared linear_gradient(Operands& m, const Layer& l) {
  const Tensor x = m.normal({l.n, l.in}), w = m.normal({l.out, l.in}), dy = m.normal({l.n, l.out});
  const Tensor dx = m.zeros(x.shape()), dw = m.zeros(w.shape()), db = l.bias ? m.zeros({l.out}) : Tensor();
  const double parameters = bytes(dw) + (db ? bytes(db) : 0);
  Prepared p{shape_of(l),
             {.flop = 2 * flop_of(l), .read = bytes(dy, x, w) + parameters, .written = bytes(dx) + parameters},
             [=](Stream& s) { linear_backward(s, dx, dw, db, dy, x, w); }};
  if (m.device() == Device::kCpu) {
    const BareProduct input(matrix(dx), matrix(dy), matrix(w), Into::kAssign);
    const BareProduct weight(matrix(dw), matrix(dy).transposed(), matrix(x), Into::kAdd);
    p.bare = [=] { input.run(), weight.run(); };
  }
  return p;
}

struct Mask {
  const char* name;
  bool causal;
  std::int64_t window;     // 0: all
  std::int64_t documents;  // of equal length in each sequence
  int sharing;             // heads of queries to one of keys, or as many as divide the heads
};
constexpr Mask kMasks[] = {{"causal", true, 0, 1, 1},
                           {"bidirectional", false, 0, 1, 1},
                           {"causal window", true, 128, 1, 1},
                           {"causal documents", true, 0, 4, 1},
                           {"causal grouped 4:1", true, 0, 1, 4}};

// Pairs of positions (i, j) of one sequence of which i sees j.
double pairs_of(const Mask& mask, std::int64_t t) {
  const std::int64_t length = t / mask.documents;
  std::int64_t pairs = 0;
  for (std::int64_t i = 0; i < length; ++i) {
    const std::int64_t reach = mask.window > 0 ? mask.window - 1 : length;
    pairs += std::min(i, reach) + 1 + (mask.causal ? 0 : std::min(length - 1 - i, reach));
  }
  return static_cast<double>(pairs * mask.documents);
}

// Scores and output: two products of 2 D a pair. Backward five of them: scores again, and the gradients of P, q, k, v.
Prepared attention(Operands& m, const Size& z, const Mask& mask, bool backward) {
  const AttentionHeads heads{static_cast<int>(z.heads), static_cast<int>(z.heads) / mask.sharing};
  const std::int64_t d = z.head_size(), row = (heads.query + 2 * heads.key_value) * d;
  const Tensor qkv = m.normal({z.b, z.t, row}), y = m.normal({z.b, z.t, z.c}), lse = m.zeros({z.b, z.heads, z.t});
  AttentionMask seen{mask.causal, mask.window, {}};
  if (mask.documents > 1) {
    std::vector<std::int32_t> document(static_cast<std::size_t>(z.n()));
    for (std::size_t i = 0; i < document.size(); ++i)
      document[i] = static_cast<std::int32_t>(static_cast<std::int64_t>(i) * mask.documents / z.t);
    seen.documents = m.integers(document).reshaped({z.b, z.t});
  }
  const double masks = seen.documents ? bytes(seen.documents) : 0;
  const double product = 2.0 * static_cast<double>(z.b * z.heads * d) * pairs_of(mask, z.t);
  const std::string shape = fmt::format("{}x{}, {} heads of {}", z.b, z.t, z.heads, d);
  if (!backward) {
    return {shape, {.flop = 2 * product, .read = bytes(qkv) + masks, .written = bytes(y, lse)}, [=](Stream& s) {
              attention_forward(s, y, lse, qkv, heads, seen);
            }};
  }
  const Tensor dqkv = m.zeros(qkv.shape()), dy = m.normal(y.shape());
  return {shape, {.flop = 5 * product, .read = bytes(dy, y, lse, qkv) + masks, .written = bytes(dqkv)}, [=](Stream& s) {
            attention_backward(s, dqkv, dy, y, lse, qkv, heads, seen);
          }};
}

// One sequence of gpt2's, for the time; the products alone are counted, and the logits need no memory.
Prepared head(Operands& m, const Size& z, bool backward) {
  const Layer l{std::min<std::int64_t>(z.n(), 1024), z.c, z.vocab};
  const Tensor losses = m.zeros({l.n}), h = m.normal({l.n, z.c}), w = m.normal({z.vocab, z.c});
  const Tensor targets = m.uniform({l.n}, z.vocab);
  if (!backward) {
    return {shape_of(l), {.flop = flop_of(l), .read = bytes(h, w, targets), .written = bytes(losses)}, [=](Stream& s) {
              linear_cross_entropy_forward(s, losses, h, w, targets);
            }};
  }
  const Tensor dh = m.zeros(h.shape()), dw = m.zeros(w.shape());
  const double scale = 1 / static_cast<double>(l.n);
  return {shape_of(l),
          {.flop = 3 * flop_of(l), .read = bytes(h, w, targets, dw), .written = bytes(losses, dh, dw)},
          [=](Stream& s) { linear_cross_entropy_forward_backward(s, losses, dh, dw, h, w, targets, scale); }};
}

}  // namespace

std::vector<Case> product_cases() {
  std::vector<Case> cases;
  for (const auto& [name, of] : kLayers)
    cases.push_back({"linear_forward", name, [of = of](Operands& m, const Size& z) { return linear(m, of(z)); }});
  for (const auto& [name, of] : kLayers) {
    cases.push_back(
        {"linear_backward", name, [of = of](Operands& m, const Size& z) { return linear_gradient(m, of(z)); }});
  }
  for (const bool backward : {false, true}) {
    for (const Mask& mask : kMasks) {
      cases.push_back({backward ? "attention_backward" : "attention_forward", mask.name,
                       [=](Operands& m, const Size& z) { return attention(m, z, mask, backward); }});
    }
  }
  cases.push_back({"linear_cross_entropy_forward", "", [](Operands& m, const Size& z) { return head(m, z, false); }});
  cases.push_back(
      {"linear_cross_entropy_forward_backward", "", [](Operands& m, const Size& z) { return head(m, z, true); }});
  return cases;
}

}  // namespace nascent::bench
