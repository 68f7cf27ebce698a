// Training: data, model, optimizer, probes and run folder brought together. `step` is the whole of a step.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "train/batches.h"
#include "train/checkpoint.h"
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

  // The same in three parts, for a run that begins elsewhere: takes the memory; where the run starts from; where it
  // writes (begins an attempt there).
  explicit Trainer(RunPlan plan);
  void initialize();                                                             // at step 0
  void load(const std::filesystem::path& folder, const CheckpointState& state);  // of a checkpoint, all but the probes
  void write_to(RunFolder folder, MetricsDb metrics, const std::string& config_text);

  // From now on every op refuses what is not finite: the error names the first one (kernels/kernel.h).
  void check_finite() { stream_.check_finite(true); }

  // All steps, then the last checkpoint and the final evaluation; returns 0. When a signal asks to end (see Signals): the step
  // is finished and saved, and the signal's number returned.
  int run();

  // One optimizer update, or none where the verdict is so; record s is the gradient at the weights after s steps.
  StepProgress step();

  // A checkpoint of now.
  void save(SavedFor reason);

  // Records go there instead of into metrics.db, and events nowhere; row: with the records the step itself, else null.
  using Writer = std::function<void(std::int64_t step, std::span<const Record> records, const StepRow* row)>;
  void divert_records(Writer writer) { diverted_ = std::move(writer); }

  const Config& config() const { return config_; }
  const Transformer& model() const { return *model_; }
  const Optimizer& optimizer() const { return optimizer_; }
  std::int64_t steps_done() const { return step_; }
  std::int64_t samples_done() const { return samples_; }  // of the order
  const OrderIdentity& order() const { return order_; }
  std::string probe_set() const { return data_->fixed ? data_->fixed->hash() : ""; }  // its hash; empty: there is none
  Environment environment() const { return Environment::of_this_program(stream_.threads()); }
  const RunFolder& folder() const { return *folder_; }
  MetricsDb& metrics() { return *metrics_; }

 private:
  using Clock = std::chrono::steady_clock;

  void measure_fixed();
  void record_ngrams();
  bool checkpoint_due() const;
  void record(const StepRow& row);
  void write(std::int64_t step, std::span<const Record> records, const StepRow* row = nullptr);
  void event(const std::string& kind, const std::string& text);
  double forward_backward(bool probing);
  double clip_factor(double gradient_norm) const;
  void leave_out(Verdict verdict, double loss, double gradient_norm);
  [[noreturn]] void stop(const std::string& why);
  void update(double lr, double clip, bool probing);
  void evaluate_heldout(std::int64_t sequences);
  bool weights_are_finite() const;

  Config config_;
  ProbeSet& probes_;
  Stream stream_;
  std::unique_ptr<RunData> data_;
  std::unique_ptr<Transformer> model_;
  Optimizer optimizer_;
  Batches batches_;
  OrderIdentity order_;
  Schedule checkpoint_schedule_, resumable_schedule_, eval_schedule_;
  std::string config_text_;
  std::optional<RunFolder> folder_;
  std::optional<MetricsDb> metrics_;
  Writer diverted_;
  std::int64_t step_ = 0;
  std::int64_t samples_ = 0;  // consumed: the position of the next batch
  std::int64_t saved_ = -1;   // the step of the last checkpoint written or loaded
};

}  // namespace nascent
