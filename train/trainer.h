// Training: data, model, optimizer, probes and run folder brought together. `step` is the whole of a step.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include "data/dataset.h"
#include "data/tokenizer.h"
#include "model/transformer.h"
#include "probes/probe_set.h"
#include "train/batches.h"
#include "train/config.h"
#include "train/metrics_db.h"
#include "train/optimizer.h"
#include "train/progress.h"
#include "train/run_folder.h"

namespace nascent {

class Trainer {
 public:
  // config: checked (Config::check). Everything else that can be wrong with the input throws here, before the run
  // folder is made. config_text: every key in force, as config.toml will hold it; overwrite: replace an earlier run of
  // this name.
  Trainer(Config config, ProbeSet& probes, const std::string& config_text, bool overwrite);

  ~Trainer();

  // All steps, then the last checkpoint and the final evaluation; returns 0. When a signal asks to end (see Signals): the step
  // is finished and saved, and the signal's number returned.
  int run();

  // One optimizer update; record s is the gradient at the weights after s updates.
  StepProgress step();

  const Transformer& model() const { return *model_; }
  std::int64_t steps_done() const { return step_; }
  const RunFolder& folder() const { return folder_; }
  MetricsDb& metrics() { return metrics_; }

 private:
  using Clock = std::chrono::steady_clock;
  struct Data;  // token file, split, windows

  // Tells the probes the taps and gives the model its memory; whether a probe may want to see updates.
  static std::unique_ptr<Transformer> planned_model(const Config& config, const Data& data, ProbeSet& probes);
  void announce() const;
  void measure_fixed();
  double forward_backward(bool probing);
  double clip_factor(double gradient_norm) const;
  [[noreturn]] void stop(double loss, double gradient_norm, Clock::time_point start);
  void update(double lr, double clip, bool probing);
  void evaluate_heldout(std::int64_t sequences);
  bool weights_are_finite();
  void save();

  Config config_;
  ProbeSet& probes_;
  Stream stream_;
  std::unique_ptr<Data> data_;
  std::unique_ptr<Transformer> model_;
  Optimizer optimizer_;
  Batches batches_;
  Schedule checkpoint_schedule_, eval_schedule_;
  RunFolder folder_;
  MetricsDb metrics_;
  std::int64_t step_ = 0;
};

}  // namespace nascent
