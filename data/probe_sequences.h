// A probe set on disk: PREFIX.bin and PREFIX.idx, a token file with one document of T + 1 tokens a sequence, so that
// every position has a target; and PREFIX.json, which says what it is:
//
//   sequence, sequences, tokens   T, how many, T x sequences
//   hash                          16 hexadecimal digits: XXH3 (64 bits) of all tokens in order as little-endian int32
//
// beside whatever its maker added. It is made once for a tokenizer and shared by all runs; the hash in a run's record
// says which one it was.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "data/dataset.h"
#include "data/json.h"
#include "data/token_file.h"

namespace nascent {

// 16 hexadecimal digits: XXH3 (64 bits) of the bytes of PREFIX.bin followed by those of PREFIX.idx.
std::string hash_of_token_file(const std::string& prefix);

// Writes windows k, tokens [kT, kT + T], of the stream in the order given, and `record` with the keys above added.
// Returns the hash. Replaces an older set; a crash can leave one without its PREFIX.json, which no reader takes.
std::string write_probe_set(const std::string& prefix, const TokenStream& stream, std::int64_t T,
                            std::span<const std::uint64_t> windows, std::int64_t vocab, JsonObject record);

class ProbeSequences {
 public:
  // Reads all of it. Throws an input error when a file is missing or damaged, or when tokens and hash disagree.
  explicit ProbeSequences(const std::string& prefix);

  std::int64_t sequences() const { return static_cast<std::int64_t>(file_.documents()); }
  std::int64_t length() const { return length_; }  // T
  const std::string& hash() const { return hash_; }

  // Throw an input error at the first id outside [0, vocab), with file and byte offset, and when T is not length().
  void require_vocabulary(std::int64_t vocab) const { file_.check_vocabulary(vocab); }
  void require_length(std::int64_t T) const;

  // Sequences [first, first + count) into inputs and targets [count, T]: targets[i, t] is the token behind
  // inputs[i, t]. Throws an input error on other sizes or a sequence beyond the last.
  void read(std::int64_t first, std::int64_t count, std::span<std::int32_t> inputs,
            std::span<std::int32_t> targets) const;

 private:
  std::string prefix_;
  TokenFile file_;
  std::int64_t length_ = 0;
  std::string hash_;
};

}  // namespace nascent
