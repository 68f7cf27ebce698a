// Text to token ids and back: SentencePiece models (.model), ours and those of others (Llama, T5).
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace nascent {

class Tokenizer {
 public:
  // Throws an input error when the file is missing or is no SentencePiece model, or when a special token is not UTF-8.
  static Tokenizer load(const std::string& path);

  Tokenizer(Tokenizer&&) noexcept;
  Tokenizer& operator=(Tokenizer&&) noexcept;
  ~Tokenizer();

  std::int32_t vocab_size() const;
  // Ids of the special tokens; -1 where the model has none. encode() adds none of them.
  std::int32_t bos_id() const;
  std::int32_t eos_id() const;
  std::int32_t unk_id() const;
  // As stored: "▁the", "<0x0A>"; throws on an id beyond the vocabulary.
  std::string piece(std::int32_t id) const;

  // `text` is UTF-8 (bytes that are not become U+FFFD). Ids lie in [0, vocab_size()).
  std::vector<std::int32_t> encode(std::string_view text) const;
  // With a tokenizer from train_tokenizer, decode(encode(text)) is the text again, newlines and runs of
  // spaces included; only U+2581, the mark SentencePiece writes for a space, comes back as one. Throws on an
  // id beyond the vocabulary.
  std::string decode(std::span<const std::int32_t> ids) const;

  // Writes into a checkpoint's folder what transformers' AutoTokenizer (tried: 5.24) loads to the same ids:
  //   tokenizer.model        the SentencePiece model, byte for byte
  //   tokenizer_config.json  class, special tokens, and `context` (tokens) as model_max_length
  //   tokenizer.json         for a unigram model, with or without dummy prefix, that neither normalizes
  //                          Unicode nor removes spaces: those of train_tokenizer, unless they are BPE
  // Where there is a tokenizer.json Python needs nothing but transformers. Elsewhere (BPE, Llama, T5)
  // transformers runs tokenizer.model itself, which takes the Python package sentencepiece; decoding then
  // strips blanks at both ends. Unlike here, text that spells a special token ("</s>"), with tokenizer.json
  // also a byte ("<0x0A>"), becomes that token. Throws when the disk is full or the folder cannot be written.
  void save_pretrained(const std::filesystem::path& folder, std::int64_t context) const;

 private:
  struct Model;
  explicit Tokenizer(std::unique_ptr<Model> model);
  void require_id(std::int32_t id) const;
  const std::string& serialized() const;  // the model's file

  std::unique_ptr<Model> model_;
};

struct TokenizerSettings {
  std::int32_t vocab_size = 2048;     // pieces, with unknown, bos, eos, newline and the 256 byte pieces
  std::string algorithm = "unigram";  // "unigram" (Kudo 2018) or "bpe" (Sennrich et al. 2016)
  // Share of the text's characters that get a piece of their own; the rest, the rarest, is spelled in bytes.
  double character_coverage = 0.9995;
};

// Fits a tokenizer to the documents (UTF-8) and writes the model to `path`, wholly or not at all. Ids: 0
// unknown, 1 bos, 2 eos, 3 newline, 4-259 the bytes; no padding. The same documents and settings give the
// same model on every machine. Throws an input error when the vocabulary is too large for the text (naming
// the largest possible) or too small for its characters (naming the least).
void train_tokenizer(const std::string& path, std::span<const std::string_view> documents,
                     const TokenizerSettings& settings);

}  // namespace nascent
