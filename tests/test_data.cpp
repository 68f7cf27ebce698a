// Files, text, order, split and windows.
#include <algorithm>
#include <cmath>
#include <csignal>
#include <filesystem>
#include <map>
#include <numeric>
#include <set>
#include <sys/resource.h>
#include <sys/stat.h>
#include <xxhash.h>

#include "data/dataset.h"
#include "data/file.h"
#include "data/order.h"
#include "data/text.h"
#include "tests/catch.h"
#include "tests/errors.h"
#include "tests/temporary.h"

using namespace nascent;

namespace {

// Documents of the given sizes whose tokens count on from 0 over the whole file.
TokenFile counting_file(const TemporaryFolder& folder, const std::vector<int>& sizes) {
  TokenFileWriter writer(folder.file("counting"), 65000);
  std::int32_t next = 0;
  for (const int size : sizes) {
    std::vector<std::int32_t> ids(static_cast<std::size_t>(size));
    std::iota(ids.begin(), ids.end(), next);
    next += size;
    writer.add_document(ids);
  }
  writer.finish();
  return TokenFile(folder.file("counting"));
}

// Whether a chi-square statistic of f degrees of freedom lies where chance leaves it but once in a million
// (Laurent & Massart 2000, lemma 1).
bool is_chance(double chi_square, double f) {
  const double x = std::log(1e6);
  return chi_square - f <= 2 * std::sqrt(f * x) + 2 * x && f - chi_square <= 2 * std::sqrt(f * x);
}

std::vector<std::uint64_t> all_documents(const TokenFile& file) {
  std::vector<std::uint64_t> documents(file.documents());
  std::iota(documents.begin(), documents.end(), 0u);
  return documents;
}

}  // namespace

TEST_CASE("a file is replaced whole, and a write that fails leaves the old one and nothing else") {
  const TemporaryFolder folder;
  const std::string path = folder.file("a");
  write_file(path, "old");
  CHECK(read_file(path) == "old");
  write_file(path, "");
  CHECK(read_file(path).empty());
  write_file(path, "old");

  // The system's limit on file sizes stands in for a full disk.
  rlimit before{};
  REQUIRE(getrlimit(RLIMIT_FSIZE, &before) == 0);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit small{1000, before.rlim_max};
  REQUIRE(setrlimit(RLIMIT_FSIZE, &small) == 0);
  const Failure failure = failure_of([&] { write_file(path, std::string(3000, 'x')); });
  setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
  CHECK(failure.exit_code == 1);
  CHECK(failure.says(path));
  CHECK(read_file(path) == "old");
  CHECK(folder.names() == std::vector<std::string>{"a"});
}

TEST_CASE("what cannot be read or written is the user's to repair, and named") {
  const TemporaryFolder folder;
  const Failure missing = failure_of([&] { read_file(folder.file("missing")); });
  CHECK(missing.exit_code == 2);
  CHECK(missing.says(folder.file("missing")));
  CHECK(missing.says("No such file"));
  CHECK(failure_of([&] { read_file(folder.file("")); }).says("is a directory"));
  REQUIRE(mkfifo(folder.file("pipe").c_str(), 0600) == 0);
  CHECK(failure_of([&] { read_file(folder.file("pipe")); }).says("not a regular file"));
  CHECK(failure_of([&] { write_file(folder.file("missing/a"), "x"); }).exit_code == 2);
  // What stands under the file's own name and is no file stays.
  std::filesystem::create_directory(folder.file("taken"));
  for (const char* name : {"taken", "pipe"}) {
    CHECK(failure_of([&] { write_file(folder.file(name), "x"); }).exit_code == 2);
    CHECK(!std::filesystem::is_regular_file(folder.file(name)));
    CHECK(!std::filesystem::exists(folder.file(std::string(name) + ".partial")));
  }
}

TEST_CASE("documents are slices of the text, cut at blank lines, at lines or not at all") {
  const TemporaryFolder folder;
  const std::string path = folder.file("text");
  using Documents = std::vector<std::string_view>;
  write_file(path, "\n\na b\nc\n \t\n\n\r\nd\n\ne");
  CHECK(TextFile(path, "blank-line").documents() == Documents{"a b\nc\n", "d\n", "e"});
  CHECK(TextFile(path, "line").documents() == Documents{"a b\n", "c\n", "d\n", "e"});
  CHECK(TextFile(path, "file").documents() == Documents{"\n\na b\nc\n \t\n\n\r\nd\n\ne"});
  write_file(path, "x");
  CHECK(TextFile(path, "blank-line").documents() == Documents{"x"});
  CHECK(failure_of([&] { TextFile(path, "comma"); }).says("expected \"blank-line\", \"line\" or \"file\""));
  for (const char* empty : {"", "\n", " \n\r\n"}) {
    write_file(path, empty);
    for (const char* separator : {"blank-line", "line", "file"})
      CHECK(failure_of([&] { TextFile(path, separator); }).exit_code == 2);
  }
}

TEST_CASE("bytes that are not UTF-8 are refused with their offset") {
  const TemporaryFolder folder;
  write_file(folder.file("latin"), "caf\xE9\n");
  const Failure failure = failure_of([&] { TextFile(folder.file("latin"), "line"); });
  CHECK(failure.exit_code == 2);
  CHECK(failure.says("byte 3"));
  CHECK(failure.says(folder.file("latin")));

  const auto valid = [](std::string_view text) { return find_invalid_utf8(text) == text.size(); };
  for (const char* text : {"", "a", "é", "\u0800", "\uFFFF", "\U00010000", "\U0010FFFF", "日本\n"}) CHECK(valid(text));
  // A lone continuation, a cut sequence, overlong forms, a surrogate, beyond U+10FFFF.
  for (const char* text : {"\x80", "\xE6\x97", "\xC0\x80", "\xC1\xBF", "\xE0\x9F\xBF", "\xF0\x8F\xBF\xBF",
                           "\xED\xA0\x80", "\xF4\x90\x80\x80", "\xF5\x80\x80\x80", "\xC3\x28", "\xE6\x97\x28"})
    CHECK(!valid(text));
}

TEST_CASE("each epoch sees every sample once, in an order of its own") {
  for (const std::uint64_t count : {1, 2, 3, 4, 5, 33, 64, 65, 1000, 65537}) {
    const SampleOrder order(count, 7);
    std::vector<std::uint64_t> first, second;
    for (std::uint64_t i = 0; i < count; ++i) {
      first.push_back(order.at(i));
      second.push_back(order.at(count + i));
    }
    if (count >= 33) CHECK(first != second);
    for (auto* epoch : {&first, &second}) {
      std::ranges::sort(*epoch);
      for (std::uint64_t i = 0; i < count; ++i) REQUIRE((*epoch)[i] == i);
    }
  }
  CHECK(failure_of([] { SampleOrder(0, 1); }).exit_code == 2);
}

TEST_CASE("an order far beyond 2^32 samples stays in range and does not repeat itself") {
  const std::uint64_t count = (std::uint64_t{1} << 62) + 33;
  const SampleOrder order(count, 1);
  std::set<std::uint64_t> seen;
  for (std::uint64_t i = 0; i < 1000; ++i) seen.insert(order.at(count - 500 + i));
  CHECK(*seen.rbegin() < count);
  // Two epochs meet here; within 1000 draws of 2^62 a repetition has a chance of 1e-13.
  CHECK(seen.size() == 1000);
}

TEST_CASE("the order depends on seed and epoch, and on nothing before the position") {
  const SampleOrder order(1000, 3), same(1000, 3), other(1000, 4);
  std::vector<std::uint64_t> forward, backward, of_other;
  for (std::uint64_t i = 0; i < 3000; ++i) forward.push_back(order.at(i));
  for (std::uint64_t i = 3000; i-- > 0;) backward.push_back(same.at(i));
  for (std::uint64_t i = 0; i < 3000; ++i) of_other.push_back(other.at(i));
  std::ranges::reverse(backward);
  CHECK(forward == backward);
  CHECK(forward != of_other);
  // Pinned: a change of these numbers breaks every recorded run.
  CHECK(std::vector(forward.begin(), forward.begin() + 4) == std::vector<std::uint64_t>{773, 242, 884, 317});
}

TEST_CASE("all orders of few samples are equally likely, over epochs and over seeds") {
  // The network itself is off by at most 0.2 %, which adds 4e-6 n to the statistic: nothing at this n.
  const auto is_even = [](std::uint64_t count, auto&& order_of) {
    const int n = 12000;
    std::map<std::vector<std::uint64_t>, int> seen;
    for (std::uint64_t i = 0; i < n; ++i) ++seen[order_of(i)];
    double orders = 1;
    for (std::uint64_t i = 2; i <= count; ++i) orders *= static_cast<double>(i);
    double chi_square = (orders - static_cast<double>(seen.size())) * n / orders;
    for (const auto& [order, times] : seen) chi_square += std::pow(times - n / orders, 2) / (n / orders);
    return is_chance(chi_square, orders - 1);
  };
  for (const std::uint64_t count : {2, 3, 4, 5}) {
    const auto of_epoch = [&](std::uint64_t epoch) {
      std::vector<std::uint64_t> order;
      for (std::uint64_t i = 0; i < count; ++i) order.push_back(SampleOrder(count, 1).at(epoch * count + i));
      return order;
    };
    const auto of_seed = [&](std::uint64_t seed) {
      std::vector<std::uint64_t> order;
      for (std::uint64_t i = 0; i < count; ++i) order.push_back(SampleOrder(count, seed).at(i));
      return order;
    };
    CHECK(is_even(count, of_epoch));
    CHECK(is_even(count, of_seed));
  }
}

TEST_CASE("where a sample stands is uniform over epochs") {
  const std::uint64_t count = 33;
  const int epochs = 3300;
  const SampleOrder order(count, 5);
  for (const std::uint64_t position : {0, 1, 32}) {
    std::vector<int> seen(count);
    for (std::uint64_t epoch = 0; epoch < epochs; ++epoch) ++seen[order.at(epoch * count + position)];
    double chi_square = 0;
    for (const int times : seen) chi_square += std::pow(times - 100, 2) / 100;
    CHECK(is_chance(chi_square, count - 1));
  }
}

TEST_CASE("held-out documents are the same for all runs, nested in the fraction and disjoint from training") {
  for (const std::uint64_t documents : {0, 1, 3, 33, 1000}) {
    std::vector<std::uint64_t> smaller;
    for (const double fraction : {0.0, 0.05, 0.3, 0.9}) {
      const Split split = split_documents(documents, fraction);
      std::vector<std::uint64_t> all = split.train;
      all.insert(all.end(), split.heldout.begin(), split.heldout.end());
      std::ranges::sort(all);
      REQUIRE(all.size() == documents);
      for (std::uint64_t i = 0; i < documents; ++i) REQUIRE(all[i] == i);
      CHECK(std::ranges::includes(split.heldout, smaller));
      if (fraction == 0) CHECK(split.heldout.empty());
      smaller = split.heldout;
    }
  }
  // Four standard deviations of a binomial count.
  CHECK(std::abs(static_cast<double>(split_documents(100000, 0.05).heldout.size()) - 5000) < 4 * std::sqrt(4750));
  // A longer file adds documents and moves none.
  const auto few = split_documents(33, 0.3).heldout, many = split_documents(1000, 0.3).heldout;
  REQUIRE_FALSE(few.empty());
  CHECK(std::equal(few.begin(), few.end(), many.begin()));
  for (const double fraction : {-0.1, 1.0, std::nan("")})
    CHECK(failure_of([&] { split_documents(3, fraction); }).exit_code == 2);
}

TEST_CASE("a stream crosses the borders of documents, empty ones included") {
  const TemporaryFolder folder;
  const TokenFile file = counting_file(folder, {3, 0, 1, 33, 0, 0, 5, 0});
  const TokenStream stream(file, all_documents(file));
  REQUIRE(stream.size() == 42);
  for (std::uint64_t begin = 0; begin <= 42; ++begin)
    for (std::uint64_t end = begin; end <= 42; ++end) {
      std::vector<std::int32_t> tokens(end - begin), expected(end - begin);
      std::iota(expected.begin(), expected.end(), static_cast<std::int32_t>(begin));
      stream.read(begin, tokens);
      REQUIRE(tokens == expected);
    }
  const TokenStream some(file, {0, 6});
  std::vector<std::int32_t> tokens(8);
  some.read(0, tokens);
  CHECK(tokens == std::vector<std::int32_t>{0, 1, 2, 37, 38, 39, 40, 41});
  CHECK(failure_of([&] { some.read(1, tokens); }).exit_code == 2);
  CHECK(failure_of([&] { some.read(~std::uint64_t{0}, tokens); }).exit_code == 2);
}

TEST_CASE("sample k is tokens kT to kT+T, and targets are the tokens behind them") {
  const TemporaryFolder folder;
  const TokenFile file = counting_file(folder, {3, 1, 33, 5});
  const TokenStream stream(file, all_documents(file));
  for (const std::int64_t T : {1, 2, 3, 7, 33, 41}) {
    const Windows windows(stream, T);
    REQUIRE(windows.count() == 41 / static_cast<std::uint64_t>(T));
    std::vector<std::int32_t> inputs(static_cast<std::size_t>(T)), targets(inputs.size());
    for (std::uint64_t k = 0; k < windows.count(); ++k) {
      windows.fill(k, inputs, targets);
      for (std::size_t t = 0; t < inputs.size(); ++t) {
        REQUIRE(inputs[t] == static_cast<std::int32_t>(k * inputs.size() + t));
        REQUIRE(targets[t] == inputs[t] + 1);
      }
    }
    CHECK(failure_of([&] { windows.fill(windows.count(), inputs, targets); }).exit_code == 2);
    CHECK(failure_of([&] { windows.fill(0, inputs, std::span(targets).first(targets.size() - 1)); }).exit_code == 2);
  }
  const Failure short_text = failure_of([&] { Windows(stream, 42); });
  CHECK(short_text.exit_code == 2);
  CHECK(short_text.says("hold 42 tokens"));
  CHECK(short_text.says("needs 43"));
  CHECK(failure_of([&] { Windows(stream, 0); }).exit_code == 2);
  CHECK(failure_of([&] { Windows(TokenStream(file, {}), 1); }).exit_code == 2);
}

TEST_CASE("the sample stream is the same for batches of 1, 4 and 32, and when it stops and goes on") {
  const TemporaryFolder folder;
  const TokenFile file = counting_file(folder, {1000, 33, 1, 3, 600});
  const TokenStream stream(file, all_documents(file));
  const Windows windows(stream, 33);
  const SampleOrder order(windows.count(), 11);
  // Steps [first, last) of a run with B samples a step: a hash of all they hold, in order.
  const auto hash = [&](std::uint64_t B, std::uint64_t first, std::uint64_t last, std::uint64_t so_far) {
    std::vector<std::int32_t> inputs(33), targets(33);
    for (std::uint64_t position = first * B; position < last * B; ++position) {
      windows.fill(order.at(position), inputs, targets);
      so_far = XXH3_64bits_withSeed(inputs.data(), sizeof(inputs[0]) * inputs.size(), so_far);
      so_far = XXH3_64bits_withSeed(targets.data(), sizeof(targets[0]) * targets.size(), so_far);
    }
    return so_far;
  };
  const std::uint64_t one = hash(1, 0, 128, 0);
  CHECK(hash(4, 0, 32, 0) == one);
  CHECK(hash(32, 0, 4, 0) == one);
  CHECK(hash(4, 13, 32, hash(4, 0, 13, 0)) == one);
  CHECK(hash(1, 0, 127, 0) != one);
}
