// The `nascent corpus` commands, apart from the command line.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "data/tokenizer.h"

namespace nascent {

struct TrainTokenizerOptions {
  std::string text;                      // UTF-8 file to train on
  std::string separator = "blank-line";  // what ends a document there: "blank-line", "line" or "file"
  std::string model;                     // file to write, customarily NAME.model
  TokenizerSettings tokenizer;
};

// Fits a tokenizer and prints one line of what it wrote. Throws Error; on failure no file is left behind.
void corpus_train_tokenizer(const TrainTokenizerOptions& options);

struct TokenizeOptions {
  std::string text;                      // UTF-8 file to read
  std::string separator = "blank-line";  // what ends a document: "blank-line", "line" or "file"
  std::string tokenizer;                 // SentencePiece model to apply
  std::string out;                       // PREFIX: PREFIX.bin and PREFIX.idx are written
  bool append_eos = false;               // ends each document with the tokenizer's eos
};

// Writes a Megatron token file and prints one line: documents, tokens, bytes per token. Throws Error; on
// failure nothing is left.
void corpus_tokenize(const TokenizeOptions& options);

struct ProbeSetOptions {
  std::string data;                   // PREFIX of a token file
  std::string out;                    // PREFIX.bin, PREFIX.idx and PREFIX.json are written
  std::int64_t tokens = 32768;        // cut down to whole sequences
  std::int64_t sequence = 256;        // T
  double heldout = 0.05;              // as data.heldout of the runs
  std::vector<std::int64_t> edges;    // of the rank bands; empty: 1, 10, 100, ...
  std::vector<std::int32_t> special;  // ids without a rank
  std::int64_t seed = 0;
  bool overwrite = false;  // replaces an older set
};

// Chooses held-out windows (data/probe_choice.h), writes them (data/probe_sequences.h) and prints what each rank band
// reached and why it reached no more. Throws Error.
void corpus_probe_set(const ProbeSetOptions& options);

}  // namespace nascent
