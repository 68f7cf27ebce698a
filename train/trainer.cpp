#include "train/trainer.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <fmt/format.h>
#include <span>

#include "data/ngram.h"
#include "data/probe_sequences.h"
#include "kernels/check_finite.h"
#include "kernels/error.h"
#include "kernels/reduce.h"
#include "model/hugging_face.h"
#include "train/evaluate.h"
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
  if (checkpoint_due() && weights_are_finite()) save(SavedFor::kSchedule);
  if (eval_schedule_.at(step_)) evaluate_heldout(config_.eval.sequences);

  if (probes_.fixed_due(step_)) measure_fixed();
  batches_.load(samples_);
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
  row.seconds = seconds_since(start);
  record(row);
  if (verdict != Verdict::kUpdate) leave_out(verdict, loss, gradient_norm);
  ++step_;
  samples_ += config_.train.batch;
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
  write(step_, {&record, 1});
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
  event(no_target ? "no_target" : "not_finite", what + "; " + batches_.text());
  if (!no_target && config_.train.not_finite == "abort") stop(what);
  if (!weights_are_finite()) stop(what + ". The weights themselves are not finite, so no other batch can help");
  if (metrics_->without_update_up_to(step_) >= config_.train.most_skips)
    stop(fmt::format("{}. This is step {} in a row without an update (train.most_skips)", what,
                     config_.train.most_skips));
}

void Trainer::stop(const std::string& why) {
  event("stopped", why);
  throw machine_error(
      "step {}: {}. The weights are those before this step; the last checkpoint is in {}, the batch in {}, events",
      step_, why, folder_->checkpoints().string(), folder_->metrics().string());
}

// The step, its records, and what it tells of earlier ones.
void Trainer::record(const StepRow& row) {
  write(row.step, probes_.records(), &row);
  for (const auto& [step, earlier] : probes_.take_retrospective()) write(step, earlier);
}

void Trainer::write(std::int64_t step, std::span<const Record> records, const StepRow* row) {
  if (diverted_) return diverted_(step, records, row);
  row ? metrics_->write_step(*row, records) : metrics_->write(step, records);
}

void Trainer::event(const std::string& kind, const std::string& text) {
  if (!diverted_) metrics_->event(step_, kind, text);
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

Trainer::Trainer(RunPlan plan)
    : config_(std::move(plan.config)),
      probes_(plan.probes),
      stream_(Device::kCpu, static_cast<int>(config_.threads)),
      data_(std::move(plan.data)),
      model_(with_memory(std::move(plan.model))),
      optimizer_(model_->parameters(), probes_.may_need_updates()),
      batches_(data_->train, static_cast<std::uint64_t>(config_.seed.data), config_.train.batch, config_.micro_batch()),
      order_{hash_of_token_file(config_.data.tokens), static_cast<std::int64_t>(data_->train.count()),
             config_.data.sequence, config_.seed.data},
      checkpoint_schedule_(std::move(plan.checkpoints)),
      resumable_schedule_(std::move(plan.resumable)),
      eval_schedule_(std::move(plan.evaluations)) {
  probes_.allocate();
}

Trainer::Trainer(RunPlan plan, const std::string& config_text, bool overwrite) : Trainer(std::move(plan)) {
  RunFolder folder = RunFolder::create(std::filesystem::path("runs") / config_.name, config_text, overwrite);
  MetricsDb metrics = MetricsDb::create(folder.metrics());
  initialize();
  write_to(std::move(folder), std::move(metrics), config_text);
}

void Trainer::initialize() { model_->parameters().initialize(static_cast<std::uint64_t>(config_.seed.init)); }

void Trainer::load(const std::filesystem::path& folder, const CheckpointState& state) {
  load_weights(folder, *model_);
  load_optimizer(optimizer_, folder, state);
  step_ = saved_ = state.step;
  // Another order (a branch's own) begins at its first sample.
  samples_ = state.order == order_ ? state.samples : 0;
}

void Trainer::write_to(RunFolder folder, MetricsDb metrics, const std::string& config_text) {
  folder_ = std::move(folder);
  metrics_.emplace(std::move(metrics));
  config_text_ = config_text;
  probes_.store_in(folder_->arrays());
  metrics_->begin_run(config_.name, environment().text(), config_text);
}

int Trainer::run() {
  if (config_.eval.ngrams && data_->heldout) record_ngrams();
  Signals signals;
  Progress progress(config_.train.steps);
  while (step_ < config_.train.steps && signals.stop() == 0) {
    progress.update(step());
    if (signals.take_save() && weights_are_finite()) save(SavedFor::kSignal);
  }
  if (!weights_are_finite()) {
    throw machine_error("step {}: the last update made weights that are not finite; the last checkpoint is in {}",
                        step_, folder_->checkpoints().string());
  }
  const bool stopped = step_ < config_.train.steps;
  if (saved_ != step_) save(stopped ? SavedFor::kSignal : SavedFor::kEnd);
  if (stopped) {
    event("stopped", fmt::format("by signal {}", signals.stop()));
  } else {
    evaluate_heldout(0);
    event("finished", fmt::format("{} steps", step_));
  }
  metrics_->finish();
  return stopped ? signals.stop() : 0;
}

// With the first step's records, once: they are the data's, not the model's.
void Trainer::record_ngrams() {
  const std::int64_t first = metrics_->first_step().value_or(step_);
  if (metrics_->value(first, "eval", "", "ngram_loss", "order=1")) return;
  const NgramBaselines baselines =
      ngram_baselines(data_->train_stream, data_->heldout_stream, config_.data.sequence, model_->spec().vocab);
  Records records;
  for (std::size_t order = 0; order < baselines.nats.size(); ++order) {
    const std::string labels = fmt::format("order={}", order + 1);
    records.push_back(evaluation_record("ngram_loss", labels, baselines.nats[order], baselines.targets));
  }
  write(first, records);
}

void Trainer::evaluate_heldout(std::int64_t sequences) {
  if (!data_->heldout) return;
  stream_.enter_step(step_);
  const Evaluation e = evaluate(stream_, *model_, *data_->heldout, sequences);
  const char* labels = sequences == 0 ? "split=heldout_all" : "split=heldout";
  const Record record = evaluation_record("loss", labels, e.loss, static_cast<std::uint64_t>(e.targets));
  write(step_, {&record, 1});
}

bool Trainer::weights_are_finite() const {
  return std::ranges::all_of(model_->parameters(), [](const Parameter& p) { return first_not_finite(p.value) < 0; });
}

bool Trainer::checkpoint_due() const {
  return step_ != saved_ && (checkpoint_schedule_.at(step_) || resumable_schedule_.at(step_));
}

void Trainer::save(SavedFor reason) {
  CheckpointWriter checkpoint(*folder_, step_);
  save_pretrained(checkpoint.path(), *model_);
  if (data_->tokenizer) data_->tokenizer->save_pretrained(checkpoint.path(), model_->spec().context);
  CheckpointState state;
  state.step = step_;
  state.updates = optimizer_.updates();
  state.samples = samples_;
  state.saved_for = reason;
  state.seed_init = config_.seed.init;
  state.order = order_;
  state.probe_set = probe_set();
  state.environment = environment();
  state.config = config_text_;
  save_resumable(checkpoint.path(), std::move(state), optimizer_, probes_.state());
  checkpoint.commit();
  saved_ = step_;
  event("saved", RunFolder::checkpoint_name(step_));
  prune_resumable(*folder_, resumable_schedule_);
}

}  // namespace nascent
