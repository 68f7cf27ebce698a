// An op with data to run it on, and the cases of attention, which two suites share.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "kernels/attention.h"
#include "tests/memory.h"

namespace nascent::test {

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
  bool on_cuda = false;  // whether all kernels of it have a CUDA twin
};

inline Input activation(Memory& m, const char* name, Shape shape, double std = 1) {
  return {name, m.normal(name, shape, std), m.zeros(shape), false};
}
inline Input parameter(Memory& m, const char* name, Shape shape, double std = 1, double mean = 0) {
  return {name, m.normal(name, shape, std, mean), m.zeros(shape), true};
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
inline Tensor documents_of(Memory& m, const AttentionCase& c) {
  return m.filled({c.b, c.t}, DType::kI32, [&](std::uint64_t at) {
    const auto i = static_cast<std::int64_t>(at);
    double number = 0;
    for (const std::int32_t border : c.borders) number += i % c.t >= border - i / c.t;
    return number;
  });
}

inline AttentionMask mask_of(Memory& m, const AttentionCase& c) {
  return {c.causal, c.window, c.borders.empty() ? View() : View(documents_of(m, c))};
}

inline NamedOp attention(const AttentionCase& c) {
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

inline std::vector<AttentionCase> attention_cases() {
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

}  // namespace nascent::test
