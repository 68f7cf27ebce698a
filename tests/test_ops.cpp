// One suite over every op: finite differences in double, float against double, the += rule, and odd sizes.
#include <algorithm>
#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "kernels/adamw.h"
#include "kernels/add.h"
#include "kernels/attention.h"
#include "kernels/embedding.h"
#include "kernels/gelu.h"
#include "kernels/linear.h"
#include "kernels/linear_cross_entropy.h"
#include "kernels/norm.h"
#include "kernels/reduce.h"
#include "kernels/rmsnorm.h"
#include "kernels/rotary.h"
#include "kernels/silu_gate.h"
#include "tests/catch.h"
#include "tests/memory.h"

using namespace nascent;
using namespace nascent::test;

namespace {

// An op on data of its own. `outputs` and `output_gradients` pair up, as do `inputs` and `gradients`.
struct Input {
  std::string name;
  Tensor value, gradient;
  bool parameter;  // its gradient is added to
};
struct Op {
  std::vector<Input> inputs;
  std::vector<Tensor> outputs, output_gradients;
  std::function<void(Stream&)> forward, backward;
};
struct NamedOp {
  const char* name;
  std::function<Op(Memory&)> make;
};

Input activation(Memory& m, const char* name, Shape shape, double std = 1) {
  return {name, m.normal(name, shape, std), m.zeros(shape), false};
}
Input parameter(Memory& m, const char* name, Shape shape, double std = 1, double mean = 0) {
  return {name, m.normal(name, shape, std, mean), m.zeros(shape), true};
}

NamedOp linear(std::int64_t n, std::int64_t in, std::int64_t out, bool bias) {
  return {bias ? "linear" : "linear without bias", [=](Memory& m) {
            Op op{{activation(m, "x", {n, in}), parameter(m, "w", {out, in})},
                  {m.zeros({n, out})},
                  {m.normal("dy", {n, out})},
                  {},
                  {}};
            if (bias) op.inputs.push_back(parameter(m, "b", {out}));
            const auto [x, w] = std::pair(op.inputs[0], op.inputs[1]);
            const Input b = bias ? op.inputs[2] : Input{};
            const Tensor y = op.outputs[0], dy = op.output_gradients[0];
            op.forward = [=](Stream& s) { linear_forward(s, y, x.value, w.value, b.value); };
            op.backward = [=](Stream& s) {
              linear_backward(s, x.gradient, w.gradient, b.gradient, dy, x.value, w.value);
            };
            return op;
          }};
}

NamedOp embedding(std::int64_t n, std::int64_t vocab, std::int64_t c) {
  return {"embedding", [=](Memory& m) {
            Op op{{parameter(m, "table", {vocab, c})}, {m.zeros({n, c})}, {m.normal("dy", {n, c})}, {}, {}};
            const Tensor ids = m.ids("ids", {n}, vocab), y = op.outputs[0], dy = op.output_gradients[0];
            const Input table = op.inputs[0];
            op.forward = [=](Stream& s) { embedding_forward(s, y, ids, table.value); };
            op.backward = [=](Stream& s) { embedding_backward(s, table.gradient, dy, ids); };
            return op;
          }};
}

NamedOp position(std::int64_t b, std::int64_t t, std::int64_t c) {
  return {"position", [=](Memory& m) {
            Op op{{parameter(m, "table", {t + 2, c})}, {m.zeros({b, t, c})}, {m.normal("dy", {b, t, c})}, {}, {}};
            const Tensor x = m.normal("x", {b, t, c}), y = op.outputs[0], dy = op.output_gradients[0];
            const Input table = op.inputs[0];
            op.forward = [=](Stream& s) { position_forward(s, y, x, table.value); };
            op.backward = [=](Stream& s) { position_backward(s, table.gradient, dy); };
            return op;
          }};
}

// y = x + norm(x): the gradient around the norm is the output's own.
NamedOp layernorm(std::int64_t n, std::int64_t c, bool residual) {
  return {residual ? "layernorm with residual" : "layernorm", [=](Memory& m) {
            Op op{{activation(m, "x", {n, c}, 2), parameter(m, "w", {c}, 0.3, 1), parameter(m, "b", {c})},
                  {m.zeros({n, c})},
                  {m.normal("dy", {n, c})},
                  {},
                  {}};
            const auto [x, w, b] = std::tuple(op.inputs[0], op.inputs[1], op.inputs[2]);
            const Tensor y = op.outputs[0], dy = op.output_gradients[0], mean = m.zeros({n}), rstd = m.zeros({n});
            op.forward = [=](Stream& s) {
              layernorm_forward(s, y, mean, rstd, x.value, w.value, b.value, 1e-5);
              if (residual) add_forward(s, y, y, x.value);
            };
            op.backward = [=](Stream& s) {
              layernorm_backward(s, x.gradient, w.gradient, b.gradient, dy, x.value, mean, rstd, w.value,
                                 residual ? dy : Tensor());
            };
            return op;
          }};
}

NamedOp rmsnorm(std::int64_t n, std::int64_t c, bool residual) {
  return {residual ? "rmsnorm with residual" : "rmsnorm", [=](Memory& m) {
            Op op{{activation(m, "x", {n, c}, 2), parameter(m, "w", {c}, 0.3, 1)},
                  {m.zeros({n, c})},
                  {m.normal("dy", {n, c})},
                  {},
                  {}};
            const auto [x, w] = std::pair(op.inputs[0], op.inputs[1]);
            const Tensor y = op.outputs[0], dy = op.output_gradients[0], rstd = m.zeros({n});
            op.forward = [=](Stream& s) {
              rmsnorm_forward(s, y, rstd, x.value, w.value, 1e-5);
              if (residual) add_forward(s, y, y, x.value);
            };
            op.backward = [=](Stream& s) {
              rmsnorm_backward(s, x.gradient, w.gradient, dy, x.value, rstd, w.value, residual ? dy : Tensor());
            };
            return op;
          }};
}

NamedOp silu_gate(std::int64_t n, std::int64_t f) {
  return {"silu gate", [=](Memory& m) {
            Op op{{activation(m, "x", {n, 2 * f}, 2)}, {m.zeros({n, f})}, {m.normal("dy", {n, f})}, {}, {}};
            const Input x = op.inputs[0];
            const Tensor y = op.outputs[0], dy = op.output_gradients[0];
            op.forward = [=](Stream& s) { silu_gate_forward(s, y, x.value); };
            op.backward = [=](Stream& s) { silu_gate_backward(s, x.gradient, dy, x.value); };
            return op;
          }};
}

NamedOp rotary(std::int64_t b, std::int64_t t, AttentionHeads heads, std::int64_t d, Rotary rule) {
  return {"rotary", [=](Memory& m) {
            const std::int64_t row = (heads.query + 2 * heads.key_value) * d;
            Op op{{activation(m, "x", {b, t, row})}, {m.zeros({b, t, row})}, {m.normal("dy", {b, t, row})}, {}, {}};
            const Input x = op.inputs[0];
            const Tensor y = op.outputs[0], dy = op.output_gradients[0];
            op.forward = [=](Stream& s) { rotary_forward(s, y, x.value, heads, rule); };
            op.backward = [=](Stream& s) { rotary_backward(s, x.gradient, dy, heads, rule); };
            return op;
          }};
}

NamedOp gelu(bool tanh, std::int64_t n) {
  return {tanh ? "gelu tanh" : "gelu erf", [=](Memory& m) {
            Op op{{activation(m, "x", {n}, 3)}, {m.zeros({n})}, {m.normal("dy", {n})}, {}, {}};
            const Input x = op.inputs[0];
            const Tensor y = op.outputs[0], dy = op.output_gradients[0];
            op.forward = [=](Stream& s) { tanh ? gelu_tanh_forward(s, y, x.value) : gelu_erf_forward(s, y, x.value); };
            op.backward = [=](Stream& s) {
              tanh ? gelu_tanh_backward(s, x.gradient, dy, x.value) : gelu_erf_backward(s, x.gradient, dy, x.value);
            };
            return op;
          }};
}

struct AttentionCase {
  const char* name;
  std::int64_t b, t, d;
  AttentionHeads heads;
  bool causal;
  std::int64_t window;
  std::vector<std::int32_t>
      borders;  // first positions of documents 1, 2, ... of sequence 0; one earlier in each next one
};

// The number of the document at each position.
Tensor documents_of(Memory& m, const AttentionCase& c) {
  const Tensor documents = m.zeros({c.b, c.t}, DType::kI32);
  for (std::int64_t i = 0; i < documents.size(); ++i) {
    for (const std::int32_t border : c.borders) documents.data<std::int32_t>()[i] += i % c.t >= border - i / c.t;
  }
  return documents;
}

AttentionMask mask_of(Memory& m, const AttentionCase& c) {
  return {c.causal, c.window, c.borders.empty() ? View() : View(documents_of(m, c))};
}

NamedOp attention(const AttentionCase& c) {
  return {c.name, [=](Memory& m) {
            const std::int64_t row = (c.heads.query + 2 * c.heads.key_value) * c.d, width = c.heads.query * c.d;
            Op op{{activation(m, "qkv", {c.b, c.t, row})},
                  {m.zeros({c.b, c.t, width})},
                  {m.normal("dy", {c.b, c.t, width})},
                  {},
                  {}};
            const Input qkv = op.inputs[0];
            const Tensor y = op.outputs[0], dy = op.output_gradients[0], lse = m.zeros({c.b, c.heads.query, c.t});
            const AttentionMask mask = mask_of(m, c);
            op.forward = [=](Stream& s) { attention_forward(s, y, lse, qkv.value, c.heads, mask); };
            op.backward = [=](Stream& s) { attention_backward(s, qkv.gradient, dy, y, lse, qkv.value, c.heads, mask); };
            return op;
          }};
}

std::vector<AttentionCase> attention_cases() {
  return {{"one position", 1, 1, 1, {1, 1}, true, 0, {}},
          {"causal", 2, 5, 3, {3, 3}, true, 0, {}},
          {"causal, two blocks", 1, 67, 3, {2, 2}, true, 0, {}},
          {"bidirectional", 2, 7, 3, {2, 2}, false, 0, {}},
          {"bidirectional, two blocks", 1, 66, 2, {1, 1}, false, 0, {}},
          {"causal window", 1, 70, 2, {1, 1}, true, 5, {}},
          {"bidirectional window", 1, 70, 2, {1, 1}, false, 4, {}},
          {"window wider than the sequence", 1, 6, 2, {1, 1}, true, 60, {}},
          {"window of one", 2, 6, 2, {1, 1}, true, 1, {}},
          {"grouped heads 3 to 1", 2, 6, 3, {3, 1}, true, 0, {}},
          {"grouped heads 6 to 2, bidirectional", 1, 9, 2, {6, 2}, false, 0, {}},
          {"documents", 2, 11, 3, {2, 2}, true, 0, {3, 4, 9}},
          {"documents, bidirectional, two blocks", 2, 66, 2, {1, 1}, false, 0, {20, 65}},
          {"documents, window, grouped heads", 2, 69, 2, {4, 2}, true, 7, {10, 66}}};
}

// The gradient of scale * sum of losses; every third target is ignored.
NamedOp head(std::int64_t n, std::int64_t c, std::int64_t vocab) {
  return {
      "linear cross entropy", [=](Memory& m) {
        const double scale = 0.3;
        Op op{{activation(m, "h", {n, c}), parameter(m, "w", {vocab, c}, 0.5)}, {m.zeros({n})}, {m.zeros({n})}, {}, {}};
        const auto [h, w] = std::pair(op.inputs[0], op.inputs[1]);
        const Tensor targets = m.ids("targets", {n}, vocab), losses = op.outputs[0];
        for (std::int64_t i = 0; i < n; ++i) {
          Memory::set(op.output_gradients[0], i, scale);
          if (i % 3 == 1) targets.data<std::int32_t>()[i] = kIgnored;
        }
        op.forward = [=](Stream& s) { linear_cross_entropy_forward(s, losses, h.value, w.value, targets); };
        op.backward = [=](Stream& s) {
          linear_cross_entropy_forward_backward(s, losses, h.gradient, w.gradient, h.value, w.value, targets, scale);
        };
        return op;
      }};
}

std::vector<NamedOp> small_ops() {
  std::vector<NamedOp> ops = {linear(1, 1, 1, true),  linear(5, 3, 7, true),   linear(33, 9, 4, false),
                              embedding(1, 1, 1),     embedding(33, 5, 3),     position(3, 5, 7),
                              layernorm(1, 3, false), layernorm(67, 9, false), layernorm(67, 9, true),
                              gelu(true, 33),         gelu(false, 33),         head(1, 3, 2),
                              head(33, 5, 11)};
  for (const NamedOp& op :
       {rmsnorm(1, 3, false), rmsnorm(67, 9, false), rmsnorm(67, 9, true), silu_gate(1, 1), silu_gate(33, 3),
        rotary(1, 1, {1, 1}, 2, {2, 10000}), rotary(2, 5, {3, 1}, 7, {4, 100}), rotary(1, 3, {2, 2}, 3, {0, 10000})}) {
    ops.push_back(op);
  }
  for (const AttentionCase& c : attention_cases()) ops.push_back(attention(c));
  return ops;
}
// Sizes past every block: query blocks, head blocks, chunks of rows; odd ones.
std::vector<NamedOp> large_ops() {
  return {linear(1000, 33, 65, true),
          embedding(1000, 33, 65),
          position(3, 129, 33),
          layernorm(1000, 129, true),
          gelu(true, 33333),
          gelu(false, 33333),
          attention({"attention", 2, 131, 17, {3, 3}, true, 0, {}}),
          attention({"long attention", 1, 1000, 8, {4, 2}, true, 300, {}}),
          head(1027, 33, 1000),
          rmsnorm(1000, 129, true),
          silu_gate(999, 33),
          rotary(3, 700, {4, 2}, 16, {8, 10000})};
}

double weighted_sum(const Op& op) {
  double total = 0;
  for (std::size_t o = 0; o < op.outputs.size(); ++o) {
    for (std::int64_t i = 0; i < op.outputs[o].size(); ++i) {
      total += Memory::get(op.outputs[o], i) * Memory::get(op.output_gradients[o], i);
    }
  }
  return total;
}

}  // namespace

TEST_CASE("every op's backward is the derivative of its forward (finite differences in double)") {
  Stream s;
  for (const NamedOp& named : small_ops()) {
    Memory m(DType::kF64);
    Op op = named.make(m);
    op.forward(s);
    op.backward(s);
    std::vector<double> all;
    for (const Input& input : op.inputs) {
      const auto g = values(input.gradient);
      all.insert(all.end(), g.begin(), g.end());
    }
    for (const Input& input : op.inputs) {
      std::vector<double> numeric;
      for (std::int64_t i = 0; i < input.value.size(); ++i) {
        const double x = Memory::get(input.value, i), h = 1e-5;
        const auto at = [&](double value) {
          Memory::set(input.value, i, value);
          op.forward(s);
          return weighted_sum(op);
        };
        numeric.push_back((at(x + h) - at(x - h)) / (2 * h));
        Memory::set(input.value, i, x);
      }
      INFO(named.name << ", input " << input.name << " " << input.value.shape().text());
      CHECK(gradient_error(values(input.gradient), numeric, rms(all)) <= 1e-6);
    }
  }
}

TEST_CASE("every op in float agrees with itself in double") {
  Stream s;
  auto ops = small_ops();
  for (NamedOp& op : large_ops()) ops.push_back(op);
  for (const NamedOp& named : ops) {
    Memory single(DType::kF32), twice(DType::kF64);
    Op f = named.make(single), d = named.make(twice);
    for (Op* op : {&f, &d}) {
      op->forward(s);
      op->backward(s);
    }
    for (std::size_t i = 0; i < f.outputs.size(); ++i) {
      INFO(named.name << " output " << f.outputs[i].shape().text());
      CHECK(gradient_error(values(f.outputs[i]), values(d.outputs[i]), 0) <= 2e-5);
    }
    std::vector<double> all;
    for (const Input& input : d.inputs) {
      const auto g = values(input.gradient);
      all.insert(all.end(), g.begin(), g.end());
    }
    for (std::size_t i = 0; i < f.inputs.size(); ++i) {
      INFO(named.name << " gradient of " << f.inputs[i].name << " " << f.inputs[i].value.shape().text());
      CHECK(gradient_error(values(f.inputs[i].gradient), values(d.inputs[i].gradient), rms(all)) <= 5e-5);
    }
  }
}

TEST_CASE("backward twice doubles parameter gradients and leaves activation gradients as they are") {
  Stream s;
  for (const DType dtype : {DType::kF32, DType::kF64}) {
    for (const NamedOp& named : small_ops()) {
      Memory m(dtype);
      Op op = named.make(m);
      op.forward(s);
      op.backward(s);
      std::vector<std::vector<double>> once;
      for (const Input& input : op.inputs) once.push_back(values(input.gradient));
      op.backward(s);
      for (std::size_t i = 0; i < op.inputs.size(); ++i) {
        const auto now = values(op.inputs[i].gradient);
        double worst = 0;
        for (std::size_t j = 0; j < now.size(); ++j) {
          const double expected = op.inputs[i].parameter ? 2 * once[i][j] : once[i][j];
          const double tolerance =
              op.inputs[i].parameter ? (dtype == DType::kF32 ? 1e-5 : 1e-13) * (std::abs(expected) + rms(once[i])) : 0;
          if (!(std::abs(now[j] - expected) <= tolerance)) worst = std::abs(now[j] - expected);
        }
        INFO(named.name << " gradient of " << op.inputs[i].name);
        CHECK(worst == 0);
      }
    }
  }
}

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
            worst = std::max(worst, std::abs(got - wanted[static_cast<std::size_t>(k)] / total));
          }
          worst = std::max(worst, std::abs(lse.data<double>()[(b * h_count + h) * c.t + i] - std::log(total)));
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

TEST_CASE("in double every op has the same bits on one, two and three threads") {
  std::vector<std::vector<double>> first;
  for (const int threads : {1, 2, 3}) {
    Stream s(Device::kCpu, threads);
    std::vector<std::vector<double>> results;
    for (const NamedOp& named : large_ops()) {
      Memory m(DType::kF64);
      Op op = named.make(m);
      op.forward(s);
      op.backward(s);
      for (const Tensor& y : op.outputs) results.push_back(values(y));
      for (const Input& input : op.inputs) results.push_back(values(input.gradient));
    }
    if (first.empty()) first = results;
    CHECK(results == first);
  }
}

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
