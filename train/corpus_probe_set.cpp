#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fmt/format.h>
#include <string>
#include <vector>

#include "data/counts.h"
#include "data/probe_choice.h"
#include "data/probe_sequences.h"
#include "kernels/error.h"
#include "train/corpus.h"

namespace nascent {
namespace {

// No tokenizer comes near it: a larger id is damage, and arrays of that length would not fit into memory.
constexpr std::int64_t kMostVocabulary = std::int64_t{1} << 24;

void check(const ProbeSetOptions& options) {
  if (!(options.heldout > 0 && options.heldout < 1))
    throw input_error("--heldout {}: expected more than 0 and less than 1; a probe set is held-out text",
                      options.heldout);
  if (options.tokens < options.sequence)
    throw input_error("--tokens {}: expected at least one sequence of {}", options.tokens, options.sequence);
  for (const char* ending : {".bin", ".idx", ".json"}) {
    const std::string path = options.out + ending, source = options.data + ending;
    std::error_code missing;
    if (std::filesystem::equivalent(path, source, missing))
      throw input_error("{}: --out is the data itself, expected another PREFIX", path);
    if (!options.overwrite && std::filesystem::exists(path))
      throw input_error(
          "{}: already exists; runs that used it could not be compared with later ones. Choose another "
          "--out or give --overwrite",
          path);
  }
}

std::int64_t vocabulary_of(const TokenFile& file, const std::string& path) {
  std::vector<std::uint64_t> all(file.documents());
  for (std::uint64_t i = 0; i < all.size(); ++i) all[i] = i;
  const std::int64_t vocab = std::int64_t{1} + largest_id(TokenStream(file, std::move(all)));
  if (vocab > kMostVocabulary)
    throw input_error("{}.bin: the largest token id is {}, expected at most {}", path, vocab - 1, kMostVocabulary - 1);
  file.check_vocabulary(vocab);  // negative ids
  return vocab;
}

JsonObject record_of(const ProbeSetOptions& options, const ProbeSetChoice& choice) {
  JsonObject record;
  record.set("data", options.data);
  record.set("data_hash", hash_of_token_file(options.data));
  record.set("heldout", options.heldout);
  record.set("seed", options.seed);
  record.set("special", std::vector<std::int64_t>(options.special.begin(), options.special.end()));
  std::vector<std::int64_t> first, last, wanted, possible, reached;
  for (const ProbeBand& band : choice.bands) {
    first.push_back(band.first_rank), last.push_back(band.last_rank), wanted.push_back(band.wanted);
    possible.push_back(band.possible), reached.push_back(band.reached);
  }
  record.set("bands_first_rank", first);
  record.set("bands_last_rank", last);
  record.set("bands_types_wanted", wanted);
  record.set("bands_types_heldout", possible);
  record.set("bands_types_reached", reached);
  return record;
}

// Behind the band's numbers, nothing when it has all it wants.
std::string why_no_more(const ProbeBand& band) {
  if (band.reached >= band.wanted) return {};
  if (band.possible == 0)
    return fmt::format("  too rare in the held-out text: no type has more than {} occurrences or {} documents",
                       band.most_occurrences, band.most_documents);
  if (band.reached >= band.possible) return "  the held-out text holds no more";
  return "  takes more --tokens";
}

void print_bands(const ProbeSetChoice& choice) {
  fmt::print("types with {} occurrences in {} documents, by rank in the training text:\n", kProbeOccurrences,
             kProbeDocuments);
  fmt::print("  {:<17}{:>8}{:>9}{:>10}\n", "ranks", "wanted", "reached", "held out");
  for (const ProbeBand& band : choice.bands)
    fmt::print("  {:<17}{:>8}{:>9}{:>10}{}\n", fmt::format("{}-{}", band.first_rank, band.last_rank), band.wanted,
               band.reached, band.possible, why_no_more(band));
}

}  // namespace

void corpus_probe_set(const ProbeSetOptions& options) {
  check(options);
  const TokenFile file(options.data);
  const std::int64_t vocab = vocabulary_of(file, options.data);
  Split split = split_documents(file.documents(), options.heldout);
  const TokenStream train(file, std::move(split.train)), heldout(file, std::move(split.heldout));
  if (train.size() == 0)
    throw input_error("{}.bin: --heldout {} leaves no training token to rank types by", options.data, options.heldout);

  ProbeSetSettings settings;
  settings.sequences = options.tokens / options.sequence;
  settings.T = options.sequence;
  settings.edges = options.edges;
  settings.special = options.special;
  settings.seed = static_cast<std::uint64_t>(options.seed);
  const ProbeSetChoice choice = choose_probe_set(heldout, token_counts(train, vocab), settings);
  const std::string hash =
      write_probe_set(options.out, heldout, options.sequence, choice.windows, vocab, record_of(options, choice));

  const std::int64_t sequences = std::ssize(choice.windows);
  fmt::print("{}: {} sequences of {}, {} tokens, of {} held-out sequences; hash {}\n", options.out, sequences,
             options.sequence, sequences * options.sequence, choice.available, hash);
  if (sequences < settings.sequences)
    fmt::print("{} tokens were asked for: the held-out text has no more\n", options.tokens);
  print_bands(choice);
}

}  // namespace nascent
