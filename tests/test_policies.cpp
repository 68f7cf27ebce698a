// What a run does with a loss or gradient that is not finite, with a batch without targets, and with --check-nan.
#include <algorithm>
#include <cmath>
#include <limits>

#include "data/order.h"
#include "kernels/add.h"
#include "tests/catch.h"
#include "tests/errors.h"
#include "tests/golden.h"
#include "tests/small_run.h"
#include "train/verdict.h"

using namespace nascent;
using namespace nascent::test;

namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN(), kInfinity = std::numeric_limits<double>::infinity();

// The token embeddings: with every row at the edge of float a forward overflows, though every weight is finite.
class Overflow {
 public:
  explicit Overflow(const Trainer& trainer)
      : table_(trainer.model().parameters().find("transformer.wte.weight")->value) {
    before_ = values(table_);
    for (std::int64_t i = 0; i < table_.size(); ++i) Memory::set(table_, i, 3e38);
  }
  ~Overflow() { set_values(table_, before_); }
  Overflow(const Overflow&) = delete;
  Overflow& operator=(const Overflow&) = delete;

 private:
  Tensor table_;
  std::vector<double> before_;
};

std::map<std::string, std::vector<double>> weights_of(const Trainer& trainer) {
  std::map<std::string, std::vector<double>> weights;
  for (const Parameter& p : trainer.model().parameters()) weights[p.name] = values(p.value);
  return weights;
}

struct Run {
  explicit Run(const Config& config, bool with_probes = false) {
    configure(probes, with_probes ? kEverything : kNoProbes);
    trainer = std::make_unique<Trainer>(config, probes, "", true);
  }
  ProbeSet probes;
  std::unique_ptr<Trainer> trainer;
};

Config skipping(const std::string& name) {
  Config config = small_config(name);
  config.train.not_finite = "skip";
  return config;
}

}  // namespace

TEST_CASE("a step has an update only with targets, a finite loss and a finite gradient") {
  CHECK(verdict_of(5, 1.5, 0) == Verdict::kUpdate);
  CHECK(verdict_of(5, kNan, 1) == Verdict::kNotFinite);
  CHECK(verdict_of(5, kInfinity, 1) == Verdict::kNotFinite);
  CHECK(verdict_of(5, 1.5, kNan) == Verdict::kNotFinite);
  CHECK(verdict_of(5, 1.5, kInfinity) == Verdict::kNotFinite);
  CHECK(verdict_of(0, kNan, 0) == Verdict::kNoTarget);
  CHECK(verdict_of(0, kNan, kNan) == Verdict::kNotFinite);  // weights are broken, whatever the batch
}

TEST_CASE("a skipped step counts, but leaves weights, moments, their number and the probes' bases as they were") {
  const RunPlace place;
  Config config = skipping("skip");
  config.optimizer.clip = 0;
  Run run(config, true);
  Trainer& trainer = *run.trainer;
  for (int i = 0; i < 2; ++i) trainer.step();
  const auto before = weights_of(trainer);
  {
    const Overflow overflow(trainer);
    CHECK(std::isnan(trainer.step().loss));
  }
  CHECK(weights_of(trainer) == before);
  CHECK(trainer.steps_done() == 3);
  CHECK(trainer.optimizer().updates() == 2);
  for (const auto& [name, matrix] : run.probes.state()) {
    INFO(name);
    CHECK(std::ranges::all_of(matrix.data, [](double x) { return std::isfinite(x); }));
  }
  for (int i = 0; i < 2; ++i) trainer.step();
  CHECK(trainer.optimizer().updates() == 4);

  const MetricsDb& metrics = trainer.metrics();
  CHECK((std::isnan(metrics.step(2)->lr) && std::isnan(metrics.step(2)->clip) && std::isnan(metrics.step(2)->loss)));
  CHECK((metrics.step(3)->lr > metrics.step(1)->lr && std::isfinite(metrics.step(3)->loss)));
  CHECK(metrics.without_update() == 1);
  CHECK(metrics.without_update_up_to(1) == 0);
  CHECK(metrics.without_update_up_to(2) == 1);
  CHECK(metrics.without_update_up_to(4) == 0);
  CHECK_FALSE(metrics.value(2, "norms", "transformer.wte.weight", "update_ratio"));
  CHECK(metrics.value(3, "gradient_energy", "blocks.1.resid_post", "share", "basis=init"));
  CHECK(metrics.events("stopped").empty());

  // The same four updates by an optimizer that never heard of the skipped one: numbers 1 to 4, the data of steps 0, 1,
  // 3 and 4 and their rates.
  const TokenFile file("tokens");
  const TokenStream stream(file, split_documents(file.documents(), config.data.heldout).train);
  const Windows windows(stream, 17);
  const SampleOrder order(windows.count(), 1);
  Transformer model(config.spec(0), DType::kF32);
  model.parameters().initialize(1);
  model.plan(6, 17, true, nullptr);
  Optimizer optimizer(model.parameters(), false);
  Stream s;
  Memory m;
  const Tensor inputs = m.zeros({6, 17}, DType::kI32), targets = m.zeros({6, 17}, DType::kI32);
  const auto load = [&](std::int64_t step) {
    std::string names;
    for (std::int64_t i = 0; i < 6; ++i) {
      const std::uint64_t window = order.at(static_cast<std::uint64_t>(6 * step + i));
      windows.fill(window, {inputs.data<std::int32_t>() + 17 * i, 17}, {targets.data<std::int32_t>() + 17 * i, 17});
      names += fmt::format("{}{} (begins in document {})", i ? ", " : "", window, windows.document_of(window));
    }
    return names;
  };
  for (const std::int64_t step : {0, 1, 3, 4}) {
    load(step);
    model.parameters().zero_gradients();
    model.forward(s, inputs);
    model.backward(s, targets, 1.0 / (6 * 17));
    const auto& o = config.optimizer;
    optimizer.update(s, {learning_rate(o.lr, config.schedule, step, 50), o.beta1, o.beta2, o.eps, o.weight_decay, 1, 0},
                     {});
  }
  for (const Parameter& p : model.parameters()) {
    INFO(p.name);
    CHECK(values(p.value) == weights_of(trainer).at(p.name));
  }
  // The event says which text it was.
  REQUIRE(metrics.events("not_finite").size() == 1);
  CHECK(metrics.events("not_finite")[0] ==
        "loss is nan, norm of the gradient nan; expected finite numbers; samples 12 to 17 of the order: windows " +
            load(2));
}

TEST_CASE("the document of a window is the one that its first token lies in, by its number in the file") {
  const RunPlace place;
  const TokenFile file("tokens");  // 40 documents of 97 tokens
  const TokenStream stream(file, {3, 7, 8});
  const Windows windows(stream, 17);
  CHECK(windows.document_of(0) == 3);
  CHECK(windows.document_of(5) == 3);   // begins at token 85
  CHECK(windows.document_of(6) == 7);   // at 102
  CHECK(windows.document_of(11) == 7);  // at 187
  CHECK(windows.document_of(12) == 8);  // at 204
}

TEST_CASE("abort ends the run at the first such step and names its batch, the weights unchanged") {
  const RunPlace place;
  Run run(small_config("abort"));
  Trainer& trainer = *run.trainer;
  trainer.step();
  const auto before = weights_of(trainer);
  Failure failure;
  {
    const Overflow overflow(trainer);
    failure = failure_of([&] { trainer.step(); });
  }
  CHECK(failure.exit_code == 1);
  CHECK(
      failure.says("step 1: loss is nan, norm of the gradient nan; expected finite numbers. The weights are those "
                   "before this step; the last checkpoint is in runs/abort/checkpoints, the batch in "
                   "runs/abort/metrics.db, events"));
  CHECK(weights_of(trainer) == before);
  CHECK(trainer.optimizer().updates() == 1);
  REQUIRE(trainer.metrics().events("not_finite").size() == 1);
  CHECK(trainer.metrics().events("not_finite")[0].find("samples 6 to 11 of the order: windows ") != std::string::npos);
  CHECK(trainer.metrics().events("stopped").size() == 1);
}

TEST_CASE("skipping ends after train.most_skips steps in a row, and at once where the weights are not finite") {
  const RunPlace place;
  Config config = skipping("limit");
  config.train.most_skips = 3;
  Run run(config);
  Trainer& trainer = *run.trainer;
  {
    const Overflow overflow(trainer);
    for (int i = 0; i < 2; ++i) trainer.step();
  }
  trainer.step();  // the count begins anew
  {
    const Overflow overflow(trainer);
    for (int i = 0; i < 2; ++i) trainer.step();
    const Failure failure = failure_of([&] { trainer.step(); });
    CHECK(failure.exit_code == 1);
    CHECK(failure.says("step 5: "));
    CHECK(failure.says("This is step 3 in a row without an update (train.most_skips)"));
  }
  CHECK(trainer.metrics().without_update() == 5);

  Run broken(skipping("broken"));
  broken.trainer->step();
  Memory::set(broken.trainer->model().parameters().find("transformer.h.0.ln_1.bias")->value, 3, kNan);
  const Failure failure = failure_of([&] { broken.trainer->step(); });
  CHECK(failure.exit_code == 1);
  CHECK(failure.says("The weights themselves are not finite, so no other batch can help"));
}

TEST_CASE("a micro-batch without targets adds nothing to the step's gradient, and a step of such has gradient 0") {
  for (const TransformerSpec& spec : tiny_specs()) {
    Transformer model(spec, DType::kF64);
    randomize(model.parameters());
    model.plan(2, 7, true, nullptr);
    Stream s;
    Memory m;
    const Tensor tokens = m.ids("tokens", {2, 7}, 11), targets = m.ids("targets", {2, 7}, 11);
    const Tensor none = m.zeros({2, 7}, DType::kI32);
    std::fill_n(none.data<std::int32_t>(), 14, kIgnored);
    const auto gradients = [&](const std::vector<View>& micro_batches, double scale) {
      std::vector<double> all;
      model.parameters().zero_gradients();
      for (const View& t : micro_batches) {
        model.forward(s, tokens);
        model.backward(s, t, scale);
      }
      for (const Parameter& p : model.parameters()) {
        const auto one = values(p.grad);
        all.insert(all.end(), one.begin(), one.end());
      }
      return all;
    };
    const std::vector<double> alone = gradients({targets}, 1.0 / 14);
    CHECK(gradients({none, targets}, 1.0 / 14) == alone);
    CHECK(gradients({targets, none}, 1.0 / 14) == alone);
    CHECK(rms(alone) > 0);
    CHECK(rms(gradients({none, none}, 0)) == 0);
  }
}

TEST_CASE("an op that checks names the argument and the place of what it was given, or of what it made") {
  Stream s;
  Memory m(DType::kF32);
  const Tensor a = m.normal("a", {2, 3}), b = m.normal("b", {2, 3}), y = m.zeros({2, 3});
  Memory::set(a, 5, kNan);
  add_forward(s, y, a, b);  // nobody asked
  s.check_finite(true);
  CHECK(failure_of([&] { add_forward(s, y, a, b); }).message ==
        "add_forward was given nan in a at (1, 2) of shape (2, 3)");
  CHECK(failure_of([&] { add_forward(s, y, b, a); }).message ==
        "add_forward was given nan in b at (1, 2) of shape (2, 3)");
  Memory::set(a, 5, -3e38);
  Memory::set(b, 5, -3e38);
  s.enter_step(4);
  s.enter("blocks", 1);
  const Failure made = failure_of([&] { add_forward(s, y, a, b); });
  CHECK(made.message == "step 4, blocks.1: add_forward made -inf in y at (1, 2) of shape (2, 3)");
  CHECK(made.exit_code == 1);
  Memory::set(b, 5, 1);
  add_forward(s, y, a, b);
}

TEST_CASE("a search for what is not finite finds the first, beyond runs that are, in both precisions") {
  for (const DType dtype : {DType::kF32, DType::kF64}) {
    Memory m(dtype);
    const Tensor x = m.normal("x", {3, 33, 1000});
    CHECK(first_not_finite(x) == -1);
    for (const std::int64_t at : {98999, 4096, 4095, 33, 0}) {
      Memory::set(x, at, at % 2 ? kNan : -kInfinity);
      CHECK(first_not_finite(x) == at);
    }
  }
  CHECK(first_not_finite({}) == -1);
}

TEST_CASE("checked runs raise no false alarm and have the same weights to the bit, in every kind of block") {
  const RunPlace place;
  for (const std::string& family : family_names()) {
    for (const char* precision : {"fp32", "fp64"}) {
      INFO(family << " " << precision);
      Config config = small_config("checked");
      config.model.family = family;
      config.precision = precision;
      config.train.micro_batch = 3;
      config.eval.at = {"every 2"};
      config.eval.sequences = 7;
      const auto weights = [&](bool checked) {
        Run run(config, true);
        if (checked) run.trainer->check_finite();
        for (int i = 0; i < 3; ++i) run.trainer->step();
        return weights_of(*run.trainer);
      };
      CHECK(weights(true) == weights(false));
    }
  }
}

TEST_CASE("a NaN planted in a weight of a middle block is named with the op it meets first") {
  const RunPlace place;
  Config config = small_config("planted");
  config.model.layers = 3;
  struct Planted {
    const char *parameter, *op;
  };
  for (const Planted& planted : {Planted{"transformer.h.1.mlp.c_fc.weight", "linear_forward was given nan in w"},
                                 Planted{"transformer.h.1.attn.c_attn.bias", "linear_forward was given nan in b"},
                                 Planted{"transformer.h.1.ln_2.weight", "layernorm_forward was given nan in w"}}) {
    Run run(config, true);
    run.trainer->check_finite();
    run.trainer->step();
    Memory::set(run.trainer->model().parameters().find(planted.parameter)->value, 5, kNan);
    const Failure failure = failure_of([&] { run.trainer->step(); });
    INFO(failure.message);
    CHECK(failure.exit_code == 1);
    CHECK(failure.says(std::string("step 1, blocks.1: ") + planted.op));
  }
  // What overflows is named where it does.
  Run run(config);
  run.trainer->check_finite();
  const Overflow overflow(*run.trainer);
  const Failure failure = failure_of([&] { run.trainer->step(); });
  INFO(failure.message);
  CHECK(failure.says("step 0, blocks.0: layernorm_forward made nan in y at (0, 0, 0)"));
}
