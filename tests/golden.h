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
  Memory memory(file.dtype());
  const Tensor ours = memory.zeros(p.value.shape());
  from_file(ours, file, p.layout);
  return values(ours);
}

inline void set_values(const Tensor& t, const std::vector<double>& v) {
  for (std::int64_t i = 0; i < t.size(); ++i) Memory::set(t, i, v[static_cast<std::size_t>(i)]);
}

// Every golden model: tests/golden/make_gpt2.py, make_gpt_neox.py and make_llama.py.
inline const std::vector<std::string>& golden_files() {
  static const std::vector<std::string> files = {
      "gpt2_tanh.safetensors",           "gpt2_erf.safetensors",      "gpt_neox_parallel.safetensors",
      "gpt_neox_sequential.safetensors", "gpt_neox_tied.safetensors", "llama_grouped.safetensors",
      "llama_tied.safetensors",          "olmo_clipped.safetensors",  "olmo2_grouped.safetensors"};
  return files;
}

inline TransformerSpec golden_spec(const SafetensorsFile& file) {
  const auto text = [&](const char* key) { return file.metadata().at(key); };
  const auto has = [&](const char* key) { return file.metadata().contains(key); };
  const bool neox = has("rotary_pct");
  const std::string family = has("family") ? text("family") : neox ? "pythia" : "gpt2";
  TransformerSpec spec = family_of(family).base;
  spec.family = family;
  spec.vocab = std::stoll(text("vocab_size"));
  spec.context = std::stoll(text("n_positions"));
  spec.width = std::stoll(text("n_embd"));
  spec.layers = std::stoll(text("n_layer"));
  spec.heads = std::stoll(text("n_head"));
  spec.hidden = std::stoll(text("n_inner"));
  const std::string activation = text("activation_function");
  if (!spec.gated()) spec.activation = activation == "gelu" ? Activation::kGeluErf : Activation::kGeluTanh;
  spec.norm_eps = std::stod(text("layer_norm_epsilon"));
  if (neox) {
    spec.rotary_fraction = std::stod(text("rotary_pct"));
    spec.parallel = text("use_parallel_residual") == "true";
  }
  if (has("rotary_base")) spec.rotary_base = std::stod(text("rotary_base"));
  if (has("tie_word_embeddings")) spec.tied = text("tie_word_embeddings") == "true";
  if (has("key_value_heads")) spec.key_value_heads = std::stoll(text("key_value_heads"));
  if (has("clip_qkv")) spec.clip_qkv = std::stod(text("clip_qkv"));
  return spec;
}

// A parameter's tensor in a golden file, such as "grad:transformer.wte.weight".
inline View golden_tensor(SafetensorsFile& file, const std::string& kind, const Parameter& p) {
  return file.at(kind + (file.has(kind + p.name) ? p.name : p.alias));
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
// One of each block shape there is.
inline std::vector<TransformerSpec> tiny_specs() {
  std::vector<TransformerSpec> specs = {tiny_spec(), tiny_spec(Activation::kGeluErf)};
  for (const auto& [parallel, tied] : {std::pair(true, false), std::pair(false, false), std::pair(true, true)}) {
    TransformerSpec spec = family_of("pythia").base;
    const TransformerSpec sizes = tiny_spec();
    spec.family = "pythia";
    spec.vocab = sizes.vocab;
    spec.context = sizes.context;
    spec.width = 12;
    spec.layers = sizes.layers;
    spec.heads = sizes.heads;
    spec.hidden = sizes.hidden;
    spec.rotary_fraction = 0.7;  // 4 of 6
    spec.parallel = parallel;
    spec.tied = tied;
    specs.push_back(spec);
  }
  for (const char* family : {"llama", "olmo", "olmo2"}) {
    TransformerSpec spec = family_of(family).base;
    const TransformerSpec sizes = tiny_spec();
    spec.family = family;
    spec.vocab = sizes.vocab;
    spec.context = sizes.context;
    spec.width = 12;
    spec.layers = sizes.layers;
    spec.heads = 6;
    spec.key_value_heads = 2;
    spec.hidden = 7;
    spec.norm_eps = 0.02;
    spec.rotary_base = 50;
    if (spec.family == "olmo") {
      spec.tied = true;
      spec.clip_qkv = 0.9;
    }
    specs.push_back(spec);
  }
  return specs;
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
