#include "train/train.h"

#include <fmt/format.h>

#include "kernels/error.h"
#include "train/run_config.h"
#include "train/summary.h"
#include "train/trainer.h"

namespace nascent {

namespace {

// The run that is asked for: nothing is wrong with it, and it fits.
RunPlan planned(const TrainOptions& options, RunConfig& run) {
  if (const auto& branch = run.config.branch; !branch.parent.empty()) {
    throw input_error(
        "branch.parent = \"{}\": this run did not begin from its initialization; nascent branch {} --step {}",
        branch.parent, branch.parent, branch.step);
  }
  RunPlan plan(run.config, run.probes);
  RunFolder::require_free(plan.folder(), options.overwrite);
  plan.announce(plan.folder());
  return plan;
}

std::string duration(double seconds) {
  if (seconds < 120) return fmt::format("{:.0f} seconds", seconds);
  if (seconds < 120 * 60) return fmt::format("{:.0f} minutes", seconds / 60);
  return fmt::format("{:.1f} hours", seconds / 3600);
}

}  // namespace

void explain_config(const std::string& key) { fmt::print("{}\n", RunConfig().writer().explain(key)); }

void check_config(const TrainOptions& options) {
  RunConfig run(ConfigReader(options.config, options.set));
  const Config& config = run.config;
  const RunPlan plan = planned(options, run);
  const TransformerSpec& spec = plan.model->spec();
  Stream stream(Device::kCpu, static_cast<int>(config.threads));
  const double step = step_operations(spec, config.train.batch, config.data.sequence);
  const double rate = measured_rate(stream, spec, config.dtype(), config.data.sequence);
  fmt::print(
      "time: about {}: {} steps of {:.3g} operations, {:.3g} of them a second in a trial with {} threads; an "
      "estimate, without probes, evaluation and saving\n",
      duration(static_cast<double>(config.train.steps) * step / rate), config.train.steps, step, rate,
      stream.threads());
}

int train(const TrainOptions& options) {
  RunConfig run(ConfigReader(options.config, options.set));
  const std::string text = run.text();
  Trainer trainer(planned(options, run), text, options.overwrite);
  if (options.check_nan) trainer.check_finite();
  return run_to_end(trainer);
}

int run_to_end(Trainer& trainer) {
  const int signal = trainer.run();
  const std::string folder = trainer.folder().path().string();
  print_summary(trainer.metrics());
  fmt::print("The run is in {}: config.toml, metrics.db, checkpoints/\n", folder);
  if (signal == 0) return 0;
  fmt::print("Signal {} ended it after {} of {} steps; {} is saved. To go on: nascent resume {}\n", signal,
             trainer.steps_done(), trainer.config().train.steps, RunFolder::checkpoint_name(trainer.steps_done()),
             folder);
  return 128 + signal;
}

}  // namespace nascent
