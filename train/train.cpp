#include "train/train.h"

#include <fmt/format.h>

#include "train/config_file.h"
#include "train/summary.h"
#include "train/trainer.h"

namespace nascent {

void train(const TrainOptions& options) {
  Config config;
  ProbeSet probes;
  ConfigReader reader(options.config, options.set);
  config.settings(reader);
  probes.settings(reader);
  reader.refuse_unknown();

  ConfigWriter writer;
  config.settings(writer);
  probes.settings(writer);

  Trainer trainer(config, probes, writer.text(), options.overwrite);
  trainer.run();
  print_summary(trainer.metrics());
  fmt::print("The run is in {}: config.toml, metrics.db, checkpoints/\n", trainer.folder().path().string());
}

}  // namespace nascent
