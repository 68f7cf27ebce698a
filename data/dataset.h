// Documents to samples: which documents are held out, the stream the others form, and the windows cut from
// it.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "data/token_file.h"

namespace nascent {

// The documents of a file, each in one of two lists, in file order.
struct Split {
  std::vector<std::uint64_t> train;
  std::vector<std::uint64_t> heldout;
};

// Holds out about `fraction` (in [0, 1), else an input error) of the documents. Whether a document is held
// out depends on its number and the fraction alone: all runs share one held-out set, and a larger fraction
// contains a smaller one's.
Split split_documents(std::uint64_t documents, double fraction);

// Chosen documents of a token file, one after another, as one row of tokens. The file must outlive the
// stream.
class TokenStream {
 public:
  TokenStream(const TokenFile& file, std::vector<std::uint64_t> documents);

  std::uint64_t size() const { return begins_.back(); }  // tokens
  // First token of each document, and the end; an empty one begins where the next does.
  std::span<const std::uint64_t> begins() const { return begins_; }

  // Tokens [begin, begin + out.size()), across the borders of documents; throws beyond the end.
  void read(std::uint64_t begin, std::span<std::int32_t> out) const;

  // The document, by its number in the file, that a token of the stream belongs to.
  std::uint64_t document_of(std::uint64_t token) const { return documents_[place_of(token)]; }

 private:
  // Of the document around a token, among those of the stream.
  std::size_t place_of(std::uint64_t token) const;

  const TokenFile* file_;
  std::vector<std::uint64_t> documents_;
  std::vector<std::uint64_t> begins_;
};

// Samples of T tokens: sample k is tokens [k T, (k + 1) T) of the stream, for every objective. The causal
// target of a token is the one behind it, so a stream of n tokens has (n - 1) / T samples. The stream must
// outlive the windows.
class Windows {
 public:
  // Throws an input error when T < 1 or the stream has fewer than T + 1 tokens.
  Windows(const TokenStream& stream, std::int64_t T);

  std::uint64_t count() const { return count_; }
  std::int64_t length() const { return static_cast<std::int64_t>(length_); }  // T

  // The document in which sample k begins, by its number in the file.
  std::uint64_t document_of(std::uint64_t k) const { return stream_->document_of(k * length_); }

  // inputs and targets (T): targets[t] is the token behind inputs[t]. Throws on another size or k >= count().
  void fill(std::uint64_t k, std::span<std::int32_t> inputs, std::span<std::int32_t> targets) const;

 private:
  const TokenStream* stream_;
  std::uint64_t length_;
  std::uint64_t count_;
};

}  // namespace nascent
