// Ops that pass over rows or single numbers: norms, activations, embeddings, loss, optimizer.
#include <algorithm>
#include <fmt/format.h>

#include "kernels/adamw.h"
#include "kernels/add.h"
#include "kernels/clip.h"
#include "kernels/columns.h"
#include "kernels/cross_entropy.h"
#include "kernels/embedding.h"
#include "kernels/gelu.h"
#include "kernels/linear_cross_entropy.h"
#include "kernels/norm.h"
#include "kernels/rmsnorm.h"
#include "kernels/rotary.h"
#include "kernels/silu_gate.h"
#include "tests/bench/cases.h"

namespace nascent::bench {
namespace {

double numbers(const View& x) { return static_cast<double>(x.size()); }
std::string shape_of(const View& x) { return fmt::format("{}x{}", x.rows(), x.cols()); }

// Each number: sum; centre, square, sum; normalize (2); weight, bias.
Prepared layernorm(Operands& m, const Size& z) {
  const Tensor x = m.normal({z.n(), z.c}), w = m.normal({z.c}), b = m.normal({z.c});
  const Tensor y = m.zeros(x.shape()), mean = m.zeros({z.n()}), rstd = m.zeros({z.n()});
  return {shape_of(x),
          {.flop = 8 * numbers(x), .read = bytes(x, w, b), .written = bytes(y, mean, rstd)},
          [=](Stream& s) { layernorm_forward(s, y, mean, rstd, x, w, b, 1e-5); }};
}

// n (2); g; sum g; sum g n (2); dx (4), dresidual; dw (2); db.
Prepared layernorm_gradient(Operands& m, const Size& z) {
  const Tensor x = m.normal({z.n(), z.c}), w = m.normal({z.c}), mean = m.normal({z.n()}), rstd = m.normal({z.n()});
  const Tensor dy = m.normal(x.shape()), dresidual = m.normal(x.shape());
  const Tensor dx = m.zeros(x.shape()), dw = m.zeros({z.c}), db = m.zeros({z.c});
  return {
      shape_of(x),
      {.flop = 14 * numbers(x), .read = bytes(dy, x, mean, rstd, w, dresidual, dw, db), .written = bytes(dx, dw, db)},
      [=](Stream& s) { layernorm_backward(s, dx, dw, db, dy, x, mean, rstd, w, dresidual); }};
}

// Square, sum; normalize; weight.
Prepared rmsnorm(Operands& m, const Size& z) {
  const Tensor x = m.normal({z.n(), z.c}), w = m.normal({z.c}), y = m.zeros(x.shape()), rstd = m.zeros({z.n()});
  return {shape_of(x), {.flop = 4 * numbers(x), .read = bytes(x, w), .written = bytes(y, rstd)}, [=](Stream& s) {
            rmsnorm_forward(s, y, rstd, x, w, 1e-5);
          }};
}

// n; g; sum g n (2); dx (3), dresidual; dw (2).
Prepared rmsnorm_gradient(Operands& m, const Size& z) {
  const Tensor x = m.normal({z.n(), z.c}), w = m.normal({z.c}), rstd = m.normal({z.n()});
  const Tensor dy = m.normal(x.shape()), dresidual = m.normal(x.shape());
  const Tensor dx = m.zeros(x.shape()), dw = m.zeros({z.c});
  return {shape_of(x),
          {.flop = 10 * numbers(x), .read = bytes(dy, x, rstd, w, dresidual, dw), .written = bytes(dx, dw)},
          [=](Stream& s) { rmsnorm_backward(s, dx, dw, dy, x, rstd, w, dresidual); }};
}

// An op of one input and one output, both as wide as the MLP.
template <class Op>
Case activation(const Op& op, double flop) {
  return {op.name(), "", [&op, flop](Operands& m, const Size& z) -> Prepared {
            const Tensor x = m.normal({z.n(), z.hidden()}), y = m.zeros(x.shape());
            return {shape_of(x),
                    {.flop = flop * numbers(x), .read = bytes(x), .written = bytes(y)},
                    [=, &op](Stream& s) { op(s, y, x); }};
          }};
}

template <class Op>
Case activation_gradient(const Op& op, double flop) {
  return {op.name(), "", [&op, flop](Operands& m, const Size& z) -> Prepared {
            const Tensor x = m.normal({z.n(), z.hidden()}), dy = m.normal(x.shape()), dx = m.zeros(x.shape());
            return {shape_of(x),
                    {.flop = flop * numbers(x), .read = bytes(dy, x), .written = bytes(dx)},
                    [=, &op](Stream& s) { op(s, dx, dy, x); }};
          }};
}

// s (3), a s, times u. F is Llama's 8/3 C, to the next 64.
Prepared silu_gate(Operands& m, const Size& z) {
  const std::int64_t f = (8 * z.c / 3 + 63) / 64 * 64;
  const Tensor x = m.normal({z.n(), 2 * f}), y = m.zeros({z.n(), f});
  return {shape_of(x), {.flop = 5 * numbers(y), .read = bytes(x), .written = bytes(y)}, [=](Stream& s) {
            silu_gate_forward(s, y, x);
          }};
}

// s (3); da (6); du (2).
Prepared silu_gate_gradient(Operands& m, const Size& z) {
  const std::int64_t f = (8 * z.c / 3 + 63) / 64 * 64;
  const Tensor x = m.normal({z.n(), 2 * f}), dy = m.normal({z.n(), f}), dx = m.zeros(x.shape());
  return {shape_of(x), {.flop = 11 * numbers(dy), .read = bytes(dy, x), .written = bytes(dx)}, [=](Stream& s) {
            silu_gate_backward(s, dx, dy, x);
          }};
}

// Two comparisons a number of q, k and v.
Prepared clip(Operands& m, const Size& z) {
  const Tensor x = m.normal({z.n(), 3 * z.c}), y = m.zeros(x.shape());
  return {shape_of(x), {.flop = 2 * numbers(x), .read = bytes(x), .written = bytes(y)}, [=](Stream& s) {
            clip_forward(s, y, x, 0.8);
          }};
}

Prepared clip_gradient(Operands& m, const Size& z) {
  const Tensor x = m.normal({z.n(), 3 * z.c}), dy = m.normal(x.shape()), dx = m.zeros(x.shape());
  return {shape_of(x), {.flop = 2 * numbers(x), .read = bytes(dy, x), .written = bytes(dx)}, [=](Stream& s) {
            clip_backward(s, dx, dy, x, 0.8);
          }};
}

// The queries among q, k and v.
Prepared take(Operands& m, const Size& z) {
  const Tensor x = m.normal({z.n(), 3 * z.c}), y = m.zeros({z.n(), z.c});
  return {
      shape_of(y), {.flop = 0, .read = bytes(y), .written = bytes(y)}, [=](Stream& s) { take_columns(s, y, x, 0); }};
}

Prepared put(Operands& m, const Size& z) {
  const Tensor y = m.normal({z.n(), z.c}), x = m.zeros({z.n(), 3 * z.c});
  return {shape_of(y), {.flop = 0, .read = bytes(y), .written = bytes(y)}, [=](Stream& s) { put_columns(s, x, y, 0); }};
}

// Three for each number of q and k; v is only copied. Backward is the same turn by -a.
template <class Op>
Case turn(const Op& op) {
  return {op.name(), "", [&op](Operands& m, const Size& z) -> Prepared {
            const int heads = static_cast<int>(z.heads);
            const Tensor x = m.normal({z.b, z.t, 3 * z.c}), y = m.zeros(x.shape());
            const Rotary rule{z.head_size(), 10000};
            return {shape_of(x), {.flop = 2 * numbers(x), .read = bytes(x), .written = bytes(y)}, [=, &op](Stream& s) {
                      op(s, y, x, {heads, heads}, rule);
                    }};
          }};
}

// Rows of the table that are needed: with random tokens not more than there are tokens, nor more than there are.
double needed_bytes(const View& table, const View& tokens) {
  return bytes(table.slice(0, std::min(table.rows(), tokens.size())));
}

Prepared embedding(Operands& m, const Size& z) {
  const Tensor tokens = m.uniform({z.n()}, z.vocab), table = m.normal({z.vocab, z.c}), y = m.zeros({z.n(), z.c});
  return {fmt::format("{} of {}", z.n(), shape_of(table)),
          {.flop = 0, .read = bytes(tokens) + needed_bytes(table, tokens), .written = bytes(y)},
          [=](Stream& s) { embedding_forward(s, y, tokens, table); }};
}

Prepared embedding_gradient(Operands& m, const Size& z) {
  const Tensor tokens = m.uniform({z.n()}, z.vocab), dtable = m.zeros({z.vocab, z.c}), dy = m.normal({z.n(), z.c});
  const double needed = needed_bytes(dtable, tokens);
  return {fmt::format("{} of {}", z.n(), shape_of(dtable)),
          {.flop = numbers(dy), .read = bytes(tokens, dy) + needed, .written = needed},
          [=](Stream& s) { embedding_backward(s, dtable, dy, tokens); }};
}

Prepared position(Operands& m, const Size& z) {
  const Tensor x = m.normal({z.b, z.t, z.c}), table = m.normal({z.t, z.c}), y = m.zeros(x.shape());
  return {shape_of(x), {.flop = numbers(x), .read = bytes(x, table), .written = bytes(y)}, [=](Stream& s) {
            position_forward(s, y, x, table);
          }};
}

Prepared position_gradient(Operands& m, const Size& z) {
  const Tensor dy = m.normal({z.b, z.t, z.c}), dtable = m.zeros({z.t, z.c});
  return {shape_of(dy), {.flop = numbers(dy), .read = bytes(dy, dtable), .written = bytes(dtable)}, [=](Stream& s) {
            position_backward(s, dtable, dy);
          }};
}

Prepared add(Operands& m, const Size& z) {
  const Tensor a = m.normal({z.n(), z.c}), b = m.normal(a.shape()), y = m.zeros(a.shape());
  return {shape_of(a), {.flop = numbers(y), .read = bytes(a, b), .written = bytes(y)}, [=](Stream& s) {
            add_forward(s, y, a, b);
          }};
}

// Logits of one block of the head. Each: largest, subtract, exponential, sum.
Prepared loss(Operands& m, const Size& z) {
  const Tensor logits = m.normal({head_block_rows(z.vocab), z.vocab}), targets = m.uniform({logits.rows()}, z.vocab);
  const Tensor losses = m.zeros({logits.rows()});
  return {shape_of(logits),
          {.flop = 4 * numbers(logits), .read = bytes(logits, targets), .written = bytes(losses)},
          [=](Stream& s) { cross_entropy_forward(s, losses, logits, targets); }};
}

// The same, and one multiplication by scale/sum.
Prepared loss_gradient(Operands& m, const Size& z) {
  const Tensor logits = m.normal({head_block_rows(z.vocab), z.vocab}), targets = m.uniform({logits.rows()}, z.vocab);
  const Tensor losses = m.zeros({logits.rows()}), dlogits = m.zeros(logits.shape());
  return {shape_of(logits),
          {.flop = 5 * numbers(logits), .read = bytes(logits, targets), .written = bytes(losses, dlogits)},
          [=](Stream& s) { cross_entropy_forward_backward(s, losses, dlogits, logits, targets, 1e-3); }};
}

// The embedding, the largest parameter. Each number: scale; decay; m (3); v (4); the update (7).
Prepared adamw(Operands& m, const Size& z) {
  const Tensor w = m.normal({z.vocab, z.c}), mean = m.zeros(w.shape()), square = m.zeros(w.shape());
  const Tensor g = m.normal(w.shape());
  const AdamW rule{1e-3, 0.9, 0.95, 1e-8, 0.1, 1, 10};
  return {shape_of(w),
          {.flop = 16 * numbers(w), .read = bytes(w, mean, square, g), .written = bytes(w, mean, square)},
          [=](Stream& s) { adamw_update(s, w, mean, square, g, rule); }};
}

}  // namespace

// Activations, each number. gelu tanh: u (5), s (4), x s; backward u, s, x s (1 - s) (3), 2 u' (4), their product, plus s,
// times dy. gelu erf: x/sqrt 2, erf, plus 1, times x, halved; backward the first three, halved, x exp(-x^2/2) (4), its
// factor, sum, times dy.
std::vector<Case> row_cases() {
  return {{"layernorm_forward", "", layernorm},
          {"layernorm_backward", "", layernorm_gradient},
          {"rmsnorm_forward", "", rmsnorm},
          {"rmsnorm_backward", "", rmsnorm_gradient},
          activation(gelu_tanh_forward, 10),
          activation_gradient(gelu_tanh_backward, 19),
          activation(gelu_erf_forward, 5),
          activation_gradient(gelu_erf_backward, 11),
          {"silu_gate_forward", "", silu_gate},
          {"silu_gate_backward", "", silu_gate_gradient},
          {"clip_forward", "", clip},
          {"clip_backward", "", clip_gradient},
          {"take_columns", "", take},
          {"put_columns", "", put},
          turn(rotary_forward),
          turn(rotary_backward),
          {"embedding_forward", "", embedding},
          {"embedding_backward", "", embedding_gradient},
          {"position_forward", "", position},
          {"position_backward", "", position_gradient},
          {"add_forward", "", add},
          {"cross_entropy_forward", "", loss},
          {"cross_entropy_forward_backward", "", loss_gradient},
          {"adamw_update", "", adamw}};
}

}  // namespace nascent::bench
