// Probes through whole runs: bases that are born later, the probe set, imported bases, and purity with all of it on.
#include <cmath>
#include <map>

#include "data/probe_sequences.h"
#include "data/safetensors.h"
#include "tests/catch.h"
#include "tests/errors.h"
#include "tests/memory.h"
#include "tests/small_run.h"
#include "train/trainer.h"

using namespace nascent;
using namespace nascent::test;

namespace {

using Keys = std::vector<std::string>;

// Everything there is, at every tap and step, with the window of `early` closing at step 5.
Keys everything(const Keys& more = {}) {
  Keys keys = kEverything;
  keys.push_back("probes.early.until=steps 5");
  keys.insert(keys.end(), more.begin(), more.end());
  return keys;
}

struct RunOutcome {
  std::vector<double> losses, weights;
  ProbeState state;
};

RunOutcome run_of(Config config, const Keys& keys) {
  ProbeSet probes;
  configure(probes, keys);
  Trainer trainer(RunPlan(config, probes), "", true);
  RunOutcome outcome;
  for (std::int64_t i = 0; i < config.train.steps; ++i) outcome.losses.push_back(trainer.step().loss);
  for (const Parameter& p : trainer.model().parameters()) {
    const auto v = values(p.value);
    outcome.weights.insert(outcome.weights.end(), v.begin(), v.end());
  }
  outcome.state = probes.state();
  return outcome;
}

// Twelve windows of the run's own tokens.
void make_probe_set(std::int64_t sequence) {
  const TokenFile file("tokens");
  std::vector<std::uint64_t> documents;
  for (std::uint64_t i = 0; i < file.documents(); ++i) documents.push_back(i);
  const TokenStream stream(file, documents);
  const std::vector<std::uint64_t> windows = {1, 5, 9, 20, 33, 40, 41, 60, 77, 80, 91};
  write_probe_set("set", stream, sequence, windows, 50, JsonObject());
}

// A file with basis:mine:TAP [d, r], orthonormal directions of a tap.
void write_basis(const std::string& path, const std::string& tap, const DenseMatrix& q) {
  write_safetensors(path, {{"basis:mine:" + tap, View(q.data.data(), DType::kF64, {q.rows, q.cols})}});
}

}  // namespace

TEST_CASE("20 steps have the same bits with all probes, the probe set, early and imported bases at every step",
          "[long]") {
  const RunPlace place;
  Config config = small_config("pure");
  config.train.steps = 20;
  make_probe_set(config.data.sequence);
  DenseMatrix q(config.model.width, 2);
  q(3, 0) = q(7, 1) = 1;
  write_basis("mine.safetensors", "blocks.1.resid_post", q);
  const RunOutcome off = run_of(config, {"probes.on=false"}),
                   on = run_of(config, everything({"probes.set=set", "probes.basis.mine=mine.safetensors"}));
  CHECK(on.losses == off.losses);
  CHECK(on.weights == off.weights);
}

TEST_CASE("early is frozen when its window closes, and its earlier series is what an imported copy of it reads") {
  const RunPlace place;
  Config config = small_config("first");
  config.train.steps = 8;
  const std::string tap = "blocks.0.resid_post";
  const RunOutcome first = run_of(config, everything());
  const DenseMatrix early = first.state.at("step/" + tap + "/basis/early/directions");
  CHECK(early.cols == 5);
  CHECK(!first.state.contains("step/" + tap + "/basis/early_so_far/directions"));
  write_basis("mine.safetensors", tap, early);
  config.name = "second";
  run_of(config, everything({"probes.basis.mine=mine.safetensors"}));
  const MetricsDb db = MetricsDb::open_for_reading("runs/second/metrics.db");
  const auto value = [&](std::int64_t step, const std::string& probe, const std::string& key,
                         const std::string& basis) {
    const auto v = db.value(step, probe, tap, key, "basis=" + basis);
    return v ? *v : std::nan("");
  };
  for (std::int64_t step = 0; step < 8; ++step) {
    INFO(step);
    for (const char* key : {"share", "ceiling", "of_ceiling", "ratio", "log_odds", "z", "mean_share", "chance"})
      CHECK(value(step, "gradient_energy", key, "early") ==
            Approx(value(step, "gradient_energy", key, "mine")).epsilon(step < 5 ? 1e-4 : 1e-9));
    CHECK(value(step, "tangent", "explained", "early") ==
          Approx(value(step, "tangent", "explained", "mine")).epsilon(step < 5 ? 1e-4 : 1e-9));
    // While the window is open there is the basis of what it has seen.
    CHECK(std::isnan(value(step, "gradient_energy", "share", "early_so_far")) == (step >= 5));
  }
  // At its last step the window holds all that early is made of.
  CHECK(value(4, "gradient_energy", "share", "early_so_far") ==
        Approx(value(4, "gradient_energy", "share", "early")).epsilon(1e-4));
}

TEST_CASE("the window of early closes by steps, fraction, tokens or loss, and stays closed") {
  const auto closes_at = [](const std::string& rule) {
    const EarlyWindow window = EarlyWindow::parse(rule);
    for (std::int64_t step = 0; step < 100; ++step) {
      const double loss = 5 - 0.1 * static_cast<double>(step);
      if (window.closed({step, 50, step * 64, loss, 3.05})) return step;
    }
    return std::int64_t{-1};
  };
  CHECK(closes_at("steps 7") == 7);
  CHECK(closes_at("fraction 0.3") == 15);
  CHECK(closes_at("fraction 0.29") == 15);
  CHECK(closes_at("tokens 640") == 10);
  CHECK(closes_at("tokens 641") == 11);
  CHECK(closes_at("loss unigram") == 20);
  CHECK(closes_at("never") == -1);
  for (const char* rule :
       {"", "steps", "steps 0", "steps 1.5", "fraction 2", "fraction nan", "loss", "tokens x", "steps 3 4"})
    CHECK(failure_of([&] { EarlyWindow::parse(rule); }).says("expected \"fraction F\""));
}

TEST_CASE("the probe set's records do not depend on the micro-batch, which need not divide it") {
  const RunPlace place;
  Config config = small_config("set");
  config.train.steps = 1;
  make_probe_set(config.data.sequence);
  std::vector<std::optional<double>> shares, losses;
  for (const std::int64_t size : {6, 3, 1}) {
    config.train.micro_batch = size;
    run_of(config, everything({"probes.set=set"}));
    const MetricsDb db = MetricsDb::open_for_reading("runs/set/metrics.db");
    shares.push_back(db.value(0, "gradient_energy", "blocks.1.resid_post", "share", "basis=current,batch=fixed"));
    losses.push_back(db.value(0, "eval", "", "loss", "split=probe_set"));
    CHECK(*db.value(0, "moments", "blocks.1.resid_post", "n", "batch=fixed,of=gradient") == 11 * config.data.sequence);
  }
  for (std::size_t i = 1; i < 3; ++i) {
    CHECK(*shares[i] == Approx(*shares[0]).epsilon(1e-4));
    CHECK(*losses[i] == Approx(*losses[0]).epsilon(1e-6));
  }
}

TEST_CASE("a probe set or a basis that does not fit the run is refused before it starts") {
  const RunPlace place;
  Config config = small_config("refused");
  make_probe_set(config.data.sequence + 1);
  CHECK(failure_of([&] { run_of(config, everything({"probes.set=set"})); }).exit_code == 2);
  CHECK(failure_of([&] { run_of(config, everything({"probes.set=missing"})); }).exit_code == 2);
  DenseMatrix q(config.model.width, 2);
  q(3, 0) = q(7, 1) = 1;
  write_basis("elsewhere.safetensors", "blocks.9.resid_post", q);
  const Failure no_tap = failure_of([&] { run_of(config, everything({"probes.basis.mine=elsewhere.safetensors"})); });
  CHECK(no_tap.says("probes.basis.mine"));
  q(7, 1) = 0.9;
  write_basis("skewed.safetensors", "blocks.1.resid_post", q);
  const Failure skewed = failure_of([&] { run_of(config, everything({"probes.basis.mine=skewed.safetensors"})); });
  CHECK(skewed.says("expected orthonormal columns"));
  const Failure own = failure_of([&] { run_of(config, everything({"probes.basis.early=skewed.safetensors"})); });
  CHECK(own.says("probes.basis.early: a run's own basis has this name"));
  CHECK(!std::filesystem::exists("runs/refused"));
}
