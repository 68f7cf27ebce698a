// Whole runs: what may not change a bit, and what a run leaves behind.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <limits>

#include "data/file.h"
#include "data/order.h"
#include "data/safetensors.h"
#include "model/hugging_face.h"
#include "tests/catch.h"
#include "tests/errors.h"
#include "tests/golden.h"
#include "tests/small_run.h"
#include "tests/temporary.h"
#include "train/evaluate.h"

using namespace nascent;
using namespace nascent::test;

namespace {

struct Outcome {
  std::map<std::string, std::vector<double>> weights;
  std::vector<double> losses;
};

Outcome run(Config config, bool with_probes) {
  ProbeSet probes;
  // Every tap at every step, in detail at some.
  configure(probes, with_probes ? std::vector<std::string>{"probes.taps=[\"*\"]", "probes.rank=5"} : kNoProbes);
  Trainer trainer(config, probes, "", true);
  Outcome outcome;
  for (std::int64_t i = 0; i < config.train.steps; ++i) outcome.losses.push_back(trainer.step().loss);
  for (const Parameter& p : trainer.model().parameters()) outcome.weights[p.name] = values(p.value);
  return outcome;
}

}  // namespace

TEST_CASE("50 steps give the same bits with probes off, with every probe at every tap and step, and again", "[long]") {
  const RunPlace place;
  const Outcome off = run(small_config("off"), false), on = run(small_config("on"), true),
                again = run(small_config("again"), true);
  CHECK(off.weights == on.weights);
  CHECK(off.losses == on.losses);
  CHECK(on.weights == again.weights);
  CHECK(on.losses == again.losses);
  // The run learns, so equality is no accident of weights that do not move.
  CHECK(off.losses.back() < off.losses.front() - 0.3);
}

TEST_CASE("records of two runs are the same, but for the seconds, on one thread and on three", "[threads]") {
  const RunPlace place;
  Config config = small_config("a");
  config.threads = GENERATE(1, 3);
  config.train.steps = 3;
  std::vector<Records> records;
  for (const char* name : {"a", "b"}) {
    config.name = name;
    ProbeSet probes;
    configure(probes, kEverything);
    Trainer trainer(config, probes, "", true);
    for (int i = 0; i < 3; ++i) trainer.step();
    records.push_back(probes.records());
  }
  REQUIRE(records[0].size() == records[1].size());
  CHECK(records[0].size() > 500);
  for (std::size_t i = 0; i < records[0].size(); ++i) {
    const Record &a = records[0][i], &b = records[1][i];
    if (a.key == "seconds") continue;
    INFO(a.probe << "/" << a.key << "{" << a.labels << "}/" << a.tap);
    CHECK((a.probe == b.probe && a.tap == b.tap && a.key == b.key && a.labels == b.labels && a.n == b.n));
    CHECK(a.value == b.value);
  }
}

TEST_CASE("one step in one, two or six micro-batches has one loss, one update and one set of records") {
  const RunPlace place;
  std::vector<Outcome> outcomes;
  std::vector<Records> records;
  for (const std::int64_t size : {6, 3, 1}) {
    Config config = small_config("micro");
    config.train.steps = 1;
    config.train.micro_batch = size;
    ProbeSet probes;
    configure(probes, kEverything);
    Trainer trainer(config, probes, "", true);
    const double loss = trainer.step().loss;
    records.push_back(probes.records());
    outcomes.push_back({{}, {loss}});
    for (const Parameter& p : trainer.model().parameters()) outcomes.back().weights[p.name] = values(p.grad);
  }
  for (std::size_t i = 1; i < outcomes.size(); ++i) {
    CHECK(outcomes[i].losses[0] == Approx(outcomes[0].losses[0]).epsilon(1e-6));
    double square = 0, count = 0;
    for (const auto& [name, g] : outcomes[0].weights)
      square += rms(g) * rms(g) * static_cast<double>(g.size()), count += static_cast<double>(g.size());
    for (const auto& [name, g] : outcomes[0].weights) {
      INFO(name);
      CHECK(gradient_error(outcomes[i].weights[name], g, std::sqrt(square / count)) <= 1e-5);
    }
    REQUIRE(records[i].size() == records[0].size());
    for (std::size_t j = 0; j < records[0].size(); ++j) {
      const Record &a = records[0][j], &b = records[i][j];
      if (a.key == "seconds" || !a.value) continue;
      INFO(a.probe << "/" << a.key << "{" << a.labels << "}/" << a.tap);
      REQUIRE(b.value);
      // Angles between equal spaces are rounding's own; cosines near 0 are differences of large sums.
      CHECK(*b.value == Approx(*a.value).epsilon(1e-4).margin(a.key.starts_with("angle") ? 0.1 : 1e-5));
    }
  }
}

TEST_CASE("learning rates: never 0, warm-up reaches the peak, cosine and wsd end at the floor") {
  Config::LearningRate s;
  s.warmup = 10;
  s.floor = 0.1;
  CHECK(learning_rate(1, s, 0, 100) == Approx(0.1));
  CHECK(learning_rate(1, s, 9, 100) == Approx(1.0));
  CHECK(learning_rate(1, s, 10, 100) == Approx(1.0));
  CHECK(learning_rate(1, s, 55, 100) == Approx(0.55));
  CHECK(learning_rate(1, s, 99, 100) == Approx(0.1).epsilon(0.01));
  s.kind = "wsd";
  s.decay = 0.2;
  CHECK(learning_rate(1, s, 79, 100) == Approx(1.0));
  CHECK(learning_rate(1, s, 80, 100) < 1);
  CHECK(learning_rate(1, s, 99, 100) > 0.1);
  CHECK(learning_rate(1, s, 99, 100) < 0.2);
  s.kind = "constant";
  CHECK(learning_rate(1, s, 99, 100) == 1);
  s.warmup = 0;
  CHECK(learning_rate(1, s, 0, 100) == 1);
}

TEST_CASE("weights come of seed.init alone, the order of samples of seed.data alone") {
  const RunPlace place;
  const auto first_loss_and_weights = [](std::int64_t init, std::int64_t data) {
    Config config = small_config("seeds");
    config.train.steps = 1;
    config.optimizer.lr = 0;
    config.seed.init = init;
    config.seed.data = data;
    const Outcome outcome = run(config, false);
    return std::pair(outcome.losses, outcome.weights);
  };
  const auto [loss, weights] = first_loss_and_weights(1, 1);
  const auto [of_data, same_weights] = first_loss_and_weights(1, 2);
  const auto [of_init, other_weights] = first_loss_and_weights(2, 1);
  CHECK(same_weights == weights);
  CHECK(of_data != loss);
  CHECK(other_weights != weights);
}

TEST_CASE("model keys are the model's sizes and activation") {
  Config config = small_config("sizes");
  config.model.context = 33;
  config.model.hidden = 40;
  config.model.activation = "gelu_erf";
  const TransformerSpec spec = config.spec(0);
  CHECK((spec.vocab == 50 && spec.context == 33 && spec.width == 24 && spec.layers == 2 && spec.heads == 3));
  CHECK(spec.hidden == 40);
  CHECK(spec.activation == Activation::kGeluErf);
  CHECK(small_config("defaults").spec(0).hidden == 4 * 24);
  CHECK(small_config("defaults").spec(0).activation == Activation::kGeluTanh);
}

TEST_CASE("a run leaves its step 0 as initialized, its last checkpoint, and its records") {
  const RunPlace place;
  Config config = small_config("left");
  config.train.steps = 5;
  config.checkpoints.at = {"pythia"};
  ProbeSet probes;
  configure(probes, kEverything);
  Trainer trainer(config, probes, "", true);
  std::vector<double> losses;
  for (int i = 0; i < 5; ++i) losses.push_back(trainer.step().loss);
  CHECK(trainer.folder().checkpoint_steps() == std::vector<std::int64_t>{0, 1, 2, 4});
  const auto start = load_pretrained(trainer.folder().checkpoint(0)),
             first = load_pretrained(trainer.folder().checkpoint(1));
  Transformer fresh(config.spec(0), DType::kF32);
  fresh.parameters().initialize(1);
  for (const Parameter& p : fresh.parameters()) {
    INFO(p.name);
    CHECK(values(start->parameters().find(p.name)->value) == values(p.value));
  }
  // The first update moves the weights: its learning rate is above 0.
  CHECK(values(first->parameters().find("transformer.wte.weight")->value) !=
        values(fresh.parameters().find("transformer.wte.weight")->value));

  MetricsDb& metrics = trainer.metrics();
  CHECK(*metrics.last_step() == 4);
  CHECK(metrics.step(0)->loss == losses[0]);
  CHECK(metrics.step(0)->lr == Approx(3e-3 / 5));
  CHECK(metrics.step(3)->targets == 6 * 17);
  CHECK(std::abs(losses[0] - std::log(50.0)) < 0.2);
  const auto share = metrics.value(4, "gradient_energy", "blocks.1.resid_post", "share", "basis=current");
  REQUIRE(share);
  CHECK((*share > 0 && *share < 1));
  CHECK(*metrics.value(0, "gradient_energy", "embed", "chance", "basis=init") == Approx(5.0 / 24));
  // Norms of the parameters' gradients add up to the norm that is clipped.
  double square = 0;
  for (const Parameter& p : fresh.parameters()) square += std::pow(*metrics.value(2, "norms", p.name, "grad_norm"), 2);
  const double clip = metrics.step(2)->clip;
  CHECK(clip == Approx(std::min(1.0, 1 / (std::sqrt(square) + 1e-6))).epsilon(1e-6));
  for (const char* probe : {"statistics", "norms", "gradient_energy"}) CHECK(metrics.value(3, probe, "", "seconds"));
  // The recorded update is what moved the weights from one checkpoint to the next, its moments those of one gradient.
  const std::string name = "transformer.wte.weight";
  const auto before = values(start->parameters().find(name)->value),
             after = values(first->parameters().find(name)->value);
  std::vector<double> moved;
  for (std::size_t i = 0; i < before.size(); ++i) moved.push_back(after[i] - before[i]);
  const auto recorded = [&](const char* key, const char* labels) {
    return *metrics.value(0, "norms", name, key, labels);
  };
  CHECK(recorded("weight_norm", "") == Approx(rms(before) * std::sqrt(before.size())).epsilon(1e-6));
  CHECK(recorded("update_ratio", "") == Approx(rms(moved) / rms(before)).epsilon(1e-5));
  CHECK(recorded("moment_rms", "moment=first") ==
        Approx(0.1 * metrics.step(0)->clip * recorded("grad_norm", "") / std::sqrt(before.size())).epsilon(1e-5));
}

TEST_CASE(
    "a checkpoint folder is what Hugging Face's own files are: names, layout and bits of the golden model, and it "
    "loads again") {
  for (const std::string& name : golden_files()) {
    INFO(name);
    SafetensorsFile golden(golden_path(name));
    Transformer model(golden_spec(golden), DType::kF32);
    for (Parameter& p : model.parameters()) set_values(p.value, in_our_order(p, golden_tensor(golden, "param:", p)));

    const TemporaryFolder folder;
    save_pretrained(folder.path, model);
    SafetensorsFile saved(folder.path / "model.safetensors");
    std::size_t tensors = 0;
    for (const Parameter& p : model.parameters()) {
      INFO(p.name);
      ++tensors;
      CHECK(saved.at(p.name).shape() == golden_tensor(golden, "param:", p).shape());
      CHECK(values(saved.at(p.name)) == values(golden_tensor(golden, "param:", p)));
    }
    CHECK(saved.names().size() == tensors);

    const auto loaded = load_pretrained(folder.path);
    Memory m(DType::kF32);
    Stream s;
    const View tokens = golden.at("tokens");
    const auto logits_of = [&](Transformer& t) {
      t.plan(3, 17, false, nullptr);
      t.forward(s, tokens);
      const Tensor out = m.zeros({51, 61});
      t.logits(s, out, 0);
      return values(out);
    };
    CHECK(logits_of(*loaded) == logits_of(model));
  }
}

TEST_CASE("a checkpoint with a tensor missing, of another shape, or unknown is refused by name") {
  const TemporaryFolder folder;
  Transformer model(tiny_spec(), DType::kF32);
  save_pretrained(folder.path, model);
  SafetensorsFile saved(folder.path / "model.safetensors");
  const auto refuse = [&](const std::string& drop, const std::vector<NamedView>& add) {
    const TemporaryFolder broken;
    std::filesystem::copy_file(folder.path / "config.json", broken.path / "config.json");
    std::vector<NamedView> tensors = add;
    for (const std::string& name : saved.names()) {
      if (name != drop) tensors.push_back({name, saved.at(name)});
    }
    write_safetensors(broken.path / "model.safetensors", tensors);
    try {
      load_pretrained(broken.path);
    } catch (const Error& e) {
      CHECK(e.exit_code() == 2);
      return std::string(e.what());
    }
    return std::string("accepted");
  };
  Memory m(DType::kF32);
  CHECK(refuse("transformer.ln_f.bias", {}).find("no tensor transformer.ln_f.bias, expected one of shape (6)") !=
        std::string::npos);
  CHECK(
      refuse("transformer.ln_f.bias", {{"transformer.ln_f.bias", m.zeros({7})}}).find("has shape (7), expected (6)") !=
      std::string::npos);
  CHECK(refuse("", {{"transformer.h.0.extra", m.zeros({7})}}).find("transformer.h.0.extra belongs to no part") !=
        std::string::npos);
  CHECK(refuse("", {{"transformer.h.0.attn.bias", m.zeros({7})}}) == "accepted");
}

TEST_CASE("a step that is not finite leaves the weights as they were, and its records: what NaN reached is missing") {
  const RunPlace place;
  ProbeSet probes;
  configure(probes, kEverything);
  Trainer trainer(small_config("nan"), probes, "", true);
  trainer.step();
  const Parameters& parameters = trainer.model().parameters();
  parameters.find("transformer.h.1.mlp.c_fc.bias")->value.data<float>()[3] = std::numeric_limits<float>::quiet_NaN();
  const std::vector<double> before = values(parameters.find("transformer.wte.weight")->value);

  const Failure failure = failure_of([&] { trainer.step(); });
  CHECK(failure.exit_code == 1);
  CHECK(failure.says("step 1: loss is nan"));
  CHECK(values(parameters.find("transformer.wte.weight")->value) == before);

  const MetricsDb& metrics = trainer.metrics();
  REQUIRE(metrics.step(1));
  CHECK(std::isnan(metrics.step(1)->loss));
  CHECK(std::isnan(metrics.step(1)->lr));
  CHECK(std::isnan(metrics.step(1)->clip));
  const std::string of = "of=activation";
  CHECK(metrics.value(1, "moments", "blocks.1.resid_mid", "mean_norm", of));
  CHECK_FALSE(metrics.value(1, "moments", "blocks.1.resid_post", "mean_norm", of));
  CHECK(metrics.value(1, "norms", "blocks.0.mlp.post", "dead", ""));
  CHECK_FALSE(metrics.value(1, "norms", "blocks.1.mlp.post", "dead", ""));
  CHECK(metrics.value(1, "gradient_energy", "blocks.1.resid_post", "chance", "basis=init"));
  CHECK_FALSE(metrics.value(1, "gradient_energy", "blocks.1.resid_post", "share", "basis=current"));
  CHECK_FALSE(metrics.value(1, "tangent", "blocks.1.resid_post", "angle_mean", "basis=current,other=init"));
}

TEST_CASE(
    "steps are AdamW, written out here, on the clipped mean gradient of the order's next samples, at each step's "
    "rate") {
  const RunPlace place;
  for (const double largest : {0.0, 0.3}) {
    Config config = small_config("by_hand");
    config.precision = "fp64";
    config.train.batch = 4;
    config.train.micro_batch = 2;
    config.optimizer.clip = largest;
    const auto& o = config.optimizer;
    ProbeSet probes;
    configure(probes, {"probes.on=false"});
    Trainer trainer(config, probes, "", true);

    const TokenFile file("tokens");
    const TokenStream stream(file, split_documents(file.documents(), config.data.heldout).train);
    const Windows windows(stream, 17);
    const SampleOrder order(windows.count(), 1);
    Transformer model(config.spec(0), DType::kF64);
    model.parameters().initialize(1);
    model.plan(4, 17, true, nullptr);
    Stream s;
    Memory m;
    const Tensor inputs = m.zeros({4, 17}, DType::kI32), targets = m.zeros({4, 17}, DType::kI32);
    std::map<std::string, std::vector<double>> first, second;
    for (std::int64_t step = 0; step < 4; ++step) {
      INFO("clip " << largest << ", step " << step);
      trainer.step();
      for (std::int64_t i = 0; i < 4; ++i) {
        windows.fill(order.at(static_cast<std::uint64_t>(4 * step + i)), {inputs.data<std::int32_t>() + 17 * i, 17},
                     {targets.data<std::int32_t>() + 17 * i, 17});
      }
      model.parameters().zero_gradients();
      model.forward(s, inputs);
      model.backward(s, targets, 1.0 / (4 * 17));
      double square = 0;
      for (const Parameter& p : model.parameters()) {
        for (const double g : values(p.grad)) square += g * g;
      }
      REQUIRE(std::sqrt(square) > 0.3);
      const double clip = largest > 0 ? largest / (std::sqrt(square) + 1e-6) : 1;
      const double lr = learning_rate(o.lr, config.schedule, step, config.train.steps);
      const double t = static_cast<double>(step + 1);
      for (const Parameter& p : model.parameters()) {
        auto &a = first[p.name], &b = second[p.name];
        a.resize(static_cast<std::size_t>(p.value.size())), b.resize(a.size());
        const bool matrix = p.value.shape().rank() == 2;  // biases and norms do not decay
        for (std::size_t i = 0; i < a.size(); ++i) {
          const auto at = static_cast<std::int64_t>(i);
          const double g = clip * Memory::get(p.grad, at);
          a[i] = o.beta1 * a[i] + (1 - o.beta1) * g;
          b[i] = o.beta2 * b[i] + (1 - o.beta2) * g * g;
          const double moved =
              a[i] / (1 - std::pow(o.beta1, t)) / (std::sqrt(b[i] / (1 - std::pow(o.beta2, t))) + o.eps);
          const double w = Memory::get(p.value, at);
          Memory::set(p.value, at, w - lr * (matrix ? o.weight_decay : 0) * w - lr * moved);
        }
        INFO(p.name);
        CHECK(gradient_error(values(trainer.model().parameters().find(p.name)->value), values(p.value), 1e-3) <= 1e-9);
      }
      CHECK(trainer.metrics().step(step)->lr == lr);
      CHECK(trainer.metrics().step(step)->clip == Approx(clip));
    }
  }
}

TEST_CASE("the held-out loss is the mean over targets of the held-out windows, whatever the batch, shown to nobody") {
  const RunPlace place;
  Config config = small_config("heldout");
  config.precision = "fp64";
  config.eval.sequences = 5;
  const TokenFile file("tokens");
  const Split split = split_documents(file.documents(), config.data.heldout);
  const TokenStream stream(file, split.heldout);
  const Windows windows(stream, 17);
  const auto count = static_cast<std::int64_t>(windows.count());
  REQUIRE(count % 3 != 0);
  Stream s;
  Memory m;
  const auto model_of = [&](std::int64_t batch, Listener* listener) {
    auto model = std::make_unique<Transformer>(config.spec(0), DType::kF64);
    model->parameters().initialize(1);
    model->plan(batch, 17, false, listener);
    return model;
  };
  const auto one = model_of(1, nullptr);
  std::vector<double> sums{0};  // of the losses of the first windows
  const Tensor inputs = m.zeros({1, 17}, DType::kI32), targets = m.zeros({1, 17}, DType::kI32);
  for (std::int64_t k = 0; k < count; ++k) {
    windows.fill(static_cast<std::uint64_t>(k), {inputs.data<std::int32_t>(), 17}, {targets.data<std::int32_t>(), 17});
    one->forward(s, inputs);
    sums.push_back(sums.back());
    for (const double loss : values(one->losses(s, targets))) sums.back() += loss;
  }
  Recording seen;
  const auto three = model_of(3, &seen);
  for (const std::int64_t sequences : {std::int64_t{0}, std::int64_t{1}, std::int64_t{5}, count + 7}) {
    const std::int64_t n = sequences == 0 ? count : std::min(sequences, count);
    const Evaluation e = evaluate(s, *three, windows, sequences);
    CHECK(e.targets == n * 17);
    CHECK(e.loss == Approx(sums[static_cast<std::size_t>(n)] / static_cast<double>(n * 17)).epsilon(1e-12));
  }
  CHECK(seen.value.empty());

  ProbeSet probes;
  configure(probes, {"probes.on=false"});
  Trainer trainer(config, probes, "", true);
  trainer.step();
  CHECK(*trainer.metrics().value(0, "eval", "", "loss", "split=heldout") == Approx(sums[5] / (5 * 17)).epsilon(1e-12));
}

TEST_CASE("a step whose loss is not finite stops the run and leaves the weights before it") {
  const RunPlace place;
  Config config = small_config("diverges");
  config.schedule.warmup = 0;
  config.optimizer.lr = 1e30;
  ProbeSet probes;
  configure(probes, {"probes.on=false"});
  Trainer trainer(config, probes, "", true);
  trainer.step();
  const auto before = values(trainer.model().parameters().begin()->value);
  const Failure failure = failure_of([&] { trainer.step(); });
  CHECK(failure.exit_code == 1);
  CHECK(failure.says("step 1: loss is "));
  CHECK(values(trainer.model().parameters().begin()->value) == before);
}

TEST_CASE("the init basis is that of step 0 also where no probe reports before a later step") {
  const RunPlace place;
  const auto share_at_2 = [&](const char* schedule, const char* basis) {
    ProbeSet probes;
    std::vector<std::string> keys = kEverything;
    for (const ProbeKind& kind : probe_kinds()) keys.push_back("probes." + kind.name + ".at=[\"" + schedule + "\"]");
    configure(probes, keys);
    Trainer trainer(small_config("late"), probes, "", true);
    for (int i = 0; i < 3; ++i) trainer.step();
    return *trainer.metrics().value(2, "gradient_energy", "blocks.1.resid_post", "share", basis);
  };
  const double late = share_at_2("step 2", "basis=init");
  CHECK(late == share_at_2("every 1", "basis=init"));
  CHECK(late != share_at_2("step 2", "basis=current"));
}

TEST_CASE("a checkpoint whose names lack the prefix \"transformer.\" loads, as some published ones do") {
  const TemporaryFolder folder, bare;
  Transformer model(tiny_spec(), DType::kF32);
  randomize(model.parameters());
  save_pretrained(folder.path, model);
  std::filesystem::copy_file(folder.path / "config.json", bare.path / "config.json");
  SafetensorsFile saved(folder.path / "model.safetensors");
  std::vector<NamedView> tensors;
  for (const std::string& name : saved.names()) tensors.push_back({name.substr(name.find('.') + 1), saved.at(name)});
  write_safetensors(bare.path / "model.safetensors", tensors);
  const auto loaded = load_pretrained(bare.path);
  for (const Parameter& p : model.parameters()) {
    INFO(p.name);
    CHECK(values(loaded->parameters().find(p.name)->value) == values(p.value));
  }
}
