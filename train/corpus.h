// The `nascent corpus` commands, apart from the command line.
#pragma once

#include <string>

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

}  // namespace nascent
