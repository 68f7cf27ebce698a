#include "data/token_file.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <filesystem>
#include <limits>
#include <string_view>
#include <utility>

#include "kernels/error.h"

namespace nascent {
namespace {

static_assert(std::endian::native == std::endian::little, "token files are mapped as they are, little-endian");

constexpr std::string_view kMagic("MMIDIDX\0\0", 9);
constexpr std::uint64_t kVersion = 1;
constexpr std::uint64_t kHeaderBytes = 34;
constexpr std::uint64_t kSmallVocabulary = 65500;

std::uint64_t size_of(TokenType type) { return type == TokenType::kU16 ? 2 : 4; }

// Fields of the index stand at odd offsets: copied, never dereferenced in place. The caller has checked the
// size.
template <class T>
T load(const MappedFile& file, std::uint64_t offset) {
  T value;
  std::memcpy(&value, file.bytes().data() + offset, sizeof(T));
  return value;
}

template <class T>
void append(AtomicFile& file, T value) {
  file.append(std::as_bytes(std::span(&value, 1)));
}

template <class T>
void copy_tokens(const std::byte* from, std::span<std::int32_t> out) {
  for (std::size_t i = 0; i < out.size(); ++i) {
    T id;
    std::memcpy(&id, from + i * sizeof(T), sizeof(T));
    out[i] = id;
  }
}

}  // namespace

TokenType token_type_for(std::int64_t vocab_size) {
  return vocab_size < static_cast<std::int64_t>(kSmallVocabulary) ? TokenType::kU16 : TokenType::kI32;
}

TokenFileWriter::TokenFileWriter(std::string prefix, std::int64_t vocab_size)
    : prefix_(std::move(prefix)), vocab_size_(vocab_size), type_(token_type_for(vocab_size)), bin_(prefix_ + ".bin") {}

void TokenFileWriter::add_document(std::span<const std::int32_t> ids) {
  if (ids.size() > std::numeric_limits<std::int32_t>::max())
    throw input_error("{}: document {} has {} tokens, the format holds fewer than 2^31", bin_.path(), documents(),
                      ids.size());
  for (std::size_t i = 0; i < ids.size(); ++i)
    if (ids[i] < 0 || ids[i] >= vocab_size_)
      throw input_error("{}: token {} of document {} is {}, outside the vocabulary of {}", bin_.path(), i, documents(),
                        ids[i], vocab_size_);
  if (type_ == TokenType::kI32) {
    bin_.append(std::as_bytes(ids));
  } else {
    const std::vector<std::uint16_t> narrow(ids.begin(), ids.end());
    bin_.append(std::as_bytes(std::span(narrow)));
  }
  lengths_.push_back(static_cast<std::int32_t>(ids.size()));
  tokens_ += ids.size();
}

void TokenFileWriter::finish() {
  AtomicFile idx(prefix_ + ".idx");
  idx.append(kMagic);
  append(idx, kVersion);
  append(idx, type_);
  append(idx, std::uint64_t{lengths_.size()});
  append(idx, std::uint64_t{lengths_.size() + 1});
  idx.append(std::as_bytes(std::span(lengths_)));
  std::uint64_t pointer = 0;
  for (const std::int32_t length : lengths_) {
    append(idx, pointer);
    pointer += static_cast<std::uint64_t>(length) * size_of(type_);
  }
  for (std::uint64_t border = 0; border <= lengths_.size(); ++border) append(idx, border);

  // An older index must not meet the new tokens, so it goes first and the new one comes last; and it goes only when
  // both new files are whole on the disk.
  bin_.sync();
  idx.sync();
  std::error_code ignored;
  std::filesystem::remove(idx.path(), ignored);
  bin_.commit();
  idx.commit();
}

TokenFile::TokenFile(const std::string& prefix) : bin_(prefix + ".bin"), idx_(prefix + ".idx") {
  read_header();
  check_index();
}

std::int32_t TokenFile::length(std::uint64_t i) const { return load<std::int32_t>(idx_, kHeaderBytes + 4 * i); }
std::uint64_t TokenFile::pointer(std::uint64_t i) const {
  return load<std::uint64_t>(idx_, kHeaderBytes + 4 * sequences_ + 8 * i);
}
std::uint64_t TokenFile::border(std::uint64_t i) const {
  return load<std::uint64_t>(idx_, kHeaderBytes + 12 * sequences_ + 8 * i);
}

void TokenFile::read_header() {
  const std::string& path = idx_.path();
  if (idx_.size() < kHeaderBytes)
    throw input_error("{}: has {} bytes, the header alone needs {}", path, idx_.size(), kHeaderBytes);
  if (!idx_.text().starts_with(kMagic))
    throw input_error("{}: does not begin with MMIDIDX, so it is no Megatron index", path);
  const auto version = load<std::uint64_t>(idx_, 9);
  if (version != kVersion) throw input_error("{}: byte 9: version is {}, expected {}", path, version, kVersion);
  const auto code = load<std::uint8_t>(idx_, 17);
  type_ = TokenType{code};
  if (type_ != TokenType::kU16 && type_ != TokenType::kI32)
    throw input_error("{}: byte 17: type code is {}, tokens are 8 (uint16) or 4 (int32)", path, code);

  // Counts are bounded by the size before they are multiplied, so nothing below can overflow.
  sequences_ = load<std::uint64_t>(idx_, 18);
  const auto borders = load<std::uint64_t>(idx_, 26);
  const std::uint64_t room = idx_.size() - kHeaderBytes;
  if (sequences_ > room / 12)
    throw input_error("{}: byte 18: {} sequences do not fit into {} bytes", path, sequences_, idx_.size());
  if (borders < 1) throw input_error("{}: byte 26: there are no document borders, expected at least 1", path);
  if (borders > (room - 12 * sequences_) / 8)
    throw input_error("{}: byte 26: {} document borders do not fit into {} bytes", path, borders, idx_.size());
  const std::uint64_t rest = room - 12 * sequences_ - 8 * borders;
  if (rest != 0 && rest != sequences_)
    throw input_error("{}: has {} bytes, {} sequences and {} document borders need {}", path, idx_.size(), sequences_,
                      borders, idx_.size() - rest);
  documents_ = borders - 1;
  tokens_ = bin_.size() / size_of(type_);
}

void TokenFile::check_index() const {
  const std::string& path = idx_.path();
  std::uint64_t end = 0;  // in bytes of the tokens' file
  for (std::uint64_t i = 0; i < sequences_; ++i) {
    if (length(i) < 0) throw input_error("{}: sequence {} has length {}", path, i, length(i));
    if (pointer(i) != end)
      throw input_error("{}: sequence {} begins at byte {} of {}, expected {}: holes are not supported", path, i,
                        pointer(i), bin_.path(), end);
    const std::uint64_t bytes = static_cast<std::uint64_t>(length(i)) * size_of(type_);
    if (bytes > bin_.size() - end)
      throw input_error("{}: sequence {} ends at byte {} of {}, which has {}", path, i, end + bytes, bin_.path(),
                        bin_.size());
    end += bytes;
  }
  if (end != bin_.size())
    throw input_error("{}: has {} bytes, its index {} describes {}", bin_.path(), bin_.size(), path, end);

  for (std::uint64_t i = 0; i <= documents_; ++i) {
    const std::uint64_t least = i == 0 ? 0 : border(i - 1);
    const std::uint64_t most = i == 0 ? 0 : sequences_;
    if (border(i) < least || border(i) > most)
      throw input_error("{}: document border {} is {}, expected {} to {}", path, i, border(i), least, most);
  }
  if (border(documents_) != sequences_)
    throw input_error("{}: the documents end at sequence {}, the file has {}", path, border(documents_), sequences_);
}

std::uint64_t TokenFile::document_begin(std::uint64_t document) const {
  if (document > documents_)
    throw input_error("{}: document {} asked for, there are {}", bin_.path(), document, documents_);
  const std::uint64_t sequence = border(document);
  return sequence == sequences_ ? tokens_ : pointer(sequence) / size_of(type_);
}

std::uint64_t TokenFile::document_tokens(std::uint64_t document) const {
  return document_begin(document + 1) - document_begin(document);
}

void TokenFile::read(std::uint64_t document, std::uint64_t offset, std::span<std::int32_t> out) const {
  const std::uint64_t size = document_tokens(document);
  if (offset > size || out.size() > size - offset)
    throw input_error("{}: {} tokens from token {} of document {} asked for, it has {}", bin_.path(), out.size(),
                      offset, document, size);
  const std::byte* from = bin_.bytes().data() + (document_begin(document) + offset) * size_of(type_);
  if (type_ == TokenType::kU16)
    copy_tokens<std::uint16_t>(from, out);
  else
    copy_tokens<std::int32_t>(from, out);
}

void TokenFile::check_vocabulary(std::int64_t vocab_size) const {
  for (std::uint64_t i = 0; i < tokens_; ++i) {
    const std::int64_t id = type_ == TokenType::kU16 ? std::int64_t{load<std::uint16_t>(bin_, 2 * i)}
                                                     : std::int64_t{load<std::int32_t>(bin_, 4 * i)};
    if (id < 0 || id >= vocab_size)
      throw input_error("{}: byte {}: token id {} is outside the vocabulary of {}", bin_.path(), i * size_of(type_), id,
                        vocab_size);
  }
}

}  // namespace nascent
