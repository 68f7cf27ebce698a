// A run as it is configured, all of its input checked and its needs known, before it takes memory for it or leaves
// anything on the disk. `nascent train` starts from one, `nascent config --check` ends with it.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <vector>

#include "data/dataset.h"
#include "data/probe_sequences.h"
#include "data/token_file.h"
#include "data/tokenizer.h"
#include "model/transformer.h"
#include "probes/probe_set.h"
#include "probes/schedule.h"
#include "train/config.h"
#include "train/needs.h"

namespace nascent {

// Token file, split, windows and probe set. Parts refer to others: it stays where it is.
struct RunData {
  // probe_set: PREFIX of one, or empty.
  RunData(const Config& config, const std::string& probe_set);
  RunData(const RunData&) = delete;
  RunData& operator=(const RunData&) = delete;

  TransformerSpec spec(const Config& config) const;
  RunFacts facts(const Config& config, const TransformerSpec& spec) const;

  TokenFile file;
  std::optional<Tokenizer> tokenizer;
  Split split;
  TokenStream train_stream, heldout_stream;
  Windows train;
  std::optional<Windows> heldout;
  std::optional<ProbeSequences> fixed;  // the probe set
};

struct RunPlan {
  // config: checked (Config::check). Everything else that can be wrong with the input throws here. Tells the probes the
  // taps and the sequence.
  RunPlan(Config run_config, ProbeSet& run_probes);

  std::filesystem::path folder() const { return std::filesystem::path("runs") / config.name; }
  // The model's slabs, the optimizer's and the batch's to the byte; the rest is of the order of what it names.
  Needs memory() const;
  // Checkpoints are weights alone, but for those that keep the optimizer; metrics.db and arrays as if every probe ran at every step, with details where
  // probes.detail has them by default.
  Needs disk() const;
  // What is trained, on how much, and the needs beside what there is, in some lines. folder: of the run.
  std::string description(const std::filesystem::path& folder) const;
  // Throws (input) where there is too little.
  void require_room(const std::filesystem::path& folder) const;
  // Prints the one and does the other.
  void announce(const std::filesystem::path& folder) const;

  Config config;
  ProbeSet& probes;
  Schedule checkpoints, resumable, evaluations;
  std::unique_ptr<RunData> data;
  std::unique_ptr<Transformer> model;  // planned, without memory

 private:
  Need parameters() const;
  Need optimizer() const;
  Need batch() const;
  Need statistics() const;
  std::vector<const Tap*> measured_taps() const;
};

// Floating point operations of a step: 6 for each token and parameter of a matrix (2 forward, 4 backward), and those of
// attention, whose backward computes the scores again: 7 products of half a square of T x T for every layer and sequence.
double step_operations(const TransformerSpec& spec, std::int64_t batch, std::int64_t sequence);

// Such operations per second, as forward and backward of a model of these sizes but at most two layers do them on this
// machine: tried for half a second.
double measured_rate(Stream& s, TransformerSpec spec, DType dtype, std::int64_t sequence);

}  // namespace nascent
