#include "train/resume.h"

#include <algorithm>
#include <cstdio>
#include <fmt/format.h>
#include <utility>

#include "data/digest.h"
#include "data/file.h"
#include "kernels/error.h"
#include "train/metrics_db.h"
#include "train/train.h"

namespace nascent {
namespace {

// What may change from one attempt to the next: nothing here moves a weight, but train.steps where the learning rate
// depends on it (which is said), what becomes of steps that are not finite, and threads, whose number is compared by
// itself. Where data lie may change, their content not.
const std::vector<std::string> kMayChange = {"train.steps",   "train.not_finite", "train.most_skips", "eval.*",
                                             "checkpoints.*", "probes.on",        "probes.*.on",      "probes.*.at",
                                             "data.tokens",   "data.tokenizer",   "threads"};

// What probes keep from step to step is of other sizes, or of other steps, under another of these.
const std::vector<std::string> kShapeState = {"probes.rank",  "probes.explained", "probes.early.*", "probes.basis.*",
                                              "probes.basis", "probes.set",       "probes.detail"};

// "; --from 512 takes the one before it", for who is refused the last checkpoint.
std::string advice(const RunFolder& run, std::int64_t refused) {
  std::vector<std::int64_t> steps = resumable_steps(run);
  std::reverse(steps.begin(), steps.end());
  for (const std::int64_t step : steps) {
    if (step >= refused) continue;
    try {
      read_resumable(run.checkpoint(step));
      return fmt::format("; --from {} goes on from the last one that is whole", step);
    } catch (const Error&) {
      continue;
    }
  }
  return "; no other checkpoint can be resumed from";
}

CheckpointState chosen_checkpoint(const RunFolder& run, std::optional<std::int64_t> from) {
  if (from) return resumable_checkpoint(run, *from);
  const std::vector<std::int64_t> steps = run.checkpoint_steps();
  if (steps.empty()) {
    throw input_error("{}: the run has no checkpoint yet; nascent train --overwrite begins it again",
                      run.path().string());
  }
  try {
    return resumable_checkpoint(run, steps.back());
  } catch (const Error& e) {
    throw input_error("{}{}", e.what(), advice(run, steps.back()));
  }
}

void refuse_changes(const std::vector<ChangedKey>& changes) {
  for (const auto& [key, before, now] : changes) {
    if (is_among(key, kMayChange)) continue;
    throw input_error("{} = {}, but the checkpoint was saved with {}; resume may change only {}", key, now, before,
                      fmt::join(kMayChange, ", "));
  }
}

// What depends on the length of a run moves with it.
std::vector<std::string> notes_on_length(const std::vector<ChangedKey>& changes, const KeyValues& now,
                                         const Config& config, std::int64_t step) {
  std::vector<std::string> notes;
  const auto steps = std::ranges::find(changes, "train.steps", &ChangedKey::key);
  if (steps == changes.end()) return notes;
  if (config.schedule.kind != "constant") {
    notes.push_back(
        fmt::format("train.steps = {} (was {}): the {} schedule depends on it, so from step {} on the learning rates "
                    "are those of a "
                    "run of {} steps\n",
                    steps->now, steps->before, config.schedule.kind, step, steps->now));
  }
  const auto until = std::ranges::find(now, "probes.early.until", &KeyValues::value_type::first);
  if (until != now.end() && until->second.starts_with("\"fraction")) {
    notes.push_back(
        "the window of the basis early is a fraction of train.steps: where it is still open, it closes elsewhere\n");
  }
  return notes;
}

bool is_complete(const RunFolder& run, const Config& config, const CheckpointState& state) {
  return state.step == config.train.steps &&
         MetricsDb::open_for_reading(run.metrics()).has_event(state.step, "finished");
}

// The probes' state as well, or a refusal: on resume nothing may begin anew.
void load_probes(ProbeSet& probes, const std::filesystem::path& checkpoint, const KeyValues& before,
                 const KeyValues& now) {
  const ProbeState state = load_probe_state(checkpoint);
  if (const auto why = misfit(probes, state, before, now)) {
    throw input_error("{}: {}: what begins at step 0 cannot begin here", checkpoint.string(), *why);
  }
  probes.restore(state);
}

}  // namespace

CheckpointState resumable_checkpoint(const RunFolder& run, std::int64_t step) {
  const std::filesystem::path checkpoint = run.checkpoint(step);
  if (is_resumable(checkpoint)) return read_resumable(checkpoint);
  const std::vector<std::int64_t> steps = resumable_steps(run);
  throw input_error(
      "{}: {}; {}", checkpoint.string(),
      std::filesystem::exists(checkpoint) ? "holds no optimizer and state to go on from" : "no such checkpoint",
      steps.empty() ? "none can be gone on from"
                    : fmt::format("resumable are those of steps {}", fmt::join(steps, ", ")));
}

KeyValues saved_keys(const std::filesystem::path& checkpoint, const CheckpointState& state) {
  return RunConfig(ConfigReader::of_text(state.config, (checkpoint / "state.json").string())).values();
}

void require_same_data(const Trainer& trainer, const CheckpointState& state) {
  const Config& config = trainer.config();
  if (trainer.order().tokens != state.order.tokens) {
    throw input_error("data.tokens = \"{}\": these are not the tokens that the checkpoint was trained on",
                      config.data.tokens);
  }
  const auto saved = state.files.find("tokenizer.model");
  const std::string before = saved == state.files.end() ? "" : saved->second,
                    now = config.data.tokenizer.empty() ? "" : file_digest(config.data.tokenizer);
  if (before != now) {
    throw input_error("data.tokenizer = \"{}\": not the tokenizer that the checkpoint holds", config.data.tokenizer);
  }
}

std::optional<std::string> misfit(const ProbeSet& probes, const ProbeState& saved, const KeyValues& before,
                                  const KeyValues& now) {
  for (const auto& [name, matrix] : probes.state()) {
    if (!saved.contains(name)) return fmt::format("the probes kept no {}", name);
  }
  const bool early_is_born = saved.at("early/closed").data.at(0) != 0;
  const bool no_early =
      std::ranges::count(now, std::pair<std::string, std::string>("probes.early.until", "\"never\"")) > 0;
  for (const ChangedKey& c : changed_keys(before, now)) {
    // Detailed steps are what the basis `early` is made of, while its window is open.
    if (c.key == "probes.detail" && (early_is_born || no_early)) continue;
    if (is_among(c.key, kShapeState)) return fmt::format("{} was {}", c.key, c.before);
  }
  return std::nullopt;
}

Resumed open_resumed(const ResumeOptions& options) {
  RunFolder folder = RunFolder::open_to_write(options.run);
  const CheckpointState state = chosen_checkpoint(folder, options.from);
  const std::filesystem::path checkpoint = folder.checkpoint(state.step);

  Resumed resumed;
  resumed.run = std::make_unique<RunConfig>(ConfigReader(folder.config(), options.set));
  RunConfig& run = *resumed.run;
  const Config& config = run.config;
  const KeyValues before = saved_keys(checkpoint, state), now = run.values();
  const std::vector<ChangedKey> changes = changed_keys(before, now);
  refuse_changes(changes);
  if (config.train.steps < state.step) {
    throw input_error("train.steps = {}: the checkpoint has {} steps behind it already", config.train.steps,
                      state.step);
  }
  if (is_complete(folder, config, state)) return resumed;

  const std::string text = run.text();
  RunPlan plan(config, run.probes);
  plan.require_room(folder.path());
  resumed.notes.push_back(plan.description(folder.path()));
  resumed.trainer = std::make_unique<Trainer>(std::move(plan));
  Trainer& trainer = *resumed.trainer;
  require_same_data(trainer, state);
  if (run.probes.on() && !state.probe_set.empty() && trainer.probe_set() != state.probe_set) {
    throw input_error("probes.set = \"{}\": not the probe set that was measured before", run.probes.set());
  }
  const std::string other = differences(state.environment, trainer.environment());
  if (!other.empty() && !options.inexact) {
    throw input_error("{}: {}; the bits would be others, --inexact goes on all the same", checkpoint.string(), other);
  }
  trainer.load(checkpoint, state);
  load_probes(run.probes, checkpoint, before, now);

  // From here on the folder changes.
  trainer.write_to(folder, MetricsDb::append(folder.metrics()), text);
  MetricsDb& metrics = trainer.metrics();
  const std::int64_t aside = folder.set_aside_after(state.step, metrics.attempt());
  if (text != read_file(folder.config())) write_file(folder.config(), text);
  metrics.event(state.step, "resumed", RunFolder::checkpoint_name(state.step));
  if (!other.empty()) metrics.event(state.step, "inexact", other);
  if (!changes.empty()) metrics.event(state.step, "changed", changes_text(changes));
  if (aside > 0) metrics.event(state.step, "set_aside", fmt::format("{} later checkpoints", aside));
  resumed.notes.push_back(fmt::format("{}: going on from step {}\n", folder.path().string(), state.step));
  for (std::string& note : notes_on_length(changes, now, config, state.step)) resumed.notes.push_back(std::move(note));
  return resumed;
}

int resume(const ResumeOptions& options) {
  const Resumed resumed = open_resumed(options);
  for (const std::string& note : resumed.notes) fmt::print("{}", note);
  std::fflush(stdout);
  if (resumed.trainer && options.check_nan) resumed.trainer->check_finite();
  if (resumed.trainer) return run_to_end(*resumed.trainer);
  fmt::print("{}: the run is complete, {} of {} steps; --set train.steps=N makes it longer\n", options.run.string(),
             resumed.run->config.train.steps, resumed.run->config.train.steps);
  return 0;
}

}  // namespace nascent
