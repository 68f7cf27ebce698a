#include "data/tokenizer.h"

#include <algorithm>
#include <cstdlib>
#include <exception>
#include <sentencepiece_processor.h>
#include <sentencepiece_trainer.h>
#include <unordered_map>
#include <utility>

#include "data/file.h"
#include "data/text.h"
#include "kernels/error.h"

namespace nascent {

struct Tokenizer::Model {
  std::string path;
  std::string serialized;
  sentencepiece::SentencePieceProcessor processor;
};

namespace {

bool parse(sentencepiece::SentencePieceProcessor& processor, const std::string& model) {
  try {
    return processor.LoadFromSerializedProto(model).ok() && processor.GetPieceSize() > 0;
  } catch (const std::exception&) {  // of the trie inside it, for pieces that cannot be (an empty one)
    return false;
  }
}

}  // namespace

Tokenizer::Tokenizer(std::unique_ptr<Model> model) : model_(std::move(model)) {}
Tokenizer::Tokenizer(Tokenizer&&) noexcept = default;
Tokenizer& Tokenizer::operator=(Tokenizer&&) noexcept = default;
Tokenizer::~Tokenizer() = default;

Tokenizer Tokenizer::load(const std::string& path) {
  auto model = std::make_unique<Model>();
  model->path = path;
  model->serialized = read_file(path);
  if (!parse(model->processor, model->serialized)) throw input_error("{}: is not a SentencePiece model", path);
  Tokenizer tokenizer(std::move(model));
  // A checkpoint's tokenizer_config.json names the special tokens, and JSON is UTF-8.
  for (const std::int32_t id : {tokenizer.unk_id(), tokenizer.bos_id(), tokenizer.eos_id()}) {
    if (id < 0) continue;
    const std::string piece = tokenizer.piece(id);
    if (find_invalid_utf8(piece) < piece.size())
      throw input_error("{}: the special token of id {} is not UTF-8", path, id);
  }
  return tokenizer;
}

std::int32_t Tokenizer::vocab_size() const { return model_->processor.GetPieceSize(); }
std::int32_t Tokenizer::bos_id() const { return model_->processor.bos_id(); }
std::int32_t Tokenizer::eos_id() const { return model_->processor.eos_id(); }
std::int32_t Tokenizer::unk_id() const { return model_->processor.unk_id(); }
const std::string& Tokenizer::serialized() const { return model_->serialized; }

void Tokenizer::require_id(std::int32_t id) const {
  if (id < 0 || id >= vocab_size())
    throw input_error("{}: token id {} is outside the vocabulary of {}", model_->path, id, vocab_size());
}

std::string Tokenizer::piece(std::int32_t id) const {
  require_id(id);
  return model_->processor.IdToPiece(id);
}

std::vector<std::int32_t> Tokenizer::encode(std::string_view text) const {
  std::vector<int> ids;
  const auto status = model_->processor.Encode({text.data(), text.size()}, &ids);
  if (!status.ok()) throw machine_error("{}: cannot encode: {}", model_->path, status.ToString());
  return ids;
}

std::string Tokenizer::decode(std::span<const std::int32_t> ids) const {
  for (const std::int32_t id : ids) require_id(id);
  std::string text;
  const auto status = model_->processor.Decode(std::vector<int>(ids.begin(), ids.end()), &text);
  if (!status.ok()) throw machine_error("{}: cannot decode: {}", model_->path, status.ToString());
  return text;
}

namespace {

// SentencePiece learns nothing from these characters, and ends the program when a text holds nothing else.
constexpr std::string_view kNotLearned("\0\t", 2);

// SentencePiece's own limit in bytes. Longer lines it would skip in silence, and one word of 400 kB made it
// end the program.
constexpr std::size_t kLongestLine = 4192;

// Far beyond it SentencePiece's count overflows, and it ends the program.
constexpr std::int32_t kMostPieces = 1 << 21;

// Bytes of `text` up to its newline; in a line that is too long up to the last space that fits, or else
// between two characters.
std::size_t line_length(std::string_view text) {
  const std::size_t end = std::min(text.find('\n'), text.size());
  if (end <= kLongestLine) return end;
  if (const std::size_t space = text.substr(0, kLongestLine).rfind(' '); space > 0 && space != text.npos) return space;
  std::size_t cut = kLongestLine;
  while (cut > 1 && (static_cast<unsigned char>(text[cut]) & 0xC0) == 0x80) --cut;
  return cut;
}

// The lines of the documents without their newlines: the piece "\n" is given, so nothing is learned across
// it. Lines with nothing to learn are left out.
class Lines final : public sentencepiece::SentenceIterator {
 public:
  explicit Lines(std::span<const std::string_view> documents) : documents_(documents) { Next(); }

  bool done() const override { return done_; }
  const std::string& value() const override { return line_; }
  sentencepiece::util::Status status() const override { return {}; }

  void Next() override {
    do {
      while (rest_.empty()) {
        if (next_ == documents_.size()) {
          done_ = true;
          return;
        }
        rest_ = documents_[next_++];
      }
      line_ = rest_.substr(0, line_length(rest_));
      rest_.remove_prefix(line_.size());
      if (rest_.starts_with('\n')) rest_.remove_prefix(1);
    } while (line_.find_first_not_of(kNotLearned) == std::string::npos);
  }

 private:
  std::span<const std::string_view> documents_;
  std::size_t next_ = 0;
  std::string_view rest_;  // of the current document
  std::string line_;
  bool done_ = false;
};

// SentencePiece names the possible sizes only in its English message; a number is taken from behind `words`.
long number_behind(const std::string& message, std::string_view words) {
  const std::size_t at = message.find(words);
  return at == std::string::npos ? -1 : std::strtol(message.c_str() + at + words.size(), nullptr, 10);
}

Error training_error(const std::string& message, const TokenizerSettings& settings) {
  if (const long most = number_behind(message, "Please set it to a value <= "); most > 0)
    return input_error("tokenizer: vocab_size {} is too large for this text, at most {} is possible",
                       settings.vocab_size, most);
  if (const long least = number_behind(message, " vs "); least > 0)
    return input_error("tokenizer: vocab_size {} is too small, character_coverage {} of this text needs at least {}",
                       settings.vocab_size, settings.character_coverage, least);
  return input_error("tokenizer: training failed: {}", message);
}

}  // namespace

void train_tokenizer(const std::string& path, std::span<const std::string_view> documents,
                     const TokenizerSettings& settings) {
  if (settings.algorithm != "unigram" && settings.algorithm != "bpe")
    throw input_error("tokenizer: algorithm is \"{}\", expected \"unigram\" or \"bpe\"", settings.algorithm);
  if (settings.vocab_size < 1 || settings.vocab_size > kMostPieces)
    throw input_error("tokenizer: vocab_size is {}, expected 1 to {}", settings.vocab_size, kMostPieces);
  if (!(settings.character_coverage >= 0.98 && settings.character_coverage <= 1))
    throw input_error("tokenizer: character_coverage is {}, expected 0.98 to 1", settings.character_coverage);

  Lines lines(documents);
  if (lines.done()) throw input_error("tokenizer: the documents hold no text to train on");
  std::string model;
  const std::unordered_map<std::string, std::string> options = {
      {"model_type", settings.algorithm},
      {"vocab_size", std::to_string(settings.vocab_size)},
      {"character_coverage", fmt::format("{}", settings.character_coverage)},
      {"byte_fallback", "true"},  // so no text is ever unknown
      // The text is taken as it is: no Unicode normalization, spaces kept, a newline is a piece. A line
      // begins without the customary space, since inside a document the word behind a newline has none
      // either.
      {"normalization_rule_name", "identity"},
      {"remove_extra_whitespaces", "false"},
      {"add_dummy_prefix", "false"},
      {"user_defined_symbols", "\n"},
      {"max_sentence_length", std::to_string(kLongestLine)},
      {"num_threads", "1"},  // sums of several threads depend on their number
      {"minloglevel", "2"},  // errors only
  };
  const auto status = sentencepiece::SentencePieceTrainer::Train(options, &lines, &model);
  if (!status.ok()) throw training_error(status.ToString(), settings);
  write_file(path, model);
}

}  // namespace nascent
