// Families: presets, initialization, config.json, folders, and training with every probe.
#include <cmath>
#include <map>

#include "data/json.h"
#include "tests/catch.h"
#include "tests/errors.h"
#include "tests/golden.h"
#include "tests/small_run.h"
#include "train/optimizer.h"

using namespace nascent;
using namespace nascent::test;

namespace {

std::unique_ptr<Transformer> golden_model(SafetensorsFile& file, const TransformerSpec& spec) {
  auto model = std::make_unique<Transformer>(spec, DType::kF64);
  for (Parameter& p : model->parameters()) set_values(p.value, in_our_order(p, golden_tensor(file, "param:", p)));
  return model;
}

std::vector<double> logits_of(Transformer& model, const View& tokens) {
  Stream s;
  Memory m(model.parameters().begin()->value.dtype());
  model.plan(tokens.shape()[0], tokens.shape()[1], false, nullptr);
  model.forward(s, tokens);
  const Tensor logits = m.zeros({tokens.size(), model.spec().vocab});
  model.logits(s, logits, 0);
  return values(logits);
}

double largest_difference(const std::vector<double>& a, const std::vector<double>& b) {
  double worst = a.size() == b.size() ? 0 : std::nan("");
  for (std::size_t i = 0; i < a.size() && i < b.size(); ++i) worst = larger(worst, std::abs(a[i] - b[i]));
  return worst;
}

// The rows of every head in the order of pairs that are neighbours, (0, 1), (2, 3), ..., for pairs (i, i + half).
void interleave(const Tensor& weight, std::int64_t head_size) {
  const std::vector<double> w = values(weight);
  const std::int64_t rows = weight.shape()[0], cols = weight.size() / rows, half = head_size / 2;
  for (std::int64_t row = 0; row < rows; ++row) {
    const std::int64_t i = row % head_size, from = row - i + (i % 2 ? half : 0) + i / 2;
    for (std::int64_t j = 0; j < cols; ++j)
      Memory::set(weight, row * cols + j, w[static_cast<std::size_t>(from * cols + j)]);
  }
}

}  // namespace

TEST_CASE("presets have as many parameters as transformers' models of these sizes") {
  const std::map<std::string, std::int64_t> wanted = {{"gpt2 distilgpt2", 81912576},
                                                      {"gpt2 gpt2", 124439808},
                                                      {"gpt2 gpt2-medium", 354823168},
                                                      {"gpt2 gpt2-large", 774030080},
                                                      {"gpt2 gpt2-xl", 1557611200},
                                                      {"pythia 14m", 14067712},
                                                      {"pythia 31m", 30494720},
                                                      {"pythia 70m", 70426624},
                                                      {"pythia 160m", 162322944},
                                                      {"pythia 410m", 405334016},
                                                      {"pythia 1b", 1011781632},
                                                      {"llama smollm2-135m", 134515008},
                                                      {"llama smollm2-360m", 361821120},
                                                      {"llama smollm2-1.7b", 1711376384},
                                                      {"llama gaperon-1.5b", 1498482688},
                                                      {"olmo 1b", 1176764416},
                                                      {"olmo 7b", 6888095744},
                                                      {"olmo2 1b", 1484916736},
                                                      {"olmo2 7b", 7298617344}};
  std::size_t compared = 0;
  for (const std::string name : {"gpt2", "pythia", "llama", "olmo", "olmo2"}) {
    for (const Preset& preset : family_of(name).presets) {
      TransformerSpec spec = preset.spec;
      spec.family = name;
      family_of(name).complete(spec);
      INFO(name << " " << preset.name);
      const Transformer model(spec, DType::kF32, Transformer::Memory::kLater);
      CHECK(model.parameters().count() == wanted.at(name + " " + preset.name));
      ++compared;
    }
  }
  CHECK(compared == wanted.size());
}

TEST_CASE("golden logits need the halves of a head turned, not neighbours, and OLMo 2's norms after, not before") {
  for (const char* name : {"llama_grouped", "llama_tied", "olmo_clipped", "olmo2_grouped"}) {
    INFO(name);
    SafetensorsFile file(golden_path(std::string(name) + ".safetensors"));
    const TransformerSpec spec = golden_spec(file);
    const std::vector<double> wanted = values(file.at("logits"));
    CHECK(largest_difference(logits_of(*golden_model(file, spec), file.at("tokens")), wanted) <= 1e-5);

    const auto neighbours = golden_model(file, spec);
    for (const Parameter& p : neighbours->parameters()) {
      for (const char* turned : {"q_proj.weight", "k_proj.weight", "q_norm.weight", "k_norm.weight"}) {
        if (p.name.ends_with(turned)) interleave(p.value, spec.head_size());
      }
    }
    CHECK(largest_difference(logits_of(*neighbours, file.at("tokens")), wanted) > 0.1);

    TransformerSpec other = spec;
    other.norm_place = spec.norm_place == NormPlace::kPost ? NormPlace::kPre : NormPlace::kPost;
    CHECK(largest_difference(logits_of(*golden_model(file, other), file.at("tokens")), wanted) > 0.1);
    if (spec.clip_qkv > 0 || spec.qk_norm) {
      other = spec;
      other.clip_qkv = 0;
      other.qk_norm = false;
      CHECK(largest_difference(logits_of(*golden_model(file, other), file.at("tokens")), wanted) > 0.1);
    }
  }
}

TEST_CASE("each family draws its weights as its makers do") {
  for (const std::string name : {"gpt2", "pythia", "llama", "olmo", "olmo2"}) {
    TransformerSpec spec = family_of(name).base;
    spec.family = name;
    spec.vocab = 300;
    spec.context = 8;
    spec.width = 64;
    spec.layers = 2;
    spec.heads = 4;
    family_of(name).complete(spec);
    Transformer model(spec, DType::kF32);
    model.parameters().initialize(1);
    const double others = name == "pythia" ? std::sqrt(2 / (5 * 64.0)) : 0.02;
    const double residual = name == "gpt2" ? 0.02 / 2 : name == "pythia" ? 2 / (2 * 8.0) : 0.02;
    for (const Parameter& p : model.parameters()) {
      INFO(name << " " << p.name);
      const auto v = values(p.value);
      if (p.value.shape().rank() == 1) {
        CHECK((rms(v) == (p.name.ends_with("weight") ? 1 : 0) && !p.decay));
        continue;
      }
      CHECK(p.decay);
      const bool writes = p.name.find("o_proj") != std::string::npos || p.name.find("down_proj") != std::string::npos ||
                          p.name.find("c_proj") != std::string::npos || p.name.find(".dense.") != std::string::npos ||
                          p.name.find("4h_to_h") != std::string::npos;
      const double std = writes ? residual : others;
      CHECK(std::abs(rms(v) / std - 1) < 5 / std::sqrt(2.0 * static_cast<double>(v.size())));
    }
  }
}

TEST_CASE("config.json of other versions says the same, and what the model cannot be is refused by name") {
  TransformerSpec spec = tiny_specs().at(5);
  REQUIRE(spec.family == "llama");
  const Family& llama = family_of("llama");
  llama.complete(spec);
  const auto read_with = [&](const std::string& from, const std::string& to) {
    std::string text = llama.to_config(spec).dump();
    REQUIRE(text.find(from) != std::string::npos);
    text.replace(text.find(from), from.size(), to);
    return llama.from_config(JsonObject::parse(text, "some/config.json"));
  };
  // Newer files keep the base of rotary positions in an object.
  const TransformerSpec read =
      read_with("\"rope_theta\": 50.0", "\"rope_parameters\": {\"rope_theta\": 70.5, \"rope_type\": \"default\"}");
  CHECK((read.rotary_base == 70.5 && read.key_value_heads == 2 && read.norm_eps == 0.02));
  CHECK(read_with("\"num_key_value_heads\": 2", "\"num_key_value_heads\": null").groups() == 6);

  struct Refused {
    std::string from, to, words;
  };
  for (const Refused& r : std::vector<Refused>{
           {"\"rope_scaling\": null", "\"rope_scaling\": {\"rope_type\": \"llama3\", \"factor\": 32.0}",
            "rope_scaling.rope_type = \"llama3\" is not supported, expected \"default\""},
           {"\"hidden_size\": 12", "\"hidden_size\": 12, \"head_dim\": 3",
            "head_dim = 3 is not supported, expected hidden_size / num_attention_heads = 2"},
           {"\"attention_bias\": false", "\"attention_bias\": true",
            "attention_bias = true is not supported, expected false"},
           {"\"mlp_bias\": false", "\"mlp_bias\": true", "mlp_bias = true is not supported, expected false"},
           {"\"hidden_act\": \"silu\"", "\"hidden_act\": \"gelu\"", "hidden_act is \"gelu\", expected \"silu\""}}) {
    const Failure failure = failure_of([&] { read_with(r.from, r.to); });
    INFO(r.to << ": " << failure.message);
    CHECK((failure.exit_code == 2 && failure.message == "some/config.json: " + r.words));
  }
}

TEST_CASE("model.* keys that a family has no use for are refused, the others shape the model") {
  Config config = small_config("keys");
  const auto spec_of = [&] { return config.spec(50); };
  config.model.key_value_heads = 3;
  CHECK(failure_of(spec_of).says("model.key_value_heads: family gpt2 has no grouped heads"));
  config.model.key_value_heads = 0;
  config.model.tied = "no";
  CHECK(failure_of(spec_of).says("model.tied: family gpt2 has no output matrix of its own"));
  config.model.tied = "family";
  config.model.rotary_base = 100;
  CHECK(failure_of(spec_of).says("model.rotary_base: family gpt2 has no rotary positions"));
  config.model.family = "llama";
  config.model.tied = "yes";
  config.model.key_value_heads = 1;
  const TransformerSpec spec = spec_of();
  CHECK((spec.tied && spec.key_value_heads == 1 && spec.rotary_base == 100 && spec.hidden == 64));
  config.model.key_value_heads = 2;
  CHECK(failure_of(spec_of).says("model.key_value_heads = 2 does not divide model.heads = 3"));
  config.model.key_value_heads = 0;
  config.model.activation = "gelu_erf";
  CHECK(failure_of(spec_of).says("model.activation: family llama has an MLP with a gate and its own activation"));
}

TEST_CASE("every family overfits four sequences to a loss below 0.05") {
  Memory m(DType::kF32);
  const Tensor ids = m.ids("ids", {4, 18}, 50), tokens = m.ids("tokens", {4, 17}, 50),
               targets = m.ids("targets", {4, 17}, 50);
  for (std::int64_t i = 0; i < 68; ++i) {
    tokens.data<std::int32_t>()[i] = ids.data<std::int32_t>()[i / 17 * 18 + i % 17];
    targets.data<std::int32_t>()[i] = ids.data<std::int32_t>()[i / 17 * 18 + i % 17 + 1];
  }
  for (const std::string& name : family_names()) {
    Config config = small_config(name);
    config.model.family = name;
    if (family_of(name).has("blocks.{}.attn.q.weight")) config.model.key_value_heads = 1;
    Stream s(Device::kCpu, 1);
    Transformer model(config.spec(50), DType::kF32);
    model.parameters().initialize(1);
    model.plan(4, 17, true, nullptr);
    Optimizer optimizer(model.parameters(), false);
    double first = 0, loss = 1;
    std::int64_t step = 0;
    for (; step < 600 && !(loss < 0.05); ++step) {
      model.parameters().zero_gradients();
      model.forward(s, tokens);
      loss = 0;
      for (const double x : values(model.backward(s, targets, 1 / 68.0))) loss += x / 68;
      if (step == 0) first = loss;
      optimizer.update(s, {1e-2, 0.9, 0.95, 1e-8, 0, 1, step + 1}, {});
    }
    INFO(name << ": " << first << " at the start, " << loss << " after " << step << " steps");
    CHECK(first == Approx(std::log(50.0)).epsilon(0.1));
    CHECK(loss < 0.05);
  }
}

TEST_CASE("every family runs with every probe at every tap, and each tap has its records") {
  const RunPlace place;
  for (const std::string& name : family_names()) {
    INFO(name);
    Config config = small_config("family_" + name);
    config.model.family = name;
    if (family_of(name).has("blocks.{}.attn.q.weight")) config.model.key_value_heads = 1;
    ProbeSet probes;
    configure(probes, kEverything);
    Trainer trainer(config, probes, "", true);
    for (int i = 0; i < 3; ++i) trainer.step();
    for (const Tap* tap : trainer.model().taps()) {
      INFO(tap->name);
      const auto share = trainer.metrics().value(2, "gradient_energy", tap->name, "share", "basis=current");
      CHECK((share && *share > 0 && *share <= 1 + 1e-6));
    }
  }
}
