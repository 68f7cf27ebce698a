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

}  // namespace

void explain_config(const std::string& key) {
  Config config;
  ProbeSet probes;
  fmt::print("{}\n", describe(config, probes).explain(key));
}

int train(const TrainOptions& options) {
  Config config;
  ProbeSet probes;
  ConfigReader reader(options.config, options.set);
  config.settings(reader);
  probes.settings(reader);
  reader.refuse_unknown();
  config.check();

  Trainer trainer(config, probes, describe(config, probes).text(), options.overwrite);
  const int signal = trainer.run();
  print_summary(trainer.metrics());
  fmt::print("The run is in {}: config.toml, metrics.db, checkpoints/\n", trainer.folder().path().string());
  if (signal == 0) return 0;
  fmt::print("Signal {} ended it after {} of {} steps; {} is saved.\n", signal, trainer.steps_done(),
             config.train.steps, trainer.folder().checkpoint(trainer.steps_done()).filename().string());
  return 128 + signal;
}

}  // namespace nascent
