#include "train/trainer.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <fmt/format.h>
#include <span>

#include "data/ngram.h"
#include "data/probe_sequences.h"
#include "kernels/build.h"
#include "kernels/check_finite.h"
#include "kernels/error.h"
#include "kernels/reduce.h"
#include "model/hugging_face.h"
#include "train/evaluate.h"
#include "train/info.h"
#include "train/signals.h"

namespace nascent {
namespace {

Record evaluation_record(const char* key, std::string labels, double value, std::uint64_t targets) {
  Record record;
  record.probe = "eval";
  record.key = key;
  record.labels = std::move(labels);
  record.value = value;
  record.n = static_cast<std::int64_t>(targets);
  return record;
}

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace

// A step: the order in which things happen is the order in which they are written.
StepProgress Trainer::step() {
  const Clock::time_point start = Clock::now();
  const double probe_seconds = probes_.seconds();
  stream_.enter_step(step_);
  // Weights that are not finite are no checkpoint: the verdict below will stop the run, with its records.
  if (checkpoint_schedule_.at(step_) && weights_are_finite()) save();
  if (eval_schedule_.at(step_)) evaluate_heldout(config_.eval.sequences);

  if (probes_.fixed_due(step_)) measure_fixed();
  batches_.load(step_);
  const bool probing = probes_.begin_step(step_, batches_.inputs(), batches_.targets());
  const double loss = forward_backward(probing);
  if (probing) probes_.finish(stream_, model_->parameters(), loss);

  const double gradient_norm = optimizer_.gradient_norm(stream_);
  const Verdict verdict = verdict_of(batches_.counted_targets(), loss, gradient_norm);
  StepRow row{step_, batches_.tokens(), batches_.counted_targets(), loss, std::nan(""), std::nan(""), 0};
  if (verdict == Verdict::kUpdate) {
    row.lr = learning_rate(config_.optimizer.lr, config_.schedule, step_, config_.train.steps);
    row.clip = clip_factor(gradient_norm);
    update(row.lr, row.clip, probing);
  }
  const Records& records = probes_.records();
  row.seconds = seconds_since(start);
  metrics_.write_step(row, records);
  for (const auto& [step, earlier] : probes_.take_retrospective()) metrics_.write(step, earlier);
  if (verdict != Verdict::kUpdate) leave_out(verdict, loss, gradient_norm);
  ++step_;
  return {step_, loss, batches_.tokens(), row.seconds, probes_.seconds() - probe_seconds};
}

// The mean loss; NaN, and a gradient of 0, where the step has no target.
double Trainer::forward_backward(bool probing) {
  const auto targets = static_cast<double>(batches_.counted_targets());
  const double scale = targets > 0 ? 1 / targets : 0;
  model_->listen(probing);
  model_->parameters().zero_gradients();
  double total = 0;
  for (std::int64_t i = 0; i < batches_.micro_batches(); ++i) {
    model_->forward(stream_, batches_.inputs(i));
    double losses = 0;
    sum(stream_, Tensor(&losses, DType::kF64, {1}), model_->backward(stream_, batches_.targets(i), scale));
    total += losses;
  }
  model_->check_guards();
  return total / targets;
}

// The probe set, as a step of its own without an update. It needs no memory beside the step's: activations and gradients
// lie where those of the step will, which begins by clearing the gradients.
void Trainer::measure_fixed() {
  const ProbeSequences& set = *data_->fixed;
  const auto size = [](std::int64_t n) { return static_cast<std::size_t>(n); };
  const std::int64_t count = set.sequences(), length = set.length(), batch = model_->batch();
  // Places behind the last sequence have no targets and are not shown.
  const std::int64_t padded = (count + batch - 1) / batch * batch;
  std::vector<std::int32_t> inputs(size(padded * length), 0), targets(inputs.size(), kIgnored);
  set.read(0, count, std::span(inputs).first(size(count * length)), std::span(targets).first(size(count * length)));
  const auto view = [&](const std::vector<std::int32_t>& ids, std::int64_t first, std::int64_t n) {
    return View(ids.data() + first * length, DType::kI32, {n, length});
  };
  probes_.begin_fixed(step_, view(inputs, 0, count), view(targets, 0, count));
  model_->listen(true);
  double total = 0;
  const double scale = 1 / static_cast<double>(count * length);
  for (std::int64_t first = 0; first < count; first += batch) {
    model_->forward(stream_, view(inputs, first, batch));
    double losses = 0;
    sum(stream_, Tensor(&losses, DType::kF64, {1}), model_->backward(stream_, view(targets, first, batch), scale));
    total += losses;
  }
  probes_.finish_fixed(stream_);
  const Record record =
      evaluation_record("loss", "split=probe_set", total * scale, static_cast<std::uint64_t>(count * length));
  metrics_.write(step_, {&record, 1});
}

// As torch.nn.utils.clip_grad_norm_ does it, with its 1e-6.
double Trainer::clip_factor(double gradient_norm) const {
  if (config_.optimizer.clip == 0) return 1;
  return std::min(1.0, config_.optimizer.clip / (gradient_norm + 1e-6));
}

// A step without an update. Its records are kept: they may show where the first NaN came from.
void Trainer::leave_out(Verdict verdict, double loss, double gradient_norm) {
  const bool no_target = verdict == Verdict::kNoTarget;
  const std::string what = no_target ? "no target in the batch, expected one or more"
                                     : fmt::format("loss is {}, norm of the gradient {}; expected finite numbers",
                                                   std::abs(loss), std::abs(gradient_norm));  // not "-nan"
  metrics_.event(step_, no_target ? "no_target" : "not_finite", what + "; " + batches_.text());
  if (!no_target && config_.train.not_finite == "abort") stop(what);
  if (!weights_are_finite()) stop(what + ". The weights themselves are not finite, so no other batch can help");
  if (metrics_.without_update_up_to(step_) >= config_.train.most_skips)
    stop(fmt::format("{}. This is step {} in a row without an update (train.most_skips)", what,
                     config_.train.most_skips));
}

void Trainer::stop(const std::string& why) {
  metrics_.event(step_, "stopped", why);
  throw machine_error(
      "step {}: {}. The weights are those before this step; the last checkpoint is in {}, the batch in {}, events",
      step_, why, folder_.checkpoints().string(), folder_.metrics().string());
}

void Trainer::update(double lr, double clip, bool probing) {
  const auto& o = config_.optimizer;
  const AdamW rule{lr, o.beta1, o.beta2, o.eps, o.weight_decay, clip, 0};
  std::function<void(const AppliedUpdate&)> on_update;
  if (probing && probes_.needs_updates()) on_update = [&](const AppliedUpdate& u) { probes_.on_update(stream_, u); };
  optimizer_.update(stream_, rule, on_update);
}

namespace {

std::unique_ptr<Transformer> with_memory(std::unique_ptr<Transformer> model) {
  model->allocate();
  return model;
}

}  // namespace

Trainer::Trainer(RunPlan plan, const std::string& config_text, bool overwrite)
    : config_(std::move(plan.config)),
      probes_(plan.probes),
      stream_(Device::kCpu, static_cast<int>(config_.threads)),
      data_(std::move(plan.data)),
      model_(with_memory(std::move(plan.model))),
      optimizer_(model_->parameters(), probes_.may_need_updates()),
      batches_(data_->train, static_cast<std::uint64_t>(config_.seed.data), config_.train.batch, config_.micro_batch()),
      checkpoint_schedule_(std::move(plan.checkpoints)),
      eval_schedule_(std::move(plan.evaluations)),
      folder_(RunFolder::create(std::filesystem::path("runs") / config_.name, config_text, overwrite)),
      metrics_(MetricsDb::create(folder_.metrics())) {
  probes_.allocate();
  probes_.store_in(folder_.arrays());
  model_->parameters().initialize(static_cast<std::uint64_t>(config_.seed.init));
  metrics_.begin_run(config_.name, fmt::format("{}; {}; {} threads", version(), build_description(), stream_.threads()),
                     config_text);
}

int Trainer::run() {
  if (config_.eval.ngrams && data_->heldout) {
    const NgramBaselines baselines =
        ngram_baselines(data_->train_stream, data_->heldout_stream, config_.data.sequence, model_->spec().vocab);
    Records records;
    for (std::size_t order = 0; order < baselines.nats.size(); ++order) {
      const std::string labels = fmt::format("order={}", order + 1);
      records.push_back(evaluation_record("ngram_loss", labels, baselines.nats[order], baselines.targets));
    }
    metrics_.write(0, records);
  }
  Signals signals;
  Progress progress(config_.train.steps);
  while (step_ < config_.train.steps && signals.stop() == 0) {
    progress.update(step());
    if (signals.take_save() && weights_are_finite()) save();
  }
  if (!weights_are_finite()) {
    throw machine_error("step {}: the last update made weights that are not finite; the last checkpoint is in {}",
                        step_, folder_.checkpoints().string());
  }
  save();
  const bool stopped = step_ < config_.train.steps;
  if (stopped) {
    metrics_.event(step_, "stopped", fmt::format("by signal {}", signals.stop()));
  } else {
    evaluate_heldout(0);
  }
  metrics_.finish();
  return stopped ? signals.stop() : 0;
}

void Trainer::evaluate_heldout(std::int64_t sequences) {
  if (!data_->heldout) return;
  stream_.enter_step(step_);
  const Evaluation e = evaluate(stream_, *model_, *data_->heldout, sequences);
  const char* labels = sequences == 0 ? "split=heldout_all" : "split=heldout";
  const Record record = evaluation_record("loss", labels, e.loss, static_cast<std::uint64_t>(e.targets));
  metrics_.write(step_, {&record, 1});
}

bool Trainer::weights_are_finite() const {
  return std::ranges::all_of(model_->parameters(), [](const Parameter& p) { return first_not_finite(p.value) < 0; });
}

void Trainer::save() {
  CheckpointWriter checkpoint(folder_, step_);
  save_pretrained(checkpoint.path(), *model_);
  if (data_->tokenizer) data_->tokenizer->save_pretrained(checkpoint.path(), model_->spec().context);
  checkpoint.commit();
  metrics_.event(step_, "saved", folder_.checkpoint(step_).filename().string());
}

}  // namespace nascent
