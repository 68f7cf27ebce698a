#include "train/replay.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <fmt/format.h>
#include <memory>
#include <span>
#include <utility>

#include "kernels/error.h"
#include "train/metrics_db.h"
#include "train/progress.h"
#include "train/resume.h"

namespace nascent {
namespace {

// NULL in the table is NaN here: whatever bits it had, it was not finite.
bool same_bits(double a, double b) {
  return std::bit_cast<std::uint64_t>(a) == std::bit_cast<std::uint64_t>(b) || (std::isnan(a) && std::isnan(b));
}

void require_recorded(const MetricsDb& metrics, const ReplayOptions& o) {
  const auto first = metrics.first_step(), last = metrics.last_step();
  if (!last) throw input_error("{}: no step is recorded", o.run.string());
  if (o.from > o.to || o.from < *first || o.to > *last) {
    throw input_error("--from {} --to {}: {} has the steps {} to {}", o.from, o.to, o.run.string(), *first, *last);
  }
  if (o.start && *o.start > o.from) throw input_error("--start {} is after --from {}", *o.start, o.from);
}

// The keys that the first of the steps was recorded under, with other probes.
std::unique_ptr<RunConfig> config_of(const MetricsDb& metrics, const ReplayOptions& o) {
  const std::string recorded = metrics.config_of(o.from).value_or("");
  const std::string called = fmt::format("{}: config of step {}", (o.run / "metrics.db").string(), o.from);
  auto run = std::make_unique<RunConfig>(ConfigReader::of_text(recorded, called, o.set));
  RunConfig before(ConfigReader::of_text(recorded, called));
  for (const auto& [key, was, now] : changed_keys(before.values(), run->values())) {
    if (!is_among(key, {"probes.*"})) {
      throw input_error("{} = {}: a replay may change only probes.*, the run has {}", key, now, was);
    }
  }
  return run;
}

// Brings the trainer to where the replay starts; returns that step.
std::int64_t start(Trainer& trainer, ProbeSet& probes, const KeyValues& keys, const RunFolder& folder,
                   const ReplayOptions& o) {
  std::vector<std::int64_t> steps = resumable_steps(folder);
  if (o.start) steps = *o.start == 0 ? std::vector<std::int64_t>() : std::vector{*o.start};
  std::reverse(steps.begin(), steps.end());
  for (const std::int64_t step : steps) {
    if (step > o.from) continue;
    const CheckpointState state = resumable_checkpoint(folder, step);
    const std::filesystem::path checkpoint = folder.checkpoint(step);
    require_same_data(trainer, state);
    const std::string other = differences(state.environment, trainer.environment());
    if (!other.empty()) throw input_error("{}: {}; a replay needs the same", checkpoint.string(), other);
    const ProbeState kept = load_probe_state(checkpoint);
    if (const auto why = misfit(probes, kept, saved_keys(checkpoint, state), keys)) {
      if (o.start) throw input_error("{}: {}", checkpoint.string(), *why);
      fmt::print("not from the checkpoint of step {}: {}\n", step, *why);
      continue;
    }
    trainer.load(checkpoint, state);
    probes.restore(kept);
    return step;
  }
  if (!trainer.config().branch.parent.empty()) {
    throw input_error("{}: a branch has no step 0 to replay from, and no checkpoint at or before step {} serves",
                      o.run.string(), o.from);
  }
  trainer.initialize();
  return 0;
}

// Where a replay keeps what its probes keep on file: the run's own arrays stay as they are.
struct Scratch {
  explicit Scratch(const RunFolder& folder) : path(folder.path() / "replay.partial") {
    std::filesystem::remove_all(path);
  }
  ~Scratch() {
    std::error_code ignored;
    std::filesystem::remove_all(path, ignored);
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  std::filesystem::path path;
};

}  // namespace

void replay(const ReplayOptions& o) {
  const RunFolder folder = RunFolder::open_to_write(o.run);
  MetricsDb metrics = MetricsDb::append(folder.metrics());
  require_recorded(metrics, o);
  const std::unique_ptr<RunConfig> run = config_of(metrics, o);
  const std::string text = run->text();
  const KeyValues keys = run->values();
  // Neither moves a weight, and a replay leaves neither.
  run->config.checkpoints.at = run->config.checkpoints.resumable = run->config.eval.at = {"never"};
  RunPlan plan(run->config, run->probes);
  require_room("memory", plan.memory(), memory_room());
  Trainer trainer(std::move(plan));
  const std::int64_t first = start(trainer, run->probes, keys, folder, o);
  trainer.write_to(folder, std::move(metrics), text);
  const Scratch scratch(folder);
  run->probes.store_in(scratch.path);
  trainer.metrics().event(o.from, "replay", fmt::format("steps {} to {} again, from step {}", o.from, o.to, first));
  fmt::print("replaying steps {} to {} from step {}\n", o.from, o.to, first);

  trainer.divert_records([&](std::int64_t step, std::span<const Record> records, const StepRow* row) {
    if (row) {
      const double recorded = trainer.metrics().step(step).value().loss;
      if (!same_bits(row->loss, recorded)) {
        throw machine_error("step {}: the loss is {}, recorded was {}; this is not the recorded run any more", step,
                            row->loss, recorded);
      }
    }
    if (step < o.from || step > o.to) return;
    // The time it took is that of this attempt, not of the run's steps.
    Records lasting(records.begin(), records.end());
    std::erase_if(lasting, [](const Record& r) { return r.key == "seconds"; });
    trainer.metrics().write(step, lasting);
  });
  Progress progress(o.to + 1);
  try {
    while (trainer.steps_done() <= o.to) progress.update(trainer.step());
  } catch (...) {
    trainer.metrics().finish();
    throw;
  }
  trainer.metrics().finish();
  fmt::print("{} steps have the recorded losses to the bit; the records of steps {} to {} are in {}\n",
             o.to + 1 - first, o.from, o.to, folder.metrics().string());
}

}  // namespace nascent
