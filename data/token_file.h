// Tokens on disk: the indexed dataset of Megatron-LM, PREFIX.bin and PREFIX.idx, which gpt-neox (Pythia) and
// others read and write too. All numbers little-endian.
//
//   PREFIX.bin   the tokens of all sequences, one after another, uint16 or int32
//   PREFIX.idx   offset 0   9 bytes "MMIDIDX\0\0"
//                       9   uint64 version, 1
//                      17   uint8 type code: 8 uint16, 4 int32; the others hold no token ids
//                      18   uint64 S, number of sequences
//                      26   uint64 D + 1, number of document borders
//                      34   int32 lengths[S] in tokens, int64 pointers[S] in bytes of PREFIX.bin,
//                           int64 borders[D + 1]: document d is the sequences [borders[d], borders[d + 1]),
//                           then, in multimodal sets, int8 modes[S], ignored here
//
// Sequences follow each other without holes, so all tokens are one flat row and a document is a range of it.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "data/file.h"

namespace nascent {

enum class TokenType : std::uint8_t { kI32 = 4, kU16 = 8 };  // values are the format's codes

// Megatron's rule: uint16 for vocabularies below 65500, else int32.
TokenType token_type_for(std::int64_t vocab_size);

class TokenFileWriter {
 public:
  // Tokens are streamed to PREFIX.bin.partial; without finish() nothing is left behind and an older pair
  // stays as it was.
  TokenFileWriter(std::string prefix, std::int64_t vocab_size);

  // One document of any length below 2^31 tokens, zero included. Throws an input error on an id outside
  // [0, vocab_size).
  void add_document(std::span<const std::int32_t> ids);

  // Makes the pair durable. A crash in between can leave PREFIX.bin alone, never a pair that does not belong
  // together.
  void finish();

  std::uint64_t documents() const { return lengths_.size(); }
  std::uint64_t tokens() const { return tokens_; }

 private:
  std::string prefix_;
  std::int64_t vocab_size_;
  TokenType type_;
  AtomicFile bin_;
  std::vector<std::int32_t> lengths_;  // tokens of each document: one sequence a document
  std::uint64_t tokens_ = 0;
};

class TokenFile {
 public:
  // Maps both files and checks every number of the index against their sizes: an input error names file,
  // place and value. Token ids themselves are checked by check_vocabulary, since that reads the whole file.
  explicit TokenFile(const std::string& prefix);

  TokenType type() const { return type_; }
  std::uint64_t documents() const { return documents_; }
  std::uint64_t tokens() const { return tokens_; }
  // First token of a document in the flat row; document_begin(documents()) == tokens().
  std::uint64_t document_begin(std::uint64_t document) const;
  std::uint64_t document_tokens(std::uint64_t document) const;

  // Tokens [offset, offset + out.size()) of a document; throws when the document is shorter.
  void read(std::uint64_t document, std::uint64_t offset, std::span<std::int32_t> out) const;

  // Throws an input error at the first id outside [0, vocab_size), with file, byte offset, id and vocabulary.
  void check_vocabulary(std::int64_t vocab_size) const;

 private:
  std::uint64_t border(std::uint64_t i) const;   // of documents, in sequences
  std::uint64_t pointer(std::uint64_t i) const;  // of a sequence, in bytes
  std::int32_t length(std::uint64_t i) const;    // of a sequence, in tokens
  void read_header();
  void check_index() const;

  MappedFile bin_;
  MappedFile idx_;
  TokenType type_ = TokenType::kU16;
  std::uint64_t sequences_ = 0;
  std::uint64_t documents_ = 0;
  std::uint64_t tokens_ = 0;
};

}  // namespace nascent
