// One suite over every op, for each device: finite differences in double, float against double, the += rule, odd sizes.
#include <cmath>
#include <string>
#include <vector>

#include "kernels/add.h"
#include "kernels/attention.h"
#include "kernels/clip.h"
#include "kernels/columns.h"
#include "kernels/embedding.h"
#include "kernels/gelu.h"
#include "kernels/linear.h"
#include "kernels/linear_cross_entropy.h"
#include "kernels/norm.h"
#include "kernels/rmsnorm.h"
#include "kernels/rotary.h"
#include "kernels/silu_gate.h"
#include "tests/catch.h"
#include "tests/device.h"
#include "tests/memory.h"
#include "tests/ops.h"

using namespace nascent;
using namespace nascent::test;

namespace {

NamedOp linear(std::int64_t n, std::int64_t in, std::int64_t out, bool bias) {
  return {bias ? "linear" : "linear without bias",
          [=](Memory& m) {
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
          },
          true};
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
  return {residual ? "layernorm with residual" : "layernorm",
          [=](Memory& m) {
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
          },
          true};
}

NamedOp plain_layernorm(std::int64_t n, std::int64_t c) {
  return {"layernorm without parameters",
          [=](Memory& m) {
            Op op{{activation(m, "x", {n, c}, 2)}, {m.zeros({n, c})}, {m.normal("dy", {n, c})}, {}, {}};
            const Input x = op.inputs[0];
            const Tensor y = op.outputs[0], dy = op.output_gradients[0], mean = m.zeros({n}), rstd = m.zeros({n});
            op.forward = [=](Stream& s) { layernorm_forward(s, y, mean, rstd, x.value, {}, {}, 1e-2); };
            op.backward = [=](Stream& s) {
              layernorm_backward(s, x.gradient, {}, {}, dy, x.value, mean, rstd, {}, {});
            };
            return op;
          },
          true};
}

NamedOp clip(std::int64_t n) {
  return {"clip", [=](Memory& m) {
            Op op{{activation(m, "x", {n})}, {m.zeros({n})}, {m.normal("dy", {n})}, {}, {}};
            const Input x = op.inputs[0];
            const Tensor y = op.outputs[0], dy = op.output_gradients[0];
            op.forward = [=](Stream& s) { clip_forward(s, y, x.value, 0.8); };
            op.backward = [=](Stream& s) { clip_backward(s, x.gradient, dy, x.value, 0.8); };
            return op;
          }};
}

NamedOp columns(std::int64_t n, std::int64_t width, std::int64_t first, std::int64_t c) {
  return {"columns", [=](Memory& m) {
            Op op{{activation(m, "x", {n, width})}, {m.zeros({n, c})}, {m.normal("dy", {n, c})}, {}, {}};
            const Input x = op.inputs[0];
            const Tensor y = op.outputs[0], dy = op.output_gradients[0];
            op.forward = [=](Stream& s) { take_columns(s, y, x.value, first); };
            op.backward = [=](Stream& s) { put_columns(s, x.gradient, dy, first); };
            return op;
          }};
}

NamedOp rmsnorm(std::int64_t n, std::int64_t c, bool residual) {
  return {residual ? "rmsnorm with residual" : "rmsnorm",
          [=](Memory& m) {
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
          },
          true};
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
          if (i % 3 == 1) Memory::set(targets, i, kIgnored);
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
        rotary(1, 1, {1, 1}, 2, {2, 10000}), rotary(2, 5, {3, 1}, 7, {4, 100}), rotary(1, 3, {2, 2}, 3, {0, 10000}),
        plain_layernorm(1, 3), plain_layernorm(67, 9), clip(1), clip(333), columns(1, 1, 0, 1), columns(33, 7, 2, 4)}) {
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
          rotary(3, 700, {4, 2}, 16, {8, 10000}),
          plain_layernorm(1000, 129),
          clip(33333),
          columns(999, 33, 30, 3)};
}

// Those that the device has.
std::vector<NamedOp> here(std::vector<NamedOp> ops) {
  if (kTestDevice == Device::kCuda) std::erase_if(ops, [](const NamedOp& op) { return !op.on_cuda; });
  return ops;
}

std::vector<NamedOp> all_ops() {
  std::vector<NamedOp> ops = small_ops();
  for (NamedOp& op : large_ops()) ops.push_back(std::move(op));
  return ops;
}

void forward(Stream& s, const Op& op) {
  op.forward(s);
  s.wait();
}
void backward(Stream& s, const Op& op) {
  op.backward(s);
  s.wait();
}

double weighted_sum(const Op& op) {
  double total = 0;
  for (std::size_t o = 0; o < op.outputs.size(); ++o) {
    const auto y = values(op.outputs[o]), dy = values(op.output_gradients[o]);
    for (std::size_t i = 0; i < y.size(); ++i) total += y[i] * dy[i];
  }
  return total;
}

}  // namespace

TEST_CASE("every op's backward is the derivative of its forward (finite differences in double)", "[derivatives]") {
  Stream s(kTestDevice);
  for (const NamedOp& named : here(small_ops())) {
    Memory m(DType::kF64, kTestDevice);
    Op op = named.make(m);
    forward(s, op);
    backward(s, op);
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
          forward(s, op);
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
  Stream s(kTestDevice);
  for (const NamedOp& named : here(all_ops())) {
    Memory single(DType::kF32, kTestDevice), twice(DType::kF64, kTestDevice);
    Op f = named.make(single), d = named.make(twice);
    for (Op* op : {&f, &d}) {
      forward(s, *op);
      backward(s, *op);
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
  Stream s(kTestDevice);
  for (const DType dtype : {DType::kF32, DType::kF64}) {
    for (const NamedOp& named : here(small_ops())) {
      Memory m(dtype, kTestDevice);
      Op op = named.make(m);
      forward(s, op);
      backward(s, op);
      std::vector<std::vector<double>> once;
      for (const Input& input : op.inputs) once.push_back(values(input.gradient));
      backward(s, op);
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

TEST_CASE("an op says so where the device has no twin of it") {
  if (kTestDevice == Device::kCpu) return;
  Stream s(kTestDevice);
  for (const NamedOp& named : small_ops()) {
    if (named.on_cuda) continue;
    Memory m(DType::kF32, kTestDevice);
    const Op op = named.make(m);
    INFO(named.name);
    CHECK_THROWS_WITH(op.forward(s), Catch::Matchers::EndsWith("this build has no cuda version of it"));
  }
}

TEST_CASE("every op makes finite numbers of finite ones: a stream that checks raises no alarm") {
  Stream s(kTestDevice);
  if (kTestDevice != Device::kCpu) return;  // checks on the CPU only
  s.check_finite(true);
  auto ops = small_ops();
  for (NamedOp& op : here(large_ops())) ops.push_back(op);
  for (const DType dtype : {DType::kF32, DType::kF64}) {
    for (const NamedOp& named : all_ops()) {
      Memory m(dtype, kTestDevice);
      Op op = named.make(m);
      INFO(named.name);
      CHECK_NOTHROW((op.forward(s), op.backward(s)));
    }
  }
}

TEST_CASE("in double every op has the same bits on one, two and three threads", "[threads]") {
  std::vector<std::vector<double>> first;
  for (const int threads : {1, 2, 3}) {
    Stream s(kTestDevice, threads);
    std::vector<std::vector<double>> results;
    for (const NamedOp& named : here(large_ops())) {
      Memory m(DType::kF64, kTestDevice);
      Op op = named.make(m);
      forward(s, op);
      backward(s, op);
      for (const Tensor& y : op.outputs) results.push_back(values(y));
      for (const Input& input : op.inputs) results.push_back(values(input.gradient));
    }
    if (first.empty()) first = results;
    CHECK(results == first);
  }
}

TEST_CASE("a norm's backward may write over the gradient it reads") {
  Stream s(kTestDevice);
  for (const DType dtype : {DType::kF32, DType::kF64}) {
    Memory m(dtype, kTestDevice);
    const std::int64_t n = 67, c = 9;
    const Tensor x = m.normal("x", {n, c}), w = m.normal("w", {c}), dy = m.normal("dy", {n, c}), y = m.zeros({n, c});
    const Tensor same = m.normal("dy", {n, c}), dx = m.zeros({n, c}), mean = m.zeros({n}), rstd = m.zeros({n});
    const Tensor dw = m.zeros({c}), db = m.zeros({c}), dw_again = m.zeros({c}), db_again = m.zeros({c});
    rmsnorm_forward(s, y, rstd, x, w, 1e-5);
    rmsnorm_backward(s, dx, dw, dy, x, rstd, w, {});
    rmsnorm_backward(s, same, dw_again, same, x, rstd, w, {});
    s.wait();
    CHECK((values(same) == values(dx) && values(dw_again) == values(dw)));
    layernorm_forward(s, y, mean, rstd, x, w, w, 1e-5);
    layernorm_backward(s, dx, dw, db, dy, x, mean, rstd, w, {});
    layernorm_backward(s, dy, dw_again, db_again, dy, x, mean, rstd, w, {});
    s.wait();
    CHECK((values(dy) == values(dx) && values(dw_again) == values(dw) && values(db_again) == values(db)));
  }
}

TEST_CASE("putting columns leaves the others as they are") {
  Stream s;
  Memory m;
  const Tensor x = m.normal("x", {5, 7}), y = m.normal("y", {5, 3});
  std::vector<double> wanted = values(x);
  for (std::size_t i = 0; i < 5; ++i)
    std::copy_n(values(y).begin() + static_cast<std::ptrdiff_t>(3 * i), 3,
                wanted.begin() + static_cast<std::ptrdiff_t>(7 * i + 2));
  put_columns(s, x, y, 2);
  CHECK(values(x) == wanted);
  CHECK_THROWS_WITH(put_columns(s, x, y, 5), "put_columns: columns 5 to 8 of 7");
}
