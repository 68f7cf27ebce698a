#include <algorithm>
#include <bit>
#include <cstring>
#include <nlohmann/json.hpp>
#include <utility>

#include "data/file.h"
#include "data/json.h"
#include "data/text.h"
#include "data/tokenizer.h"
#include "kernels/error.h"

namespace nascent {
namespace {

using Json = nlohmann::ordered_json;

static_assert(std::endian::native == std::endian::little, "protobuf is little-endian");

// A field of a protobuf message (https://protobuf.dev/programming-guides/encoding). Read by hand: the library
// does not show a model's settings, and Debian 12's exports a protobuf of its own, so no other may be linked.
struct Field {
  std::uint64_t number;
  std::uint64_t value;     // of a number: its bits
  std::string_view bytes;  // of a string or a message
};

std::string_view take(std::string_view& message, std::size_t bytes) {
  const std::string_view taken = message.substr(0, bytes);
  message.remove_prefix(taken.size());
  return taken;
}

// Seven bits a byte, the lowest first; the eighth says that more follow.
std::uint64_t take_varint(std::string_view& message) {
  std::uint64_t value = 0;
  for (unsigned shift = 0; shift < 64 && !message.empty(); shift += 7) {
    const auto byte = static_cast<std::uint8_t>(take(message, 1).front());
    value |= std::uint64_t{byte & 0x7Fu} << shift;
    if (byte < 0x80) break;
  }
  return value;
}

std::uint64_t take_fixed(std::string_view& message, std::size_t bytes) {
  std::uint64_t value = 0;
  const std::string_view taken = take(message, bytes);
  std::memcpy(&value, taken.data(), taken.size());
  return value;
}

// SentencePiece has parsed `message` before, so it is well formed.
std::vector<Field> fields_of(std::string_view message) {
  std::vector<Field> fields;
  while (!message.empty()) {
    const std::uint64_t tag = take_varint(message);
    Field& field = fields.emplace_back(Field{tag >> 3, 0, {}});
    switch (tag & 7) {
      case 0:
        field.value = take_varint(message);
        break;
      case 1:
        field.value = take_fixed(message, 8);
        break;
      case 2:
        field.bytes = take(message, take_varint(message));
        break;
      case 5:
        field.value = take_fixed(message, 4);
        break;
      default:  // a group: what stands in it would be taken for fields of this message
        throw input_error("tokenizer: field {} of the model is a group, which SentencePiece never writes", tag >> 3);
    }
  }
  return fields;
}

// Names, numbers and defaults below are those of sentencepiece_model.proto.
enum class PieceType : std::uint64_t { kNormal = 1, kUnknown, kControl, kUserDefined, kUnused, kByte };

struct Piece {
  std::string_view text;
  float score = 0;
  PieceType type = PieceType::kNormal;
};

constexpr std::uint64_t kUnigram = 1;

// What decides a model's ids.
struct ModelProto {
  std::vector<Piece> pieces;
  std::uint64_t model_type = kUnigram;
  bool treat_whitespace_as_suffix = false;
  std::string_view precompiled_charsmap;  // the Unicode normalization; empty for none
  bool add_dummy_prefix = true;
  bool remove_extra_whitespaces = true;
  bool escape_whitespaces = true;
};

Piece read_piece(std::string_view message) {
  Piece piece;
  for (const Field& field : fields_of(message)) {
    if (field.number == 1) piece.text = field.bytes;
    if (field.number == 2) piece.score = std::bit_cast<float>(static_cast<std::uint32_t>(field.value));
    if (field.number == 3) piece.type = PieceType{field.value};
  }
  return piece;
}

void read_trainer_spec(ModelProto& model, std::string_view message) {
  for (const Field& field : fields_of(message)) {
    if (field.number == 3) model.model_type = field.value;
    if (field.number == 24) model.treat_whitespace_as_suffix = field.value != 0;
  }
}

void read_normalizer_spec(ModelProto& model, std::string_view message) {
  for (const Field& field : fields_of(message)) {
    if (field.number == 2) model.precompiled_charsmap = field.bytes;
    if (field.number == 3) model.add_dummy_prefix = field.value != 0;
    if (field.number == 4) model.remove_extra_whitespaces = field.value != 0;
    if (field.number == 5) model.escape_whitespaces = field.value != 0;
  }
}

ModelProto read_model(std::string_view message) {
  ModelProto model;
  for (const Field& field : fields_of(message)) {
    if (field.number == 1) model.pieces.push_back(read_piece(field.bytes));
    if (field.number == 2) read_trainer_spec(model, field.bytes);
    if (field.number == 3) read_normalizer_spec(model, field.bytes);
  }
  return model;
}

bool is_one_character(std::string_view text) {
  return std::ranges::count_if(text, [](char c) { return (c & 0xC0) != 0x80; }) == 1;
}

// tokenizer.json knows neither unused pieces nor symbols that go before any better-scored segmentation; a
// symbol of one character needs no such rule, since no other piece holds that character.
bool has_counterpart(const Piece& piece) {
  if (find_invalid_utf8(piece.text) < piece.text.size()) return false;
  if (piece.type == PieceType::kUserDefined) return is_one_character(piece.text);
  return piece.type != PieceType::kUnused;
}

// Whether tokenizer.json can describe a model that gives the same ids. BPE it cannot: it ranks pairs where
// SentencePiece ranks the pieces they make, so of two overlapping pairs for one piece ("a" "aa", "aa" "a")
// the other may be merged first.
bool has_counterpart(const ModelProto& model) {
  return model.model_type == kUnigram && !model.treat_whitespace_as_suffix && model.precompiled_charsmap.empty() &&
         !model.remove_extra_whitespaces && model.escape_whitespaces &&
         std::ranges::all_of(model.pieces, [](const Piece& piece) { return has_counterpart(piece); });
}

constexpr const char* kSpace = "\u2581";  // SentencePiece's mark for a space

Json replace(const char* pattern, const char* content) {
  return {{"type", "Replace"}, {"pattern", {{"String", pattern}}}, {"content", content}};
}

Json normalizer(const ModelProto& model) {
  Json escape = replace(" ", kSpace);
  if (!model.add_dummy_prefix) return escape;
  const Json prefix = {{"type", "Prepend"}, {"prepend", kSpace}};
  return {{"type", "Sequence"}, {"normalizers", {prefix, std::move(escape)}}};
}

Json decoder(const ModelProto& model) {
  Json steps = {replace(kSpace, " "), {{"type", "ByteFallback"}}, {{"type", "Fuse"}}};
  if (model.add_dummy_prefix) {
    steps.push_back({{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}});
  }
  return {{"type", "Sequence"}, {"decoders", steps}};
}

// The format of Hugging Face's tokenizers (https://github.com/huggingface/tokenizers).
Json tokenizer_json(const ModelProto& model, std::int32_t unk_id) {
  Json added_tokens = Json::array(), vocab = Json::array();
  for (const Piece& piece : model.pieces) {
    if (piece.type == PieceType::kUnknown || piece.type == PieceType::kControl) {
      added_tokens.push_back({{"id", vocab.size()},
                              {"content", piece.text},
                              {"single_word", false},
                              {"lstrip", false},
                              {"rstrip", false},
                              {"normalized", false},
                              {"special", true}});
    }
    vocab.push_back(Json::array({piece.text, piece.score}));
  }
  const bool byte_fallback =
      std::ranges::any_of(model.pieces, [](const Piece& piece) { return piece.type == PieceType::kByte; });
  return {{"version", "1.0"},
          {"truncation", nullptr},
          {"padding", nullptr},
          {"added_tokens", added_tokens},
          {"normalizer", normalizer(model)},
          {"pre_tokenizer", nullptr},
          {"post_processor", nullptr},
          {"decoder", decoder(model)},
          {"model", {{"type", "Unigram"}, {"unk_id", unk_id}, {"vocab", vocab}, {"byte_fallback", byte_fallback}}}};
}

}  // namespace

void Tokenizer::save_pretrained(const std::filesystem::path& folder, std::int64_t context) const {
  const ModelProto model = read_model(serialized());
  const bool as_json = has_counterpart(model);
  JsonObject config;
  config.set("tokenizer_class", as_json ? "PreTrainedTokenizerFast" : "SentencePieceBackend");
  config.set("unk_token", piece(unk_id()));
  if (bos_id() >= 0) config.set("bos_token", piece(bos_id()));
  if (eos_id() >= 0) config.set("eos_token", piece(eos_id()));
  config.set("clean_up_tokenization_spaces", false);
  config.set("model_max_length", context);

  write_file(folder / "tokenizer.model", serialized());
  write_file(folder / "tokenizer_config.json", config.dump());
  if (as_json) write_file(folder / "tokenizer.json", tokenizer_json(model, unk_id()).dump(2) + "\n");
}

}  // namespace nascent
