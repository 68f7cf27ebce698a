#include "train/config.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "kernels/error.h"
#include "probes/schedule.h"

namespace nascent {

namespace {

std::vector<std::string> preset_names(const Family& family) {
  std::vector<std::string> names;
  for (const Preset& preset : family.presets) names.push_back(preset.name);
  return names;
}

// "gpt2: distilgpt2, gpt2; pythia: 14m, 31m"
std::string all_presets() {
  std::vector<std::string> families;
  for (const std::string& name : family_names()) {
    families.push_back(fmt::format("{}: {}", name, fmt::join(preset_names(family_of(name)), ", ")));
  }
  return fmt::format("{}", fmt::join(families, "; "));
}

}  // namespace

void Config::settings(Settings& s) {
  s.key("name", name, "name of the run; its folder is runs/NAME");
  s.choice("precision", precision, {"fp32", "fp64"},
           "numbers of weights, activations and gradients; fp64 is for tiny models");
  s.key("threads", threads, 0, 4096, "CPU threads; 0 takes all this process may use");

  s.begin("model");
  s.choice("family", model.family, family_names(), "architecture");
  s.key("preset", model.preset, fmt::format("published sizes to start from; empty: none. {}", all_presets()).c_str());
  s.key("vocab", model.vocab, 0, TransformerSpec::kMostVocab,
        "rows of the embedding; 0: the preset's, else the tokenizer's");
  s.key("context", model.context, 0, TransformerSpec::kMostContext, "positions; 0: the preset's, else data.sequence");
  s.key("width", model.width, 0, TransformerSpec::kMostWidth, "size of the residual stream; 0: the preset's");
  s.key("layers", model.layers, 0, TransformerSpec::kMostLayers, "blocks; 0: the preset's");
  s.key("heads", model.heads, 0, TransformerSpec::kMostHeads, "attention heads, a divisor of width; 0: the preset's");
  s.key("key_value_heads", model.key_value_heads, 0, TransformerSpec::kMostHeads,
        "heads of keys and values, a divisor of heads; 0: the preset's, else as many as heads");
  s.key("hidden", model.hidden, 0, TransformerSpec::kMostHidden,
        "width of the MLP; 0: the preset's, else four times width, or 8/3 of it where the MLP has a gate");
  s.choice("activation", model.activation, {"family", "gelu_tanh", "gelu_erf"},
           "of an MLP without gate; family: its own");
  s.choice("tied", model.tied, {"family", "yes", "no"},
           "the output matrix is the embedding; family: as it or the preset has it");
  s.key("rotary_base", model.rotary_base, 0, 1e12, "of rotary positions (rope theta); 0: the family's or the preset's");
  s.end();

  s.begin("data");
  s.key("tokens", data.tokens, "token file: PREFIX of PREFIX.bin and PREFIX.idx");
  s.key("tokenizer", data.tokenizer, "SentencePiece model the tokens were made with; copied into checkpoints");
  s.key("heldout", data.heldout, 0, 0.5,
        "share of the documents that is never trained on; the same documents for every run");
  s.key("sequence", data.sequence, 1, 1 << 20, "tokens of a sequence");
  s.end();

  s.begin("train");
  s.key("steps", train.steps, 1, 1000000000, "steps, each with an optimizer update");
  s.key("batch", train.batch, 1, 1 << 24, "sequences of one step");
  s.key("micro_batch", train.micro_batch, 0, 1 << 24,
        "sequences computed at a time, a divisor of batch; 0: all of them");
  s.choice("not_finite", train.not_finite, {"abort", "skip"},
           "a loss or gradient with NaN or infinity ends the run before the update (abort) or has none (skip)");
  s.key("most_skips", train.most_skips, 1, kNoLimit, "steps in a row without an update that end the run all the same");
  s.end();

  s.begin("optimizer");
  s.key("lr", optimizer.lr, 0, 100, "AdamW: peak learning rate");
  s.key("beta1", optimizer.beta1, 0, 0.999999, "AdamW: decay of the first moment");
  s.key("beta2", optimizer.beta2, 0, 0.999999999, "AdamW: decay of the second moment");
  s.key("eps", optimizer.eps, 0, 1, "AdamW: added to the root of the second moment");
  s.key("weight_decay", optimizer.weight_decay, 0, 100, "AdamW: of weights and embeddings; never of biases and norms");
  s.key("clip", optimizer.clip, 0, 1e9, "largest norm of the whole gradient; 0: no clipping");
  s.end();

  s.begin("schedule");
  s.choice("kind", schedule.kind, {"constant", "cosine", "wsd"}, "of the learning rate after the warm-up");
  s.key("warmup", schedule.warmup, 0, 1000000000, "steps of linear warm-up; the first update is above zero");
  s.key("decay", schedule.decay, 0, 1, "wsd: share of the steps in which the rate falls at the end");
  s.key("floor", schedule.floor, 0, 1, "cosine, wsd: share of lr that remains at the end");
  s.end();

  s.begin("seed");
  s.key("init", seed.init, 0, kNoLimit, "of the initial weights");
  s.key("data", seed.data, 0, kNoLimit, "of the order of samples");
  s.key("probe", seed.probe, 0, kNoLimit, "of what probes draw: controls");
  s.end();

  s.begin("eval");
  s.key("at", eval.at,
        fmt::format("steps whose model is evaluated on held-out documents, beside the final one: {}", Schedule::kRules)
            .c_str());
  s.key("sequences", eval.sequences, 0, kNoLimit, "held-out sequences of an evaluation on the way; 0: all of them");
  s.key("ngrams", eval.ngrams, "compare with n-gram models of the same split (in memory: about 60 bytes a token)");
  s.end();

  s.begin("checkpoints");
  s.key("at", checkpoints.at,
        fmt::format("steps whose model is saved, beside the final one: {}", Schedule::kRules).c_str());
  s.key(
      "resumable", checkpoints.resumable,
      fmt::format("steps whose checkpoint keeps its optimizer, for nascent branch and replay; the last two always do: "
                  "{}",
                  Schedule::kRules)
          .c_str());
  s.end();

  s.begin("branch");
  s.key("parent", branch.parent, "folder of the run this one began from, as nascent branch writes it; empty: none");
  s.key("step", branch.step, 0, kNoLimit, "of the parent's checkpoint");
  s.end();
}

void Config::check() const {
  const auto required = [](const char* key, const std::string& value) {
    if (value.empty()) throw input_error("{} is missing, expected a text", key);
  };
  required("name", name);
  required("data.tokens", data.tokens);
  if (name.find('/') != std::string::npos || name == "." || name == "..") {
    throw input_error("name = \"{}\": expected a name without slashes; the run's folder is runs/NAME", name);
  }
  const auto is_control = [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; };
  if (name.size() > 255 || std::ranges::any_of(name, is_control)) {
    throw input_error("name = {:?}: expected no control characters and at most 255 bytes", name);
  }
  if (train.batch % micro_batch() != 0) {
    throw input_error("train.micro_batch = {} does not divide train.batch = {}", train.micro_batch, train.batch);
  }
}

TransformerSpec Config::spec(std::int64_t tokenizer_vocab) const {
  const Family& family = family_of(model.family);
  TransformerSpec spec = family.base;
  if (!model.preset.empty()) {
    const auto found = std::find_if(family.presets.begin(), family.presets.end(),
                                    [&](const Preset& p) { return p.name == model.preset; });
    if (found == family.presets.end()) {
      throw input_error("model.preset = \"{}\": family {} has none of that name, expected one of: {}", model.preset,
                        family.name, fmt::join(preset_names(family), ", "));
    }
    spec = found->spec;
  }
  spec.family = family.name;
  const auto take = [](std::int64_t& size, std::int64_t given) { size = given > 0 ? given : size; };
  take(spec.vocab, model.vocab);
  take(spec.context, model.context);
  take(spec.width, model.width);
  take(spec.layers, model.layers);
  take(spec.heads, model.heads);
  take(spec.key_value_heads, model.key_value_heads);
  take(spec.hidden, model.hidden);
  if (spec.vocab == 0) spec.vocab = tokenizer_vocab;
  if (spec.context == 0) spec.context = data.sequence;
  const auto refuse = [&](const char* key, const char* why) {
    throw input_error("model.{}: family {} {}", key, family.name, why);
  };
  if (model.activation != "family") {
    if (spec.gated()) refuse("activation", "has an MLP with a gate and its own activation");
    spec.activation = model.activation == "gelu_tanh" ? Activation::kGeluTanh : Activation::kGeluErf;
  }
  if (model.tied != "family") spec.tied = model.tied == "yes";
  if (!spec.tied && !family.has("unembed.weight")) refuse("tied", "has no output matrix of its own");
  if (model.key_value_heads > 0 && !family.has("blocks.{}.attn.q.weight"))
    refuse("key_value_heads", "has no grouped heads");
  if (model.rotary_base > 0) {
    if (spec.positions != Positions::kRotary) refuse("rotary_base", "has no rotary positions");
    spec.rotary_base = model.rotary_base;
  }
  family.complete(spec);
  spec.check();
  if (data.sequence > spec.context) {
    throw input_error("data.sequence = {} is longer than the model's context of {}", data.sequence, spec.context);
  }
  if (spec.vocab < tokenizer_vocab)
    throw input_error("model.vocab = {} is less than the tokenizer's {}", spec.vocab, tokenizer_vocab);
  return spec;
}

double learning_rate(double lr, const Config::LearningRate& schedule, std::int64_t step, std::int64_t steps) {
  const auto d = [](std::int64_t n) { return static_cast<double>(n); };
  if (step < schedule.warmup) return lr * d(step + 1) / d(schedule.warmup);
  double along = 0;  // the share of the descent that is behind
  if (schedule.kind == "cosine") {
    along = (1 - std::cos(std::numbers::pi * d(step - schedule.warmup) / d(steps - schedule.warmup))) / 2;
  } else if (schedule.kind == "wsd") {
    const std::int64_t first = std::max<std::int64_t>(schedule.warmup, steps - std::llround(schedule.decay * d(steps)));
    if (step >= first) along = d(step - first + 1) / d(steps - first + 1);
  }
  return lr * (1 - along * (1 - schedule.floor));
}

}  // namespace nascent
