#include "train/branch.h"

#include <cstdio>
#include <fmt/format.h>
#include <utility>

#include "kernels/error.h"
#include "model/hugging_face.h"
#include "train/train.h"

namespace nascent {
namespace {

const std::vector<std::string> kMayNotChange = {"precision",    "model.family",  "model.preset",
                                                "model.vocab",  "model.context", "model.width",
                                                "model.layers", "model.heads",   "model.hidden"};

void refuse_changes(const std::vector<ChangedKey>& changes) {
  for (const auto& [key, before, now] : changes) {
    if (!is_among(key, kMayNotChange)) continue;
    throw input_error("{} = {}, but the checkpoint's is {}; a branch may change every key but {}", key, now, before,
                      fmt::join(kMayNotChange, ", "));
  }
}

}  // namespace

Resumed open_branch(const BranchOptions& options) {
  const RunFolder parent = RunFolder::open(options.run);
  const CheckpointState state = resumable_checkpoint(parent, options.step);
  const std::filesystem::path checkpoint = parent.checkpoint(options.step);

  Resumed branch;
  const std::string called = (checkpoint / "state.json").string();
  branch.run = std::make_unique<RunConfig>(ConfigReader::of_text(state.config, called, options.set));
  RunConfig& run = *branch.run;
  Config& config = run.config;
  config.name = options.name;
  config.branch = {options.run.lexically_normal().string(), options.step};
  config.check();
  const std::filesystem::path path = std::filesystem::path("runs") / options.name;
  if (std::filesystem::exists(path)) throw input_error("{}: exists; choose another name for the branch", path.string());
  const KeyValues before = saved_keys(checkpoint, state), now = run.values();
  const std::vector<ChangedKey> changes = changed_keys(before, now);
  refuse_changes(changes);
  if (config.train.steps <= state.step) {
    throw input_error("train.steps = {}: the checkpoint has {} steps behind it already", config.train.steps,
                      state.step);
  }
  // Sizes that the parent took from its data stay, whatever the branch's data are.
  const TransformerSpec spec = load_spec(checkpoint);
  config.model.vocab = spec.vocab;
  config.model.context = spec.context;

  const std::string text = run.text();
  RunPlan plan(config, run.probes);
  plan.require_room(path);
  branch.notes.push_back(plan.description(path));
  branch.trainer = std::make_unique<Trainer>(std::move(plan));
  Trainer& trainer = *branch.trainer;
  trainer.load(checkpoint, state);
  const ProbeState kept = load_probe_state(checkpoint);
  const std::optional<std::string> probes_anew = misfit(run.probes, kept, before, now);
  if (!probes_anew) run.probes.restore(kept);
  const std::string other = differences(state.environment, trainer.environment());
  const bool same_order = trainer.order() == state.order;

  RunFolder folder = RunFolder::create(path, text, false);
  MetricsDb metrics = MetricsDb::create(folder.metrics());
  trainer.write_to(std::move(folder), std::move(metrics), text);
  const auto say = [&](const char* kind, const std::string& line) {
    trainer.metrics().event(state.step, kind, line);
    branch.notes.push_back(fmt::format("{}: {}\n", config.name, line));
  };
  say("branched", fmt::format("from {}; {}", checkpoint.string(), changes_text(changes)));
  if (!same_order) say("data", "another order of samples, begun at its first");
  if (probes_anew) say("probes", fmt::format("{}: their state begins anew at step {}", *probes_anew, state.step));
  if (!other.empty()) say("inexact", other);
  trainer.save(SavedFor::kBranch);
  return branch;
}

int branch(const BranchOptions& options) {
  const Resumed branch = open_branch(options);
  for (const std::string& note : branch.notes) fmt::print("{}", note);
  std::fflush(stdout);
  return run_to_end(*branch.trainer);
}

}  // namespace nascent
