// A small run inside the test's own process: a folder with tokens, a configuration, and a way to choose probes.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "data/token_file.h"
#include "kernels/philox.h"
#include "tests/temporary.h"
#include "train/config_file.h"
#include "train/trainer.h"

namespace nascent::test {

// A folder to run in, with a token file of a few structured documents.
class RunPlace {
 public:
  RunPlace() : back_(std::filesystem::current_path()) {
    std::filesystem::current_path(folder_.path);
    TokenFileWriter writer("tokens", 50);
    const Random random(1, "test", "documents");
    for (std::uint64_t d = 0; d < 40; ++d) {
      std::vector<std::int32_t> document;
      for (std::uint64_t i = 0; i < 97; ++i) {
        // Half of the tokens follow from the one before.
        const std::uint64_t draw = random.bits(d * 97 + i);
        const std::int32_t before = document.empty() ? 0 : document.back();
        document.push_back(draw % 2 ? (before * 7 + 3) % 50 : static_cast<std::int32_t>(draw / 2 % 50));
      }
      writer.add_document(document);
    }
    writer.finish();
  }
  ~RunPlace() { std::filesystem::current_path(back_); }

 private:
  TemporaryFolder folder_;
  std::filesystem::path back_;
};

inline Config small_config(const std::string& name) {
  Config c;
  c.name = name;
  c.threads = 1;  // several would mostly wait for each other at these sizes
  c.model.vocab = 50;
  c.model.width = 24;
  c.model.layers = 2;
  c.model.heads = 3;
  c.data.tokens = "tokens";
  c.data.heldout = 0.1;
  c.data.sequence = 17;
  c.train.steps = 50;
  c.train.batch = 6;
  c.schedule.warmup = 5;
  c.optimizer.lr = 3e-3;
  c.eval.at = {"every 20"};
  return c;
}

// A probe set with these keys in place of its defaults.
inline void configure(ProbeSet& probes, const std::vector<std::string>& keys) {
  ConfigReader reader(keys);
  probes.settings(reader);
  reader.refuse_unknown();
}

inline const std::vector<std::string> kEverything = {
    "probes.taps=[\"*\"]", "probes.rank=5", "probes.detail=[\"every 1\"]", "probes.gradient_energy.controls=9"};
inline const std::vector<std::string> kNoProbes = {"probes.on=false"};

}  // namespace nascent::test
