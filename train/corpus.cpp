#include "train/corpus.h"

#include <cstdint>
#include <string_view>
#include <vector>

#include "data/text.h"
#include "data/token_file.h"
#include "kernels/error.h"

namespace nascent {

void corpus_train_tokenizer(const TrainTokenizerOptions& options) {
  const TextFile text(options.text, options.separator);
  train_tokenizer(options.model, text.documents(), options.tokenizer);
  fmt::print("{}: {} with {} pieces, trained on {} documents\n", options.model, options.tokenizer.algorithm,
             options.tokenizer.vocab_size, text.documents().size());
}

void corpus_tokenize(const TokenizeOptions& options) {
  const TextFile text(options.text, options.separator);
  const Tokenizer tokenizer = Tokenizer::load(options.tokenizer);
  if (options.append_eos && tokenizer.eos_id() < 0)
    throw input_error("{}: has no eos to append to documents", options.tokenizer);

  TokenFileWriter writer(options.out, tokenizer.vocab_size());
  std::uint64_t bytes = 0;
  for (const std::string_view document : text.documents()) {
    std::vector<std::int32_t> ids = tokenizer.encode(document);
    if (options.append_eos) ids.push_back(tokenizer.eos_id());
    writer.add_document(ids);
    bytes += document.size();
  }
  writer.finish();
  fmt::print("{}: {} documents, {} tokens, {:.2f} bytes per token\n", options.out, writer.documents(), writer.tokens(),
             static_cast<double>(bytes) / static_cast<double>(writer.tokens()));
}

}  // namespace nascent
