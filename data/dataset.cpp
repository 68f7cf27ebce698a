#include "data/dataset.h"

#include <algorithm>
#include <utility>

#include "kernels/error.h"
#include "kernels/philox.h"

namespace nascent {

Split split_documents(std::uint64_t documents, double fraction) {
  if (!(fraction >= 0 && fraction < 1))
    throw input_error("split: the held-out fraction is {}, expected 0 <= fraction < 1", fraction);
  // A fixed seed: were it the run's, no two runs could be compared on held-out text.
  const Random random(0, "heldout");
  Split split;
  for (std::uint64_t document = 0; document < documents; ++document)
    (random.uniform(document) < fraction ? split.heldout : split.train).push_back(document);
  return split;
}

TokenStream::TokenStream(const TokenFile& file, std::vector<std::uint64_t> documents)
    : file_(&file), documents_(std::move(documents)), begins_{0} {
  begins_.reserve(documents_.size() + 1);
  for (const std::uint64_t document : documents_) begins_.push_back(begins_.back() + file.document_tokens(document));
}

// The last document that begins at or before it; empty ones begin where the next does and are passed over.
std::size_t TokenStream::place_of(std::uint64_t token) const {
  return static_cast<std::size_t>(std::ranges::upper_bound(begins_, token) - begins_.begin()) - 1;
}

void TokenStream::read(std::uint64_t begin, std::span<std::int32_t> out) const {
  if (begin > size() || out.size() > size() - begin)
    throw input_error("stream: {} tokens from token {} asked for, it has {}", out.size(), begin, size());
  std::size_t i = place_of(begin);
  while (!out.empty()) {
    const std::uint64_t part = std::min<std::uint64_t>(begins_[i + 1] - begin, out.size());
    file_->read(documents_[i], begin - begins_[i], out.first(part));
    out = out.subspan(part);
    begin += part;
    ++i;
  }
}

Windows::Windows(const TokenStream& stream, std::int64_t T) : stream_(&stream) {
  if (T < 1) throw input_error("windows: a length of {} tokens, expected at least 1", T);
  length_ = static_cast<std::uint64_t>(T);
  count_ = stream.size() == 0 ? 0 : (stream.size() - 1) / length_;
  if (count_ < 1)
    throw input_error("windows: the documents hold {} tokens, one window of {} needs {}", stream.size(), T,
                      length_ + 1);
}

void Windows::fill(std::uint64_t k, std::span<std::int32_t> inputs, std::span<std::int32_t> targets) const {
  if (inputs.size() != length_ || targets.size() != length_)
    throw input_error("windows: inputs ({}) and targets ({}), expected ({})", inputs.size(), targets.size(), length_);
  if (k >= count_) throw input_error("windows: sample {} asked for, there are {}", k, count_);
  stream_->read(k * length_, inputs);
  std::copy(inputs.begin() + 1, inputs.end(), targets.begin());
  stream_->read((k + 1) * length_, targets.last(1));
}

}  // namespace nascent
