// Tokenizers: text survives, training repeats, errors say what is possible.
#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <sentencepiece_processor.h>

#include "data/file.h"
#include "data/token_file.h"
#include "data/tokenizer.h"
#include "tests/catch.h"
#include "tests/errors.h"
#include "tests/temporary.h"
#include "train/corpus.h"

using namespace nascent;

namespace {

// Enough varied words for a few hundred pieces.
std::string some_text() {
  const char* syllables[] = {"ba", "ne", "ti", "lo", "sur", "mek", "fa", "dri", "gol", "zu", "pe", "hin", "wa"};
  std::string text;
  for (std::uint32_t i = 1; i < 3000; ++i) {
    text += syllables[i % 13];
    text += syllables[i * i % 13];
    if (i % 3 == 0) text += syllables[i * 7 % 11];
    text += i % 13 == 12 ? "\n" : i % 7 == 0 ? ", " : " ";
  }
  return text;
}

Tokenizer trained(const TemporaryFolder& folder, const TokenizerSettings& settings) {
  const std::string text = some_text();
  const std::string_view documents[] = {std::string_view(text).substr(0, 999), std::string_view(text).substr(999)};
  train_tokenizer(folder.file("t.model"), documents, settings);
  return Tokenizer::load(folder.file("t.model"));
}

// What a checkpoint holds of the tokenizer in this model file.
struct Exported {
  explicit Exported(const std::string& model) {
    const TemporaryFolder folder;
    Tokenizer::load(model).save_pretrained(folder.path, 256);
    copy = read_file(folder.file("tokenizer.model"));
    config = Json::parse(read_file(folder.file("tokenizer_config.json")));
    if (std::filesystem::exists(folder.file("tokenizer.json"))) {
      json = Json::parse(read_file(folder.file("tokenizer.json")));
    }
  }
  using Json = nlohmann::json;
  std::string copy;
  Json config, json;  // json is null where there is no tokenizer.json
};

// Turns on a setting of the normalizer's, which stand at the end of a trained model: a tag byte, then 0 or 1.
void turn_on(const std::string& path, char tag) {
  std::string model = read_file(path);
  const std::size_t at = model.find(std::string{tag, '\0'}, model.rfind("identity"));
  REQUIRE(at != std::string::npos);
  model[at + 1] = 1;
  write_file(path, model);
}

constexpr char kAddDummyPrefix = 3 << 3, kRemoveExtraWhitespaces = 4 << 3;

}  // namespace

TEST_CASE("text survives encoding and decoding: newlines, runs of spaces, bytes never seen in training") {
  for (const char* algorithm : {"unigram", "bpe"}) {
    const TemporaryFolder folder;
    const Tokenizer tokenizer = trained(folder, {.vocab_size = 400, .algorithm = algorithm});
    CHECK(tokenizer.vocab_size() == 400);
    CHECK(tokenizer.unk_id() == 0);
    CHECK(tokenizer.bos_id() == 1);
    CHECK(tokenizer.eos_id() == 2);
    CHECK(tokenizer.piece(3) == "\n");
    for (const std::string& text :
         {some_text(), std::string(""), std::string("\n"), std::string("bane\n\n  tilo \n"), std::string(" bane"),
          std::string("  \t \r\n"), std::string("Zürich 日本 \U0001F600 ①½ﬁ e\u0301"), std::string("a\0b", 3)}) {
      const std::vector<std::int32_t> ids = tokenizer.encode(text);
      CHECK(tokenizer.decode(ids) == text);
      CHECK(std::ranges::all_of(ids, [](std::int32_t id) { return id >= 3 && id < 400; }));
    }
    // It compresses: otherwise all would survive as bytes.
    CHECK(tokenizer.encode(some_text()).size() < some_text().size() / 2);
    // A line has the same tokens wherever it stands.
    const std::vector<std::int32_t> once = tokenizer.encode("bane tilo");
    std::vector<std::int32_t> twice = once;
    twice.push_back(3);
    twice.insert(twice.end(), once.begin(), once.end());
    CHECK(tokenizer.encode("bane tilo\nbane tilo") == twice);
  }
}

TEST_CASE("training twice gives the same bytes") {
  const TemporaryFolder a, b;
  trained(a, {.vocab_size = 400});
  trained(b, {.vocab_size = 400});
  CHECK(read_file(a.file("t.model")) == read_file(b.file("t.model")));
}

TEST_CASE("an impossible vocabulary is refused with what is possible") {
  const TemporaryFolder folder;
  const std::string_view text[] = {"hello world\n"};
  for (const char* algorithm : {"unigram", "bpe"}) {
    const auto train = [&](std::int32_t vocab_size) {
      return failure_of(
          [&] { train_tokenizer(folder.file("t.model"), text, {.vocab_size = vocab_size, .algorithm = algorithm}); });
    };
    const Failure large = train(2000), small = train(30);
    INFO(large.message << "\n" << small.message);
    CHECK(large.exit_code == 2);
    REQUIRE(large.says("too large for this text, at most "));
    CHECK(small.exit_code == 2);
    REQUIRE(small.says("needs at least "));
    CHECK(folder.names().empty());
    // What the messages name is indeed possible.
    CHECK(train(std::stoi(large.message.substr(large.message.find("most ") + 5))).message == "");
    std::filesystem::remove(folder.file("t.model"));
    CHECK(train(std::stoi(small.message.substr(small.message.find("least ") + 6))).message == "");
    std::filesystem::remove(folder.file("t.model"));
  }
  CHECK(failure_of([&] { train_tokenizer(folder.file("t.model"), {}, {}); }).exit_code == 2);
  CHECK(failure_of([&] { train_tokenizer(folder.file("t.model"), text, {.algorithm = "word"}); }).says("\"word\""));
  CHECK(failure_of([&] { train_tokenizer(folder.file("t.model"), text, {.vocab_size = -1}); }).exit_code == 2);
  CHECK(failure_of([&] { train_tokenizer(folder.file("t.model"), text, {.vocab_size = 2000000000}); }).exit_code == 2);
  CHECK(failure_of([&] { train_tokenizer(folder.file("t.model"), text, {.character_coverage = 2}); }).exit_code == 2);
}

TEST_CASE("texts on which SentencePiece would end the program are refused or learned") {
  const TemporaryFolder folder;
  const std::string path = folder.file("t.model");
  for (const std::string& text : {std::string("\0", 1), std::string("\t\t\n\t"), std::string("\n\n"), std::string()}) {
    const std::string_view documents[] = {text};
    CHECK(failure_of([&] { train_tokenizer(path, documents, {}); }).says("no text to train on"));
  }
  // One word of 400 kB, and one of three-byte characters that no limit in bytes may cut in two.
  for (const char* letters : {"abcdefgh", "\u2460\u2461\u2462"}) {
    std::string word;
    while (word.size() < 400000) word += letters;
    const std::string_view documents[] = {word};
    train_tokenizer(path, documents, {.vocab_size = 270});
    const Tokenizer tokenizer = Tokenizer::load(path);
    CHECK(tokenizer.decode(tokenizer.encode(word)) == word);
  }
}

TEST_CASE("what is no model is refused, and so are ids beyond the vocabulary") {
  const TemporaryFolder folder;
  const Tokenizer tokenizer = trained(folder, {.vocab_size = 400});
  for (const std::int32_t id : {-1, 400, 2147483647}) {
    CHECK(failure_of([&] { tokenizer.decode(std::vector<std::int32_t>{5, id}); }).exit_code == 2);
    CHECK(failure_of([&] { tokenizer.piece(id); }).exit_code == 2);
  }
  const std::string model = read_file(folder.file("t.model"));
  for (const std::string& content : {std::string(""), std::string("no model"), model.substr(0, model.size() / 2)}) {
    write_file(folder.file("bad.model"), content);
    const Failure failure = failure_of([&] { Tokenizer::load(folder.file("bad.model")); });
    CHECK(failure.exit_code == 2);
    CHECK(failure.says(folder.file("bad.model")));
  }
  CHECK(failure_of([&] { Tokenizer::load(folder.file("missing")); }).exit_code == 2);
}

TEST_CASE("a model that SentencePiece takes but no checkpoint can hold is refused by name") {
  const TemporaryFolder folder;
  trained(folder, {.vocab_size = 400});
  std::string model = read_file(folder.file("t.model"));
  // A field of another program's, as a protobuf group: the lengths around it say nothing of what it holds.
  write_file(folder.file("group.model"), model + "\xA3\x06\xA4\x06");
  const Tokenizer grouped = Tokenizer::load(folder.file("group.model"));
  const Failure group = failure_of([&] { grouped.save_pretrained(folder.path, 256); });
  CHECK(group.exit_code == 2);
  CHECK(group.says("field 100 of the model is a group"));

  // One more piece, without a letter.
  write_file(folder.file("empty.model"), model + std::string("\x0A\x07\x0A\x00\x15\x00\x00\x00\x00", 9));
  const Failure empty = failure_of([&] { Tokenizer::load(folder.file("empty.model")); });
  CHECK(empty.exit_code == 2);
  CHECK(empty.message == folder.file("empty.model") + ": is not a SentencePiece model");

  model[model.find("<unk>") + 3] = '\xBE';
  write_file(folder.file("bytes.model"), model);
  const Failure bytes = failure_of([&] { Tokenizer::load(folder.file("bytes.model")); });
  CHECK(bytes.exit_code == 2);
  CHECK(bytes.message == folder.file("bytes.model") + ": the special token of id 0 is not UTF-8");
}

TEST_CASE("a text file becomes a token file that decodes to its documents") {
  const TemporaryFolder folder;
  const std::string text = some_text();
  write_file(folder.file("text"), text + "\n\nbane\ntilo\n");
  corpus_train_tokenizer(
      {.text = folder.file("text"), .model = folder.file("t.model"), .tokenizer = {.vocab_size = 400}});
  const Tokenizer tokenizer = Tokenizer::load(folder.file("t.model"));
  for (const bool append_eos : {false, true}) {
    corpus_tokenize({.text = folder.file("text"),
                     .tokenizer = folder.file("t.model"),
                     .out = folder.file("tokens"),
                     .append_eos = append_eos});
    const TokenFile file(folder.file("tokens"));
    file.check_vocabulary(tokenizer.vocab_size());
    REQUIRE(file.documents() == 2);
    std::vector<std::int32_t> ids(file.document_tokens(1));
    file.read(1, 0, ids);
    CHECK((ids.back() == tokenizer.eos_id()) == append_eos);
    CHECK(tokenizer.decode(ids) == "bane\ntilo\n");
  }
}

TEST_CASE("tokenizer.json holds the model: every piece in order of id, with its score, and the special tokens") {
  const TemporaryFolder folder;
  const std::string path = folder.file("t.model");
  trained(folder, {.vocab_size = 400});
  sentencepiece::SentencePieceProcessor model;
  REQUIRE(model.Load(path).ok());
  const Exported exported(path);
  CHECK(exported.copy == read_file(path));
  CHECK(exported.config["tokenizer_class"] == "PreTrainedTokenizerFast");
  CHECK(exported.config["bos_token"] == "<s>");
  CHECK(exported.config["eos_token"] == "</s>");
  CHECK(exported.config["unk_token"] == "<unk>");
  CHECK(exported.config["model_max_length"] == 256);

  const auto& unigram = exported.json["model"];
  CHECK(unigram["type"] == "Unigram");
  CHECK(unigram["unk_id"] == 0);
  CHECK(unigram["byte_fallback"] == true);
  REQUIRE(unigram["vocab"].size() == 400);
  for (int id = 0; id < 400; ++id) {
    CHECK(unigram["vocab"][id] == Exported::Json::array({model.IdToPiece(id), model.GetScore(id)}));
  }
  const auto& special = exported.json["added_tokens"];
  REQUIRE(special.size() == 3);
  for (int id = 0; id < 3; ++id) {
    CHECK(special[id]["id"] == id);
    CHECK(special[id]["content"] == model.IdToPiece(id));
    CHECK(special[id]["special"] == true);
  }
}

TEST_CASE("a dummy prefix is put on by tokenizer.json's normalizer and taken off by its decoder") {
  const TemporaryFolder folder;
  const std::string path = folder.file("t.model");
  trained(folder, {.vocab_size = 400});
  const Exported without(path);
  CHECK(without.json["normalizer"]["type"] == "Replace");
  CHECK(without.json["decoder"]["decoders"].back()["type"] == "Fuse");

  turn_on(path, kAddDummyPrefix);
  const Exported with(path);
  CHECK(with.json["normalizer"]["normalizers"][0]["type"] == "Prepend");
  CHECK(with.json["normalizer"]["normalizers"][1] == without.json["normalizer"]);
  CHECK(with.json["decoder"]["decoders"].back()["type"] == "Strip");
  CHECK(with.json["model"] == without.json["model"]);
}

TEST_CASE("a model that tokenizer.json cannot describe is left to SentencePiece") {
  const TemporaryFolder folder;
  const std::string path = folder.file("t.model");
  const auto left_to_sentencepiece = [&] {
    const Exported exported(path);
    return exported.json.is_null() && exported.config["tokenizer_class"] == "SentencePieceBackend" &&
           exported.copy == read_file(path);
  };
  trained(folder, {.vocab_size = 400, .algorithm = "bpe"});
  CHECK(left_to_sentencepiece());
  trained(folder, {.vocab_size = 400});
  CHECK_FALSE(left_to_sentencepiece());
  turn_on(path, kRemoveExtraWhitespaces);
  CHECK(left_to_sentencepiece());
}
