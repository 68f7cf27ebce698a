#include "data/probe_sequences.h"

#include <algorithm>
#include <filesystem>
#include <memory>
#include <vector>
#include <xxhash.h>

#include "data/file.h"
#include "kernels/error.h"

namespace nascent {
namespace {

class Hash {
 public:
  Hash() : state_(XXH3_createState()) {
    if (!state_) throw std::bad_alloc();
    XXH3_64bits_reset(state_.get());
  }
  void add(std::span<const std::byte> bytes) { XXH3_64bits_update(state_.get(), bytes.data(), bytes.size()); }
  std::string digits() const { return fmt::format("{:016x}", XXH3_64bits_digest(state_.get())); }

 private:
  struct Free {
    void operator()(XXH3_state_t* state) const { XXH3_freeState(state); }
  };
  std::unique_ptr<XXH3_state_t, Free> state_;
};

std::string record_path(const std::string& prefix) { return prefix + ".json"; }

}  // namespace

std::string hash_of_token_file(const std::string& prefix) {
  Hash hash;
  for (const char* ending : {".bin", ".idx"}) hash.add(MappedFile(prefix + ending).bytes());
  return hash.digits();
}

std::string write_probe_set(const std::string& prefix, const TokenStream& stream, std::int64_t T,
                            std::span<const std::uint64_t> windows, std::int64_t vocab, JsonObject record) {
  const Windows cut(stream, T);
  const auto length = static_cast<std::uint64_t>(T);
  TokenFileWriter writer(prefix, vocab);
  Hash hash;
  std::vector<std::int32_t> tokens(length + 1);
  for (const std::uint64_t k : windows) {
    if (k >= cut.count()) throw input_error("probe set: window {} asked for, there are {}", k, cut.count());
    stream.read(k * length, tokens);
    writer.add_document(tokens);
    hash.add(std::as_bytes(std::span(tokens)));
  }
  record.set("sequence", T);
  record.set("sequences", std::ssize(windows));
  record.set("tokens", T * std::ssize(windows));
  record.set("hash", hash.digits());
  // An older record must not meet new tokens.
  std::error_code ignored;
  std::filesystem::remove(record_path(prefix), ignored);
  writer.finish();
  write_file(record_path(prefix), record.dump());
  return hash.digits();
}

ProbeSequences::ProbeSequences(const std::string& prefix) : prefix_(prefix), file_(prefix) {
  const std::string path = record_path(prefix);
  const JsonObject record = JsonObject::parse(read_file(path), path);
  length_ = record.integer("sequence", 0);
  hash_ = record.text("hash", "");
  if (length_ < 1 || hash_.empty()) throw input_error("{}: has no sequence or no hash, so it is no probe set's", path);
  if (record.integer("sequences", 0) != sequences() || sequences() < 1)
    throw input_error("{}: says {} sequences, {}.bin has {}", path, record.integer("sequences", 0), prefix,
                      sequences());
  Hash hash;
  std::vector<std::int32_t> tokens;
  for (std::uint64_t i = 0; i < file_.documents(); ++i) {
    if (file_.document_tokens(i) != static_cast<std::uint64_t>(length_) + 1)
      throw input_error("{}.bin: sequence {} has {} tokens, expected {} by {}", prefix, i, file_.document_tokens(i),
                        static_cast<std::uint64_t>(length_) + 1, path);
    tokens.resize(file_.document_tokens(i));
    file_.read(i, 0, tokens);
    hash.add(std::as_bytes(std::span(tokens)));
  }
  if (hash.digits() != hash_)
    throw input_error("{}.bin: its tokens have hash {}, {} says {}: damaged, or another set's", prefix, hash.digits(),
                      path, hash_);
}

void ProbeSequences::require_length(std::int64_t T) const {
  if (T != length_) throw input_error("{}: sequences of {} tokens, expected {}", prefix_, length_, T);
}

void ProbeSequences::read(std::int64_t first, std::int64_t count, std::span<std::int32_t> inputs,
                          std::span<std::int32_t> targets) const {
  if (first < 0 || count < 0 || first > sequences() || count > sequences() - first)
    throw input_error("{}: {} sequences from sequence {} asked for, it has {}", prefix_, count, first, sequences());
  const auto T = static_cast<std::size_t>(length_), n = static_cast<std::size_t>(count);
  if (inputs.size() != n * T || targets.size() != n * T)
    throw input_error("{}: inputs ({}) and targets ({}), expected ({})", prefix_, inputs.size(), targets.size(), n * T);
  for (std::size_t i = 0; i < n; ++i) {
    const std::uint64_t sequence = static_cast<std::uint64_t>(first) + i;
    file_.read(sequence, 0, inputs.subspan(i * T, T));
    file_.read(sequence, 1, targets.subspan(i * T, T));
  }
}

}  // namespace nascent
