// Training: data, model, optimizer, probes and run folder brought together. `step` is the whole of a step.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "train/batches.h"
#include "train/metrics_db.h"
#include "train/optimizer.h"
#include "train/progress.h"
#include "train/run_folder.h"
#include "train/run_plan.h"
#include "train/verdict.h"

namespace nascent {

class Trainer {
 public:
  // Takes the memory of the plan, then makes the run's folder. config_text: every key in force, as config.toml will
  // hold it; overwrite: replace an earlier run of this name.
  Trainer(RunPlan plan, const std::string& config_text, bool overwrite);
  Trainer(Config config, ProbeSet& probes, const std::string& config_text, bool overwrite)
      : Trainer(RunPlan(std::move(config), probes), config_text, overwrite) {}

  // From now on every op refuses what is not finite: the error names the first one (kernels/kernel.h).
  void check_finite() { stream_.check_finite(true); }

  // All steps, then the last checkpoint and the final evaluation; returns 0. When a signal asks to end (see Signals): the step
  // is finished and saved, and the signal's number returned.
  int run();

  // One optimizer update, or none where the verdict is so; record s is the gradient at the weights after s steps.
  StepProgress step();

  const Transformer& model() const { return *model_; }
  const Optimizer& optimizer() const { return optimizer_; }
  std::int64_t steps_done() const { return step_; }
  const RunFolder& folder() const { return folder_; }
  MetricsDb& metrics() { return metrics_; }

 private:
  using Clock = std::chrono::steady_clock;

  void measure_fixed();
  double forward_backward(bool probing);
  double clip_factor(double gradient_norm) const;
  void leave_out(Verdict verdict, double loss, double gradient_norm);
  [[noreturn]] void stop(const std::string& why);
  void update(double lr, double clip, bool probing);
  void evaluate_heldout(std::int64_t sequences);
  bool weights_are_finite() const;
  void save();

  Config config_;
  ProbeSet& probes_;
  Stream stream_;
  std::unique_ptr<RunData> data_;
  std::unique_ptr<Transformer> model_;
  Optimizer optimizer_;
  Batches batches_;
  Schedule checkpoint_schedule_, eval_schedule_;
  RunFolder folder_;
  MetricsDb metrics_;
  std::int64_t step_ = 0;
};

}  // namespace nascent
