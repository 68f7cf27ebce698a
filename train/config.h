// A run's configuration: every key with its default, one declaration for reading, writing and explaining.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kernels/settings.h"
#include "kernels/view.h"
#include "model/family.h"

namespace nascent {

struct Config {
  std::string name;  // the run's folder is runs/NAME
  std::string precision = "fp32";
  std::int64_t threads = 0;

  struct {
    std::string family = "gpt2", preset, activation = "family", tied = "family";
    std::int64_t vocab = 0, context = 0, width = 0, layers = 0, heads = 0, key_value_heads = 0, hidden = 0;
    double rotary_base = 0;
  } model;

  struct {
    std::string tokens, tokenizer;
    double heldout = 0.05;
    std::int64_t sequence = 256;
  } data;

  struct {
    std::int64_t steps = 1000, batch = 16, micro_batch = 0, most_skips = 100;
    std::string not_finite = "abort";
  } train;

  struct {
    double lr = 6e-4, beta1 = 0.9, beta2 = 0.95, eps = 1e-8, weight_decay = 0.1, clip = 1;
  } optimizer;

  struct LearningRate {
    std::string kind = "cosine";
    std::int64_t warmup = 100;
    double decay = 0.2, floor = 0.1;
  } schedule;

  struct {
    std::int64_t init = 1, data = 1, probe = 1;
  } seed;

  struct {
    std::vector<std::string> at = {"every 100"};
    std::int64_t sequences = 64;
    bool ngrams = false;
  } eval;

  struct {
    std::vector<std::string> at = {"pythia"}, resumable = {"never"};
  } checkpoints;

  struct {
    std::string parent;  // the run's folder; empty: trained from its initialization
    std::int64_t step = 0;
  } branch;

  void settings(Settings& s);
  // What one key alone cannot tell: throws (input) and names the keys that do not fit together.
  void check() const;

  DType dtype() const { return precision == "fp64" ? DType::kF64 : DType::kF32; }
  std::int64_t micro_batch() const { return train.micro_batch > 0 ? train.micro_batch : train.batch; }
  // The model asked for: the preset's sizes, with those given here in their place. vocab: the tokenizer's, where no
  // size is given.
  TransformerSpec spec(std::int64_t tokenizer_vocab) const;
};

// The learning rate of step s of `steps`, above 0 from the first update on: a linear warm-up, then
//   constant   lr
//   cosine     from lr to floor * lr along half a cosine
//   wsd        lr, then over the last `decay` of the steps linearly to floor * lr (warm-up, stable, decay)
double learning_rate(double lr, const Config::LearningRate& schedule, std::int64_t step, std::int64_t steps);

}  // namespace nascent
