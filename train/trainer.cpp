#include "train/trainer.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fmt/format.h>
#include <span>

#include "data/counts.h"
#include "data/ngram.h"
#include "data/probe_sequences.h"
#include "kernels/build.h"
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

struct Trainer::Data {
  Data(const Config& config, const std::string& probe_set)
      : file(config.data.tokens),
        split(split_documents(file.documents(), config.data.heldout)),
        train_stream(file, split.train),
        heldout_stream(file, split.heldout),
        train(windows(train_stream, "training", config)) {
    if (!probe_set.empty()) fixed.emplace(probe_set);
    if (!config.data.tokenizer.empty()) tokenizer.emplace(Tokenizer::load(config.data.tokenizer));
    if (config.data.heldout > 0) heldout.emplace(windows(heldout_stream, "held-out", config));
  }

  static Windows windows(const TokenStream& stream, const char* side, const Config& config) {
    if (stream.size() > static_cast<std::uint64_t>(config.data.sequence)) return Windows(stream, config.data.sequence);
    throw input_error("data.sequence = {} with data.heldout = {}: the {} documents hold {} tokens, expected {} or more",
                      config.data.sequence, config.data.heldout, side, stream.size(), config.data.sequence + 1);
  }

  TransformerSpec spec(const Config& config) const {
    if (!tokenizer && config.model.vocab == 0 && config.model.preset.empty()) {
      throw input_error("model.vocab is missing, expected a size since no data.tokenizer is given");
    }
    TransformerSpec spec = config.spec(tokenizer ? tokenizer->vocab_size() : 0);
    file.check_vocabulary(spec.vocab);
    if (tokenizer) {
      spec.bos_id = tokenizer->bos_id();
      spec.eos_id = tokenizer->eos_id();
    }
    return spec;
  }

  RunFacts facts(const Config& config, const TransformerSpec& spec) const {
    RunFacts facts;
    facts.dtype = config.dtype();
    facts.batch = config.train.batch;
    facts.sequence = config.data.sequence;
    facts.steps = config.train.steps;
    if (fixed) {
      fixed->require_vocabulary(spec.vocab);
      fixed->require_length(config.data.sequence);
      facts.fixed_positions = fixed->sequences() * fixed->length();
    }
    facts.counts = token_counts(train_stream, spec.vocab);
    for (const std::int64_t id : {spec.bos_id, spec.eos_id}) {
      if (id >= 0 && id < spec.vocab) facts.special.push_back(static_cast<std::int32_t>(id));
    }
    facts.norm = {true, true, spec.norm_eps};
    facts.seed = static_cast<std::uint64_t>(config.seed.probe);
    return facts;
  }

  TokenFile file;
  std::optional<Tokenizer> tokenizer;
  Split split;
  TokenStream train_stream, heldout_stream;
  Windows train;
  std::optional<Windows> heldout;
  std::optional<ProbeSequences> fixed;
};

// A step: the order in which things happen is the order in which they are written.
StepProgress Trainer::step() {
  const Clock::time_point start = Clock::now();
  const double probe_seconds = probes_.seconds();
  // Weights that are not finite are no checkpoint: the gradient below will stop the run, with its records.
  if (checkpoint_schedule_.at(step_) && weights_are_finite()) save();
  if (eval_schedule_.at(step_)) evaluate_heldout(config_.eval.sequences);

  if (probes_.fixed_due(step_)) measure_fixed();
  batches_.load(step_);
  const bool probing = probes_.begin_step(step_, batches_.inputs(), batches_.targets());
  const double loss = forward_backward(probing);
  if (probing) probes_.finish(stream_, model_->parameters(), loss);

  const double gradient_norm = optimizer_.gradient_norm(stream_);
  if (!std::isfinite(loss) || !std::isfinite(gradient_norm)) stop(loss, gradient_norm, start);
  const double lr = learning_rate(config_.optimizer.lr, config_.schedule, step_, config_.train.steps);
  const double clip = clip_factor(gradient_norm);
  update(lr, clip, probing);

  const Records& records = probes_.records();
  const double seconds = seconds_since(start);
  metrics_.write_step({step_, batches_.tokens(), batches_.counted_targets(), loss, lr, clip, seconds}, records);
  for (const auto& [step, earlier] : probes_.take_retrospective()) metrics_.write(step, earlier);
  ++step_;
  return {step_, loss, batches_.tokens(), seconds, probes_.seconds() - probe_seconds};
}

double Trainer::forward_backward(bool probing) {
  const double scale = 1 / static_cast<double>(batches_.counted_targets());
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
  return total * scale;
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

// What the probes saw of the step is kept: it may show where the first NaN came from. No update, no rate, no clipping.
void Trainer::stop(double loss, double gradient_norm, Clock::time_point start) {
  const double none = std::nan("");
  metrics_.write_step({step_, batches_.tokens(), batches_.counted_targets(), loss, none, none, seconds_since(start)},
                      probes_.records());
  const std::string what =
      fmt::format("loss is {}, norm of the gradient {}; expected finite numbers", loss, gradient_norm);
  metrics_.event(step_, "stopped", what);
  throw machine_error("step {}: {}. The weights are those before this step; the last checkpoint is in {}", step_, what,
                      folder_.checkpoints().string());
}

void Trainer::update(double lr, double clip, bool probing) {
  const auto& o = config_.optimizer;
  const AdamW rule{lr, o.beta1, o.beta2, o.eps, o.weight_decay, clip, step_ + 1};
  std::function<void(const AppliedUpdate&)> on_update;
  if (probing && probes_.needs_updates()) on_update = [&](const AppliedUpdate& u) { probes_.on_update(stream_, u); };
  optimizer_.update(stream_, rule, on_update);
}

// The model with its memory planned and its taps chosen: before the run folder is made, so that what cannot be leaves
// no trace.
std::unique_ptr<Transformer> Trainer::planned_model(const Config& config, const Data& data, ProbeSet& probes) {
  auto model = std::make_unique<Transformer>(data.spec(config), config.dtype());
  probes.plan(model->taps(), data.facts(config, model->spec()));
  model->plan(config.micro_batch(), config.data.sequence, true, &probes);
  return model;
}

Trainer::Trainer(Config config, ProbeSet& probes, const std::string& config_text, bool overwrite)
    : config_(std::move(config)),
      probes_(probes),
      stream_(Device::kCpu, static_cast<int>(config_.threads)),
      data_(std::make_unique<Data>(config_, probes.on() ? probes.set() : "")),
      model_(planned_model(config_, *data_, probes)),
      optimizer_(model_->parameters(), probes.may_need_updates()),
      batches_(data_->train, static_cast<std::uint64_t>(config_.seed.data), config_.train.batch, config_.micro_batch()),
      checkpoint_schedule_(Schedule::parse(config_.checkpoints.at, "checkpoints.at")),
      eval_schedule_(Schedule::parse(config_.eval.at, "eval.at")),
      folder_(RunFolder::create(std::filesystem::path("runs") / config_.name, config_text, overwrite)),
      metrics_(MetricsDb::create(folder_.metrics())) {
  probes_.store_in(folder_.arrays());
  model_->parameters().initialize(static_cast<std::uint64_t>(config_.seed.init));
  metrics_.begin_run(config_.name, fmt::format("{}; {}; {} threads", version(), build_description(), stream_.threads()),
                     config_text);
}

Trainer::~Trainer() = default;

namespace {

double megabytes(std::size_t bytes) { return static_cast<double>(bytes) * 1e-6; }

}  // namespace

void Trainer::announce() const {
  const TransformerSpec& spec = model_->spec();
  fmt::print("{}: {}, {} parameters ({} layers of width {}, {} tokens of vocabulary)\n", config_.name, spec.family,
             model_->parameters().count(), spec.layers, spec.width, spec.vocab);
  fmt::print("{} documents of {} tokens to train on, {} documents held out\n", data_->split.train.size(),
             data_->train_stream.size(), data_->split.heldout.size());
  fmt::print("{} steps of {} sequences of {} tokens\n", config_.train.steps, config_.train.batch,
             config_.data.sequence);
  fmt::print(
      "memory: {:.1f} MB parameters and gradients, {:.1f} MB optimizer, {:.1f} MB activations, {:.1f} MB probes\n",
      megabytes(model_->parameters().bytes()), megabytes(optimizer_.bytes()), megabytes(model_->activation_bytes()),
      megabytes(probes_.bytes()));
  std::fflush(stdout);
}

int Trainer::run() {
  announce();
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
  const Evaluation e = evaluate(stream_, *model_, *data_->heldout, sequences);
  const char* labels = sequences == 0 ? "split=heldout_all" : "split=heldout";
  const Record record = evaluation_record("loss", labels, e.loss, static_cast<std::uint64_t>(e.targets));
  metrics_.write(step_, {&record, 1});
}

bool Trainer::weights_are_finite() {
  double square = 0;
  const Tensor out(&square, DType::kF64, {1});
  return std::all_of(model_->parameters().begin(), model_->parameters().end(), [&](const Parameter& p) {
    sum_squares(stream_, out, p.value);
    return std::isfinite(square);
  });
}

void Trainer::save() {
  CheckpointWriter checkpoint(folder_, step_);
  save_pretrained(checkpoint.path(), *model_);
  if (data_->tokenizer) data_->tokenizer->save_pretrained(checkpoint.path(), model_->spec().context);
  checkpoint.commit();
  metrics_.event(step_, "saved", folder_.checkpoint(step_).filename().string());
}

}  // namespace nascent
