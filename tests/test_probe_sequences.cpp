// Which held-out windows make a probe set, and the files it is kept in.
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <numeric>
#include <set>
#include <xxhash.h>

#include "data/counts.h"
#include "data/file.h"
#include "data/probe_choice.h"
#include "data/probe_sequences.h"
#include "kernels/philox.h"
#include "tests/catch.h"
#include "tests/errors.h"
#include "tests/temporary.h"

using namespace nascent;

namespace {

using Ids = std::vector<std::int32_t>;
using WindowList = std::vector<std::uint64_t>;

// A token file and all of its documents as one stream.
struct Corpus {
  Corpus(const std::vector<Ids>& documents, std::int64_t vocab)
      : file(written(folder.file("corpus"), documents, vocab)), stream(file, all(documents.size())) {}

  static TokenFile written(const std::string& prefix, const std::vector<Ids>& documents, std::int64_t vocab) {
    TokenFileWriter writer(prefix, vocab);
    for (const Ids& ids : documents) writer.add_document(ids);
    writer.finish();
    return TokenFile(prefix);
  }
  static WindowList all(std::size_t n) {
    WindowList list(n);
    std::iota(list.begin(), list.end(), 0u);
    return list;
  }

  TemporaryFolder folder;
  TokenFile file;
  TokenStream stream;
};

// Documents of 1 to 60 tokens; the type of rank r has weight 1/r.
std::vector<Ids> zipf_documents(std::size_t tokens, int vocab, std::uint64_t seed) {
  std::vector<double> up_to;
  for (int r = 1; r <= vocab; ++r) up_to.push_back((up_to.empty() ? 0.0 : up_to.back()) + 1.0 / r);
  const Random random(seed, "test", "zipf");
  std::vector<Ids> documents;
  std::uint64_t drawn = 0;
  for (std::size_t n = 0; n < tokens; n += documents.back().size()) {
    documents.emplace_back(1 + random.bits(drawn++) % 60);
    for (std::int32_t& id : documents.back()) {
      const double u = random.uniform(drawn++) * up_to.back();
      id = static_cast<std::int32_t>(
          std::min<std::ptrdiff_t>(std::ranges::lower_bound(up_to, u) - up_to.begin(), vocab - 1));
    }
  }
  return documents;
}

ProbeSetSettings settings_of(std::int64_t sequences, std::int64_t T, std::vector<std::int64_t> edges = {}) {
  ProbeSetSettings settings;
  settings.sequences = sequences;
  settings.T = T;
  settings.edges = std::move(edges);
  return settings;
}

std::set<std::uint64_t> as_set(const WindowList& list) { return {list.begin(), list.end()}; }

// Occurrences and documents of each type among the inputs of some windows, token by token.
struct Held {
  Held(const std::vector<Ids>& documents, std::int64_t T, const WindowList& windows) {
    std::vector<std::pair<std::int32_t, std::size_t>> row;
    for (std::size_t d = 0; d < documents.size(); ++d)
      for (const std::int32_t id : documents[d]) row.emplace_back(id, d);
    for (const std::uint64_t k : windows)
      for (std::uint64_t t = 0; t < static_cast<std::uint64_t>(T); ++t) {
        const auto& [id, document] = row.at(k * static_cast<std::uint64_t>(T) + t);
        ++occurrences[id];
        where[id].insert(document);
      }
  }
  bool enough(std::int32_t id) { return occurrences[id] >= 64 && where[id].size() >= 16; }
  std::map<std::int32_t, int> occurrences;
  std::map<std::int32_t, std::set<std::size_t>> where;
};

// 48 documents of 8 tokens, each a window, and a last token for the last target. Type 1 stands four times in each third.
std::vector<Ids> planted() {
  std::vector<Ids> documents;
  for (int d = 0; d < 48; ++d) documents.push_back(d % 3 == 1 ? Ids{0, 1, 1, 0, 1, 0, 0, 1} : Ids(8, 0));
  documents.push_back({0});
  return documents;
}

}  // namespace

TEST_CASE("exactly the windows that hold a planted type are chosen when there is room for no other") {
  const Corpus corpus(planted(), 3);
  const std::vector<std::int64_t> counts = {100, 10, 0};
  const ProbeSetChoice choice = choose_probe_set(corpus.stream, counts, settings_of(16, 8, {1, 2, 3}));
  std::set<std::uint64_t> expected;
  for (std::uint64_t k = 1; k < 48; k += 3) expected.insert(k);
  CHECK(as_set(choice.windows) == expected);
  CHECK(choice.available == 48);
  REQUIRE(choice.bands.size() == 3);
  for (const std::size_t b : {0u, 1u}) {
    INFO("band " << b);
    CHECK(choice.bands[b].wanted == 1);
    CHECK(choice.bands[b].possible == 1);
    CHECK(choice.bands[b].reached == 1);
  }
  CHECK(choice.bands[1].most_occurrences == 64);
  CHECK(choice.bands[1].most_documents == 16);
  CHECK(choice.bands[2].first_rank == 3);
  CHECK(choice.bands[2].last_rank == 3);
  CHECK(choice.bands[2].possible == 0);
  CHECK(choice.bands[2].reached == 0);
  CHECK(choice.bands[2].most_occurrences == 0);
  // One window fewer and the type cannot be had.
  const ProbeSetChoice less = choose_probe_set(corpus.stream, counts, settings_of(15, 8, {1, 2, 3}));
  CHECK(less.windows.size() == 15);
  CHECK(less.bands[1].possible == 1);
  CHECK(less.bands[1].reached == 0);
}

TEST_CASE("sixteen documents are demanded of a type that one document alone holds often enough") {
  // Document 0 is 16 windows of type 1; fifteen others hold it once.
  std::vector<Ids> documents = {Ids(128, 1)};
  for (int d = 0; d < 40; ++d) documents.push_back(d < 15 ? Ids{0, 0, 0, 1, 0, 0, 0, 0} : Ids(8, 0));
  documents.push_back({0});
  const Corpus corpus(documents, 2);
  const std::vector<std::int64_t> counts = {1, 9};
  // Eight windows of document 0 are enough of its occurrences; each other document takes one more.
  ProbeSetSettings settings = settings_of(8 + 15, 8);
  settings.special = {0};
  const ProbeSetChoice choice = choose_probe_set(corpus.stream, counts, settings);
  REQUIRE(choice.bands.size() == 1);
  CHECK(choice.bands[0].reached == 1);
  Held held(documents, 8, choice.windows);
  CHECK(held.occurrences[1] == 8 * 8 + 15);
  CHECK(held.where[1].size() == 16);
  settings.sequences = 16;
  CHECK(choose_probe_set(corpus.stream, counts, settings).bands[0].reached == 0);
}

TEST_CASE("what a choice says of each band is what its windows hold, counted token by token") {
  const std::vector<Ids> documents = zipf_documents(20000, 300, 1);
  const Corpus corpus(documents, 300);
  const std::vector<std::int64_t> counts = token_counts(corpus.stream, 300);
  for (const std::int64_t T : {1, 7, 33}) {
    ProbeSetSettings settings = settings_of(4000 / T, T);
    settings.special = {0, 17};
    const ProbeSetChoice choice = choose_probe_set(corpus.stream, counts, settings);
    const Windows windows(corpus.stream, T);
    CHECK(choice.available == windows.count());
    CHECK(as_set(choice.windows).size() == static_cast<std::size_t>(4000 / T));
    CHECK(*std::ranges::max_element(choice.windows) < windows.count());

    Held chosen(documents, T, choice.windows), all(documents, T, Corpus::all(windows.count()));
    const FrequencyBins bins = frequency_bins(counts, {}, 0, settings.special);
    REQUIRE(choice.bands.size() == 3);
    for (std::size_t b = 0; b < 3; ++b) {
      INFO("T " << T << ", band " << b);
      std::int64_t types = 0, reached = 0, possible = 0, most = 0;
      for (std::int32_t id = 0; id < 300; ++id) {
        if (bins.bin[static_cast<std::size_t>(id)] != static_cast<std::int32_t>(b)) continue;
        ++types;
        reached += chosen.enough(id);
        possible += all.enough(id);
        most = std::max<std::int64_t>(most, all.occurrences[id]);
      }
      CHECK(choice.bands[b].first_rank == std::stoll(bins.labels[b]));
      CHECK(choice.bands[b].last_rank - choice.bands[b].first_rank + 1 == types);
      CHECK(choice.bands[b].wanted == std::min<std::int64_t>(64, types));
      CHECK(choice.bands[b].reached == reached);
      CHECK(choice.bands[b].possible == possible);
      CHECK(choice.bands[b].most_occurrences == most);
    }
  }
}

TEST_CASE("more types of a band are reached than by windows drawn at random") {
  const std::vector<Ids> documents = zipf_documents(60000, 400, 2);
  const Corpus corpus(documents, 400);
  const std::vector<std::int64_t> counts = token_counts(corpus.stream, 400);
  const ProbeSetSettings settings = settings_of(100, 32);
  const ProbeSetChoice choice = choose_probe_set(corpus.stream, counts, settings);
  // The first 100 of the drawn order.
  WindowList random = choose_probe_set(corpus.stream, counts, settings_of(1000000, 32)).windows;
  random.resize(100);
  Held held(documents, 32, random);
  const FrequencyBins bins = frequency_bins(counts, {}, 0, {});
  std::int64_t by_chance = 0;
  for (std::int32_t id = 0; id < 400; ++id) by_chance += bins.bin[static_cast<std::size_t>(id)] == 1 && held.enough(id);
  CHECK(choice.bands[0].reached == 9);
  CHECK(choice.bands[1].reached >= by_chance + 3);
}

TEST_CASE("windows are taken as by looking at every one of them each time") {
  const std::int64_t T = 16;
  const std::vector<Ids> documents = zipf_documents(3000, 20, 3);
  const Corpus corpus(documents, 20);
  const std::vector<std::int64_t> counts = token_counts(corpus.stream, 20);
  const WindowList order = choose_probe_set(corpus.stream, counts, settings_of(1 << 20, T, {1})).windows;
  Held all(documents, T, order);

  // The whole vocabulary is one band: the list of wanted types is all of them that occur often enough.
  std::set<std::int32_t> wanted;
  for (std::int32_t id = 0; id < 20; ++id)
    if (all.enough(id)) wanted.insert(id);
  REQUIRE(wanted.size() > 5);
  WindowList taken;
  const auto lacking = [&](const WindowList& windows) {
    Held held(documents, T, windows);
    std::int64_t sum = 0;
    for (const std::int32_t id : wanted)
      sum += std::max(0, 64 - held.occurrences[id]) + 4 * std::max(0, 16 - static_cast<int>(held.where[id].size()));
    return sum;
  };
  while (const std::int64_t before = lacking(taken)) {
    std::int64_t most = 0;
    std::uint64_t best = 0;
    for (const std::uint64_t k : order) {
      if (std::ranges::find(taken, k) != taken.end()) continue;
      WindowList with = taken;
      with.push_back(k);
      const std::int64_t useful = before - lacking(with);
      if (useful > most) most = useful, best = k;
    }
    taken.push_back(best);
  }
  const auto n = static_cast<std::int64_t>(taken.size());
  REQUIRE(taken.size() < order.size());
  CHECK(as_set(choose_probe_set(corpus.stream, counts, settings_of(n, T, {1})).windows) == as_set(taken));
}

TEST_CASE("a choice repeats, comes in the order drawn from its seed, and takes what there is") {
  const Corpus corpus(zipf_documents(5000, 50, 4), 50);
  const std::vector<std::int64_t> counts = token_counts(corpus.stream, 50);
  ProbeSetSettings settings = settings_of(60, 10);
  const WindowList windows = choose_probe_set(corpus.stream, counts, settings).windows;
  CHECK(choose_probe_set(corpus.stream, counts, settings).windows == windows);
  settings.sequences = 1 << 30;
  const WindowList order = choose_probe_set(corpus.stream, counts, settings).windows;
  CHECK(order.size() == Windows(corpus.stream, 10).count());
  CHECK(as_set(order).size() == order.size());
  WindowList in_order;
  std::ranges::copy_if(order, std::back_inserter(in_order), [&](auto k) { return as_set(windows).contains(k); });
  CHECK(windows == in_order);
  settings.seed = 1;
  CHECK(choose_probe_set(corpus.stream, counts, settings).windows != order);
}

TEST_CASE("a choice that cannot be made is refused") {
  const Corpus corpus({{0, 1, 2, 3}, {}, {4}}, 5);
  const std::vector<std::int64_t> counts(5, 1), few(4, 1);
  CHECK(choose_probe_set(corpus.stream, counts, settings_of(9, 4)).windows.size() == 1);
  CHECK(failure_of([&] { choose_probe_set(corpus.stream, counts, settings_of(1, 5)); }).exit_code == 2);
  CHECK(failure_of([&] { choose_probe_set(corpus.stream, counts, settings_of(1, 0)); }).exit_code == 2);
  CHECK(failure_of([&] { choose_probe_set(corpus.stream, counts, settings_of(0, 2)); }).says("0 sequences"));
  CHECK(
      failure_of([&] { choose_probe_set(corpus.stream, few, settings_of(1, 2)); }).says("token 4 of the stream is 4"));
  CHECK(failure_of([&] { choose_probe_set(corpus.stream, counts, settings_of(1, 2, {2})); }).says("first edge"));
}

namespace {

// A corpus whose windows 3, 0 and 5 of length 4 are the probe set "set".
struct Stored : Corpus {
  Stored()
      : Corpus({{7, 1, 2, 3, 4, 5}, {6, 70, 8, 9, 10}, {300, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24}},
               301) {
    JsonObject record;
    record.set("data", "corpus");
    hash = write_probe_set(prefix, stream, 4, WindowList{3, 0, 5}, 301, record);
  }
  Failure opened() const {
    return failure_of([&] { ProbeSequences{prefix}; });
  }
  std::string prefix = folder.file("set");
  std::string hash;
};

}  // namespace

TEST_CASE("a stored probe set reads back as its windows, whole or in part") {
  const Stored stored;
  const ProbeSequences set(stored.prefix);
  CHECK(set.sequences() == 3);
  CHECK(set.length() == 4);
  CHECK(set.hash() == stored.hash);
  const Ids inputs = {12, 13, 14, 15, 7, 1, 2, 3, 20, 21, 22, 23},
            targets = {13, 14, 15, 16, 1, 2, 3, 4, 21, 22, 23, 24};
  Ids x(12), y(12);
  set.read(0, 3, x, y);
  CHECK(x == inputs);
  CHECK(y == targets);
  x.resize(8), y.resize(8);
  set.read(1, 2, x, y);
  CHECK(x == Ids(inputs.begin() + 4, inputs.end()));
  CHECK(y == Ids(targets.begin() + 4, targets.end()));
  set.read(3, 0, {}, {});

  CHECK(failure_of([&] { set.read(2, 2, x, y); }).says("2 sequences from sequence 2 asked for, it has 3"));
  CHECK(failure_of([&] { set.read(-1, 2, x, y); }).exit_code == 2);
  CHECK(failure_of([&] { set.read(0, -1, x, y); }).exit_code == 2);
  CHECK(failure_of([&] { set.read(0, INT64_MAX, x, y); }).exit_code == 2);
  CHECK(failure_of([&] { set.read(0, 1, x, y); }).says("expected (4)"));
}

TEST_CASE("the hash of a probe set is that of its tokens in their order, however wide they are stored") {
  const Stored stored;
  const Ids tokens = {12, 13, 14, 15, 16, 7, 1, 2, 3, 4, 20, 21, 22, 23, 24};
  CHECK(stored.hash == fmt::format("{:016x}", XXH3_64bits(tokens.data(), 4 * tokens.size())));
  const std::string other = stored.folder.file("other");
  CHECK(write_probe_set(other, stored.stream, 4, WindowList{3, 0, 5}, 70000, {}) == stored.hash);
  CHECK(TokenFile(other).type() == TokenType::kI32);
  CHECK(ProbeSequences(other).hash() == stored.hash);
  // Another order is another set; it replaces the older one whole.
  CHECK(write_probe_set(other, stored.stream, 4, WindowList{0, 3}, 301, {}) != stored.hash);
  CHECK(ProbeSequences(other).sequences() == 2);
  const std::string bytes = read_file(stored.prefix + ".bin") + read_file(stored.prefix + ".idx");
  CHECK(hash_of_token_file(stored.prefix) == fmt::format("{:016x}", XXH3_64bits(bytes.data(), bytes.size())));
  CHECK(failure_of([&] { write_probe_set(other, stored.stream, 4, WindowList{6}, 301, {}); }).says("window 6"));
}

TEST_CASE("a probe set that does not fit the run is refused, naming id and offset, or both lengths") {
  const Stored stored;
  write_probe_set(stored.prefix, stored.stream, 4, WindowList{3, 2}, 301, {});
  const ProbeSequences set(stored.prefix);
  set.require_length(4);
  CHECK(failure_of([&] { set.require_length(8); }).says(stored.prefix + ": sequences of 4 tokens, expected 8"));
  set.require_vocabulary(301);
  const Failure failure = failure_of([&] { set.require_vocabulary(300); });
  CHECK(failure.exit_code == 2);
  CHECK(failure.says(stored.prefix + ".bin: byte 16: token id 300 is outside the vocabulary of 300"));
}

TEST_CASE("a probe set cut short at any byte or with any bit of its tokens changed is refused") {
  const Stored stored;
  for (const char* ending : {".bin", ".idx", ".json"}) {
    const std::string path = stored.prefix + ending, whole = read_file(path);
    for (std::size_t size = 0; size + 2 < whole.size(); ++size) {  // the record's last bytes are a brace and a newline
      write_file(path, whole.substr(0, size));
      INFO(path << " cut at " << size);
      const Failure failure = stored.opened();
      CHECK(failure.exit_code == 2);
      CHECK(failure.says(stored.prefix));
    }
    write_file(path, whole);
  }
  const std::string path = stored.prefix + ".bin", whole = read_file(path);
  for (std::size_t bit = 0; bit < 8 * whole.size(); ++bit) {
    std::string changed = whole;
    changed[bit / 8] = static_cast<char>(changed[bit / 8] ^ (1 << bit % 8));
    write_file(path, changed);
    CHECK(stored.opened().says("damaged, or another set's"));
  }
  write_file(path, whole);
  CHECK(stored.opened().exit_code == 0);
}

TEST_CASE("a record that is missing, is no record, or is another set's is refused with its name") {
  const Stored stored;
  const std::string path = stored.prefix + ".json", record = read_file(path);
  const auto with = [&](const std::string& what, const std::string& instead) {
    std::string text = record;
    const std::size_t at = text.find(what);
    REQUIRE(at != std::string::npos);
    write_file(path, text.replace(at, what.size(), instead));
    const Failure failure = stored.opened();
    CHECK(failure.exit_code == 2);
    return failure;
  };
  std::filesystem::remove(path);
  CHECK(stored.opened().says(path + ": cannot open the file"));
  for (const char* garbage : {"", "{", "[]", "3", "\xff\xfe", "{}", "{\"hash\": \"0\"}", "{\"sequence\": 4}"}) {
    write_file(path, garbage);
    INFO(garbage);
    CHECK(stored.opened().exit_code == 2);
    CHECK(stored.opened().says(path));
  }
  CHECK(with("\"sequence\": 4", "\"sequence\": 5").says("sequence 0 has 5 tokens"));
  CHECK(with("\"sequence\": 4", "\"sequence\": \"4\"").says("sequence is of the wrong kind"));
  CHECK(with("\"sequence\": 4", "\"sequence\": 9223372036854775807").says("sequence 0 has 5 tokens"));
  CHECK(with("\"sequences\": 3", "\"sequences\": 4").says("says 4 sequences"));
  CHECK(with(stored.hash, "0123456789abcdef").says("0123456789abcdef"));

  const std::string other = stored.folder.file("other");
  write_probe_set(other, stored.stream, 4, WindowList{1, 2, 4}, 301, {});
  write_file(path, read_file(other + ".json"));
  CHECK(stored.opened().says("damaged, or another set's"));
  // A token file that no probe-set command made.
  CHECK(failure_of([&] { ProbeSequences{stored.folder.file("corpus")}; }).says("corpus.json: cannot open the file"));
}
