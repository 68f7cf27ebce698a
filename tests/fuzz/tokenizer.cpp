// A SentencePiece model, as others export it: its pieces, and the files transformers gets of it.
#include "data/tokenizer.h"

#include <cstdlib>
#include <filesystem>

#include "data/file.h"
#include "kernels/error.h"
#include "tests/fuzz/fuzz.h"
#include "tests/temporary.h"

namespace nascent::fuzz {
namespace {

constexpr std::string_view kText = "a banana in a cabana, abba \n b\xC3\xA9";

std::string model(const char* algorithm) {
  const TemporaryFolder folder;
  const std::string_view documents[] = {"a banana in a cabana\nabba ban\n", "in a cab\n"};
  train_tokenizer(folder.file("x.model"), documents, {.vocab_size = 266, .algorithm = algorithm});
  return read_file(folder.file("x.model"));
}

}  // namespace

std::vector<std::string> seeds() { return {model("unigram"), model("bpe")}; }

void try_input(std::string_view input) {
  const std::string path = file_of("x.model", input);
  const Tokenizer tokenizer = Tokenizer::load(path);
  for (std::int32_t id = 0; id < tokenizer.vocab_size(); ++id) tokenizer.piece(id);
  tokenizer.save_pretrained(std::filesystem::path(path).parent_path(), 128);
  const std::vector<std::int32_t> ids = tokenizer.encode(kText);
  tokenizer.decode(ids);
}

}  // namespace nascent::fuzz
