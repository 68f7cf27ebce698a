// A step is one whole, however it is computed: cut into micro-batches, with any places left without a target.
#include <cmath>
#include <map>

#include "kernels/reduce.h"
#include "probes/probe_set.h"
#include "tests/catch.h"
#include "tests/golden.h"
#include "tests/memory.h"
#include "train/config_file.h"

using namespace nascent;
using namespace nascent::test;

namespace {

constexpr std::int64_t kSequences = 8, kLength = 9;

struct StepOutcome {
  double loss = 0;
  std::map<std::string, std::vector<double>> gradients;
  Records records;
};

// One batch of eight sequences in micro-batches of `size`, measured with everything on.
StepOutcome step_of(const TransformerSpec& spec, DType dtype, View inputs, View targets, std::int64_t size) {
  ProbeSet probes;
  ConfigReader reader({"probes.taps=[\"*\"]", "probes.rank=4", "probes.detail=[\"every 1\"]", "probes.edges=1,4,10",
                       "probes.gradient_energy.controls=9"});
  probes.settings(reader);
  Stream s;
  Transformer model(spec, dtype);
  RunFacts facts;
  facts.dtype = dtype;
  facts.batch = kSequences;
  facts.sequence = kLength;
  facts.steps = 10;
  facts.norm = {true, true, spec.norm_eps};
  for (std::int64_t v = 0; v < spec.vocab; ++v) facts.counts.push_back(1000 / (v + 1));
  probes.plan(model.taps(), facts);
  probes.allocate();
  model.plan(size, kLength, true, &probes);
  randomize(model.parameters());
  model.parameters().zero_gradients();

  std::int64_t counted = 0;
  for (std::int64_t i = 0; i < targets.size(); ++i) counted += targets.data<std::int32_t>()[i] != kIgnored;
  StepOutcome outcome;
  probes.begin_step(0, inputs, targets);
  for (std::int64_t first = 0; first < kSequences; first += size) {
    model.forward(s, inputs.slice(first, size));
    double losses = 0;
    sum(s, Tensor(&losses, DType::kF64, {1}),
        model.backward(s, targets.slice(first, size), 1 / static_cast<double>(counted)));
    outcome.loss += losses / static_cast<double>(counted);
  }
  probes.finish(s, model.parameters(), outcome.loss);
  outcome.records = probes.records();
  for (const Parameter& p : model.parameters()) outcome.gradients[p.name] = values(p.grad);
  return outcome;
}

// What float leaves of an exact zero is another number each time.
double margin_of(const Record& r) {
  if (r.key.starts_with("angle")) return 0.1;  // degrees, between equal spaces
  return 1e-5;
}

}  // namespace

TEST_CASE("1x8, 2x4 and 8x1 micro-batches with unequal counted targets have one gradient and one set of records") {
  for (const TransformerSpec& spec : tiny_specs()) {
    INFO(spec.family);
    Memory m(DType::kF64);
    const Tensor inputs = m.ids("inputs", {kSequences, kLength}, spec.vocab),
                 targets = m.ids("targets", {kSequences, kLength}, spec.vocab);
    // Sequence i has i + 1 targets, sequence 3 none at all.
    for (std::int64_t i = 0; i < kSequences; ++i) {
      for (std::int64_t t = i == 3 ? 0 : i + 1; t < kLength; ++t)
        targets.data<std::int32_t>()[i * kLength + t] = kIgnored;
    }
    const StepOutcome whole = step_of(spec, DType::kF32, inputs, targets, 8);
    CHECK(whole.records.size() > 1000);
    double square = 0, count = 0;
    for (const auto& [parameter, g] : whole.gradients) {
      square += rms(g) * rms(g) * static_cast<double>(g.size());
      count += static_cast<double>(g.size());
    }
    for (const std::int64_t size : {4, 2, 1}) {
      INFO("micro-batches of " << size);
      const StepOutcome cut = step_of(spec, DType::kF32, inputs, targets, size);
      CHECK(cut.loss == Approx(whole.loss).epsilon(1e-6));
      for (const auto& [parameter, g] : whole.gradients) {
        INFO(parameter);
        CHECK(gradient_error(cut.gradients.at(parameter), g, std::sqrt(square / count)) <= 1e-6);
      }
      REQUIRE(cut.records.size() == whole.records.size());
      std::size_t compared = 0;
      for (std::size_t i = 0; i < whole.records.size(); ++i) {
        const Record &a = whole.records[i], &b = cut.records[i];
        INFO(a.probe << "/" << a.key << "{" << a.labels << "}/" << a.tap);
        REQUIRE((a.probe == b.probe && a.tap == b.tap && a.key == b.key && a.labels == b.labels && a.n == b.n));
        if (a.key == "seconds") continue;
        CHECK(a.value.has_value() == b.value.has_value());
        if (!a.value || !b.value) continue;
        CHECK(*b.value == Approx(*a.value).epsilon(1e-4).margin(margin_of(a)));
        ++compared;
      }
      CHECK(compared > 1000);
    }
  }
}

TEST_CASE("losses by position, weighted by their counts, add up to the step's loss") {
  const TransformerSpec spec = tiny_specs().front();
  Memory m(DType::kF64);
  const Tensor inputs = m.ids("inputs", {kSequences, kLength}, spec.vocab),
               targets = m.ids("targets", {kSequences, kLength}, spec.vocab);
  for (std::int64_t i = 0; i < 24; ++i) targets.data<std::int32_t>()[i * 3] = kIgnored;
  const StepOutcome outcome = step_of(spec, DType::kF64, inputs, targets, 2);
  double sum = 0;
  std::int64_t count = 0;
  for (const Record& r : outcome.records) {
    if (r.key != "loss_by_position" || !r.value) continue;
    sum += *r.value * static_cast<double>(*r.n);
    count += *r.n;
  }
  CHECK(count == kSequences * kLength - 24);
  CHECK(sum / static_cast<double>(count) == Approx(outcome.loss).epsilon(1e-12));
}
