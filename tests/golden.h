// A model with the parameters of a golden file, and what it shows at its taps.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "data/safetensors.h"
#include "model/transformer.h"
#include "tests/memory.h"

namespace nascent::test {

inline std::string golden_path(const std::string& name) {
  return std::string(NASCENT_SOURCE_DIR) + "/tests/golden/" + name;
}

// Values of a tensor that a Hugging Face file holds, in the order this program holds them.
inline std::vector<double> in_our_order(const Parameter& p, const View& file) {
  std::vector<double> v = values(file);
  if (!p.transposed) return v;
  const std::int64_t rows = p.value.shape()[0], cols = p.value.shape()[1];
  std::vector<double> turned(v.size());
  for (std::int64_t i = 0; i < rows; ++i) {
    for (std::int64_t j = 0; j < cols; ++j)
      turned[static_cast<std::size_t>(i * cols + j)] = v[static_cast<std::size_t>(j * rows + i)];
  }
  return turned;
}

inline void set_values(const Tensor& t, const std::vector<double>& v) {
  for (std::int64_t i = 0; i < t.size(); ++i) Memory::set(t, i, v[static_cast<std::size_t>(i)]);
}

// Wants every tap and keeps what it is shown, with the addresses.
struct Recording : Listener {
  bool wants(const std::string&) const override { return true; }
  void on_value(Stream&, const Tap& tap, View v) override {
    value[tap.name] = values(v), value_address[tap.name] = v.address();
  }
  void on_grad(Stream&, const Tap& tap, View g) override {
    grad[tap.name] = values(g), grad_address[tap.name] = g.address();
  }
  void on_block(Stream&, std::int64_t, View l, View dl) override {
    const auto a = values(l), b = values(dl);
    logits.insert(logits.end(), a.begin(), a.end());
    dlogits.insert(dlogits.end(), b.begin(), b.end());
  }

  std::map<std::string, std::vector<double>> value, grad;
  std::map<std::string, const void*> value_address, grad_address;
  std::vector<double> logits, dlogits;
};

// A small model with every parameter away from its symmetric start.
inline TransformerSpec tiny_spec(Activation activation = Activation::kGeluTanh) {
  TransformerSpec spec;
  spec.family = "gpt2";
  spec.vocab = 11;
  spec.context = 9;
  spec.width = 6;
  spec.layers = 2;
  spec.heads = 2;
  spec.hidden = 10;
  spec.activation = activation;
  return spec;
}
inline void randomize(Parameters& parameters) {
  for (Parameter& p : parameters) {
    const Random random(3, "test", p.name);
    for (std::int64_t i = 0; i < p.value.size(); ++i) {
      Memory::set(p.value, i, p.constant + 0.3 * random.normal(static_cast<std::uint64_t>(i)));
    }
  }
}

}  // namespace nascent::test
