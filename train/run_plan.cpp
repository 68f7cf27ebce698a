#include "train/run_plan.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <fmt/format.h>
#include <initializer_list>
#include <iterator>

#include "data/counts.h"
#include "kernels/error.h"
#include "kernels/linear_cross_entropy.h"

namespace nascent {
namespace {

Windows windows(const TokenStream& stream, const char* side, const Config& config) {
  if (stream.size() > static_cast<std::uint64_t>(config.data.sequence)) return Windows(stream, config.data.sequence);
  throw input_error("data.sequence = {} with data.heldout = {}: the {} documents hold {} tokens, expected {} or more",
                    config.data.sequence, config.data.heldout, side, stream.size(), config.data.sequence + 1);
}

template <class T>
double d(T number) {
  return static_cast<double>(number);
}

// How many of the steps 0 ... steps - 1 one of the schedules has.
std::int64_t times(std::initializer_list<const Schedule*> schedules, std::int64_t steps) {
  std::int64_t n = 0;
  for (std::int64_t step = 0; step < steps; ++step)
    n += std::ranges::any_of(schedules, [step](const Schedule* s) { return s->at(step); }) ? 1 : 0;
  return n;
}

}  // namespace

RunData::RunData(const Config& config, const std::string& probe_set)
    : file(config.data.tokens),
      split(split_documents(file.documents(), config.data.heldout)),
      train_stream(file, split.train),
      heldout_stream(file, split.heldout),
      train(windows(train_stream, "training", config)) {
  if (!probe_set.empty()) fixed.emplace(probe_set);
  if (!config.data.tokenizer.empty()) tokenizer.emplace(Tokenizer::load(config.data.tokenizer));
  if (config.data.heldout > 0) heldout.emplace(windows(heldout_stream, "held-out", config));
}

TransformerSpec RunData::spec(const Config& config) const {
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

RunFacts RunData::facts(const Config& config, const TransformerSpec& spec) const {
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

RunPlan::RunPlan(Config run_config, ProbeSet& run_probes)
    : config(std::move(run_config)),
      probes(run_probes),
      checkpoints(Schedule::parse(config.checkpoints.at, "checkpoints.at")),
      resumable(Schedule::parse(config.checkpoints.resumable, "checkpoints.resumable")),
      evaluations(Schedule::parse(config.eval.at, "eval.at")),
      data(std::make_unique<RunData>(config, probes.on() ? probes.set() : "")),
      model(std::make_unique<Transformer>(data->spec(config), config.dtype(), Transformer::Memory::kLater)) {
  probes.plan(model->taps(), data->facts(config, model->spec()));
  model->plan(config.micro_batch(), config.data.sequence, true, &probes);
}

Need RunPlan::parameters() const { return {"parameters and gradients", d(model->parameters().bytes())}; }

// Two moments, and the weights before an update where a probe compares: each as large as the weights.
Need RunPlan::optimizer() const { return {"optimizer", parameters().bytes / 2 * (probes.may_need_updates() ? 3 : 2)}; }

Need RunPlan::batch() const { return {"batch", 2 * 4 * d(config.train.batch) * d(config.data.sequence)}; }

std::vector<const Tap*> RunPlan::measured_taps() const {
  const ProbeState state = probes.state();
  std::vector<const Tap*> taps;
  for (const Tap* tap : model->taps()) {
    if (state.contains("step/" + tap->name + "/start/gradient")) taps.push_back(tap);
  }
  return taps;
}

// Activations and gradients of a whole step at the taps; and at each about ten square matrices in double: second moments of
// all positions and of halves, of both, and what is pooled of them.
Need RunPlan::statistics() const {
  double bytes = d(probes.bytes());
  for (const Tap* tap : measured_taps()) bytes += 10 * 8 * d(tap->width) * d(tap->width);
  return {"probes", bytes};
}

Needs RunPlan::memory() const {
  const TransformerSpec& spec = model->spec();
  const double logits = 2 * d(head_block_rows(spec.vocab)) * d(spec.vocab) * d(size_of(config.dtype()));
  double laid_out = 0;  // tensors that a checkpoint's file has in another order
  for (const Parameter& p : model->parameters()) laid_out += p.layout.kind == Layout::kPlain ? 0 : d(p.value.bytes());
  const double ngrams = config.eval.ngrams && data->heldout ? 60 * d(data->train_stream.size()) : 0;
  return {parameters(),
          optimizer(),
          {"activations", d(model->activation_bytes())},
          batch(),
          statistics(),
          {"logits", logits},
          {"saving", laid_out},
          {"n-gram models", ngrams}};
}

Needs RunPlan::disk() const {
  double weights = 0, squares = 0;
  for (const Parameter& p : model->parameters()) weights += d(p.value.bytes());
  const std::vector<const Tap*> taps = measured_taps();
  for (const Tap* tap : taps) squares += d(tap->width) * d(tap->width);
  const double steps = d(config.train.steps),
               saved = 1 + d(times({&checkpoints, &resumable}, config.train.steps));  // the last one too
  // The last two, one being written, and those asked for.
  const double with_moments = 3 + d(times({&resumable}, config.train.steps));
  const Schedule log = Schedule::parse({"log"});
  const double detailed = d(times({&log}, config.train.steps));
  constexpr double kOfTap = 85, kOfParameter = 5, kOfDetailedTap = 650, kBytesOfRecord = 65;
  double records = steps;
  if (!taps.empty()) {
    const auto parameters = d(std::distance(model->parameters().begin(), model->parameters().end()));
    records +=
        steps * (kOfTap * d(taps.size()) + kOfParameter * parameters) + detailed * kOfDetailedTap * d(taps.size());
  }
  return {{fmt::format("checkpoints ({})", saved), saved * weights},
          {fmt::format("optimizer state ({})", with_moments), with_moments * 2 * weights},
          {"metrics.db", records * kBytesOfRecord},
          {"arrays", detailed * 2 * 4 * squares}};
}

std::string RunPlan::description(const std::filesystem::path& folder) const {
  const TransformerSpec& spec = model->spec();
  return fmt::format(
      "{}: {}, {} parameters ({} layers of width {}, {} tokens of vocabulary)\n"
      "{} documents of {} tokens to train on, {} documents held out\n"
      "{} steps of {} sequences of {} tokens\n"
      "{}\n{}\n",
      config.name, spec.family, model->parameters().count(), spec.layers, spec.width, spec.vocab,
      data->split.train.size(), data->train_stream.size(), data->split.heldout.size(), config.train.steps,
      config.train.batch, config.data.sequence, text("memory", memory(), memory_room()),
      text("disk", disk(), disk_room(folder)));
}

void RunPlan::require_room(const std::filesystem::path& folder) const {
  nascent::require_room("memory", memory(), memory_room());
  nascent::require_room("disk", disk(), disk_room(folder));
}

void RunPlan::announce(const std::filesystem::path& folder) const {
  fmt::print("{}", description(folder));
  std::fflush(stdout);
  require_room(folder);
}

double step_operations(const TransformerSpec& spec, std::int64_t batch, std::int64_t sequence) {
  const double c = d(spec.width), layers = d(spec.layers), t = d(sequence);
  const double attention = 2 * c * c + 2 * c * d(spec.key_width()), mlp = (spec.gated() ? 3 : 2) * c * d(spec.hidden);
  const double matrices = layers * (attention + mlp) + d(spec.vocab) * c;
  return d(batch) * t * (6 * matrices + 7 * layers * c * t);
}

double measured_rate(Stream& s, TransformerSpec spec, DType dtype, std::int64_t sequence) {
  using Clock = std::chrono::steady_clock;
  constexpr std::int64_t kLayers = 2, kPositions = 2048;
  spec.layers = std::min(spec.layers, kLayers);
  const std::int64_t batch = std::max<std::int64_t>(kPositions / sequence, 1);
  Transformer model(spec, dtype);  // of zeros, which take as long as other numbers
  model.plan(batch, sequence, true, nullptr);
  const auto tokens = s.scratch(DType::kI32, {batch, sequence});
  std::fill_n(tokens.data<std::int32_t>(), batch * sequence, 0);
  const auto step = [&] {
    model.forward(s, tokens);
    model.backward(s, tokens, 1);
  };
  step();  // prepares products and threads
  const Clock::time_point start = Clock::now();
  double seconds = 0, steps = 0;
  for (; seconds < 0.5; ++steps) {
    step();
    seconds = std::chrono::duration<double>(Clock::now() - start).count() + 1e-9;
  }
  return steps * step_operations(spec, batch, sequence) / seconds;
}

}  // namespace nascent
