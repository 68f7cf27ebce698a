#include "train/train.h"

#include <fmt/format.h>

#include "train/config_file.h"
#include "train/summary.h"
#include "train/trainer.h"

namespace nascent {

namespace {

ConfigWriter describe(Config& config, ProbeSet& probes) {
  ConfigWriter writer;
  config.settings(writer);
  probes.settings(writer);
  return writer;
}

// The run that is asked for: nothing is wrong with it, and it fits.
RunPlan planned(const TrainOptions& options, Config& config, ProbeSet& probes) {
  ConfigReader reader(options.config, options.set);
  config.settings(reader);
  probes.settings(reader);
  reader.refuse_unknown();
  config.check();
  RunPlan plan(config, probes);
  RunFolder::require_free(plan.folder(), options.overwrite);
  plan.announce();
  return plan;
}

std::string duration(double seconds) {
  if (seconds < 120) return fmt::format("{:.0f} seconds", seconds);
  if (seconds < 120 * 60) return fmt::format("{:.0f} minutes", seconds / 60);
  return fmt::format("{:.1f} hours", seconds / 3600);
}

}  // namespace

void explain_config(const std::string& key) {
  Config config;
  ProbeSet probes;
  fmt::print("{}\n", describe(config, probes).explain(key));
}

void check_config(const TrainOptions& options) {
  Config config;
  ProbeSet probes;
  const RunPlan plan = planned(options, config, probes);
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
  Config config;
  ProbeSet probes;
  RunPlan plan = planned(options, config, probes);
  Trainer trainer(std::move(plan), describe(config, probes).text(), options.overwrite);
  if (options.check_nan) trainer.check_finite();
  const int signal = trainer.run();
  print_summary(trainer.metrics());
  fmt::print("The run is in {}: config.toml, metrics.db, checkpoints/\n", trainer.folder().path().string());
  if (signal == 0) return 0;
  fmt::print("Signal {} ended it after {} of {} steps; {} is saved.\n", signal, trainer.steps_done(),
             config.train.steps, trainer.folder().checkpoint(trainer.steps_done()).filename().string());
  return 128 + signal;
}

}  // namespace nascent
