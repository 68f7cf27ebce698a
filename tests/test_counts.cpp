// Counts, ranks and bins.
#include <numeric>

#include "data/counts.h"
#include "tests/catch.h"
#include "tests/errors.h"
#include "tests/temporary.h"

using namespace nascent;

namespace {

using Counts = std::vector<std::int64_t>;
using Edges = std::vector<std::int64_t>;
using Ids = std::vector<std::int32_t>;
using Labels = std::vector<std::string>;

FrequencyBins by_edges(const Counts& counts, const Edges& edges, const Ids& special = {}) {
  return frequency_bins(counts, edges, 0, special);
}
FrequencyBins by_mass(const Counts& counts, std::int64_t B, const Ids& special = {}) {
  return frequency_bins(counts, {}, B, special);
}

// How many of the tokens lie in each bin.
std::vector<int> positions(const FrequencyBins& bins, const Ids& tokens) {
  std::vector<int> n(bins.labels.size());
  for (const std::int32_t token : tokens)
    ++n.at(static_cast<std::size_t>(bins.bin.at(static_cast<std::size_t>(token))));
  return n;
}

}  // namespace

TEST_CASE("counts of a stream are those of its documents alone, across chunks and borders") {
  const TemporaryFolder folder;
  const std::string prefix = folder.file("tokens");
  TokenFileWriter writer(prefix, 70000);
  Ids large(150001);
  for (std::size_t i = 0; i < large.size(); ++i) large[i] = static_cast<std::int32_t>(i % 3);
  writer.add_document(Ids{4, 4, 1});
  writer.add_document(large);
  writer.add_document({});
  writer.add_document(Ids{69999, 4});
  writer.finish();
  const TokenFile file(prefix);

  CHECK(token_counts(TokenStream(file, {0, 2}), 5) == Counts{0, 1, 0, 0, 2});
  CHECK(token_counts(TokenStream(file, {2}), 3) == Counts{0, 0, 0});
  const Counts counts = token_counts(TokenStream(file, {1, 2, 3}), 70000);
  CHECK(counts[0] == 50001);
  CHECK(counts[2] == 50000);
  CHECK(counts[4] == 1);
  CHECK(counts[69999] == 1);
  CHECK(std::accumulate(counts.begin(), counts.end(), std::int64_t{0}) == 150003);

  const Failure failure = failure_of([&] { token_counts(TokenStream(file, {1, 3}), 69999); });
  CHECK(failure.exit_code == 2);
  CHECK(failure.says("token 150001 of the stream is 69999, outside the vocabulary of 69999"));
  CHECK(failure_of([&] { token_counts(TokenStream(file, {}), 0); }).exit_code == 2);
}

TEST_CASE("rank 1 is the most frequent type, of equal counts the lower id comes first, count 0 comes last") {
  const FrequencyBins bins = by_edges({5, 0, 9, 5, 0, 7}, {1, 3, 5});
  CHECK(bins.rank == Counts{3, 5, 1, 4, 6, 2});
  CHECK(bins.bin == Ids{1, 2, 0, 1, 2, 0});
  CHECK(bins.labels == Labels{"1", "3", "5"});
}

TEST_CASE("special ids have no rank, take no mass, and stand together in the last bin") {
  const FrequencyBins bins = by_edges({5, 1000, 9, 5, 0, 7}, {1, 3}, {4, 1, 4});
  CHECK(bins.rank == Counts{3, 0, 1, 4, 0, 2});
  CHECK(bins.bin == Ids{1, 2, 0, 1, 2, 0});
  CHECK(bins.labels == Labels{"1", "3", "special"});
  CHECK(by_mass({40, 1000, 60, 20}, 3, {1}).labels == Labels{"1", "2", "3", "special"});
  CHECK(by_mass({40, 1000, 60, 20}, 3).labels == Labels{"1", "2"});
  const FrequencyBins only = by_edges({3, 1}, {}, {0, 1});
  CHECK(only.labels == Labels{"special"});
  CHECK(only.bin == Ids{0, 0});
}

TEST_CASE("edges left out are the powers of ten, and bins beyond the last rank do not exist") {
  const Counts counts(1234, 1);
  const FrequencyBins bins = by_edges(counts, {});
  CHECK(bins.labels == Labels{"1", "10", "100", "1000"});
  for (const auto& [id, bin] : {std::pair(0u, 0), {8u, 0}, {9u, 1}, {98u, 1}, {99u, 2}, {999u, 3}, {1233u, 3}})
    CHECK(bins.bin[id] == bin);
  CHECK(by_edges({1, 1}, {1, 2, 3, 50}).labels == Labels{"1", "2"});
  CHECK(by_edges({}, {}).labels.empty());
}

TEST_CASE("a bin of equal mass begins where the share ranked before reaches it, in whole numbers") {
  // Shares before: 0, 0.29, 0.58, 0.87; in floating point 100 x 0.29 is less than 29.
  CHECK(by_mass({29, 29, 29, 13}, 100).labels == Labels{"1", "2", "3", "4"});
  const FrequencyBins bins = by_mass({10, 20, 30, 40, 0}, 10);
  CHECK(bins.bin == Ids{3, 2, 1, 0, 3});  // shares before 0.9, 0.7, 0.4, 0, 1: bins 9, 7, 4, 0 and again 9
  CHECK(bins.labels == Labels{"1", "2", "3", "4"});
  // One type holds most: the bins it jumps over do not exist.
  CHECK(by_mass({97, 1, 1, 1}, 3).labels == Labels{"1", "2"});
  CHECK(by_mass({0, 0, 0}, 3).labels == Labels{"1"});
  CHECK(by_mass({7}, 1).labels == Labels{"1"});
}

TEST_CASE("bins hold the worked positions") {
  const Counts counts = {15, 20, 40, 25, 30,  25,  15, 25, 125, 60, 165, 35, 20, 100, 15,
                         0,  30, 35, 50, 500, 250, 70, 55, 45,  25, 20,  80, 20, 20,  15};
  const Ids tokens = {3,  20, 26, 19, 26, 13, 24, 8,  3,  19, 10, 19, 19, 9,  14, 12, 2,  26, 9,  13,
                      19, 8,  9,  10, 19, 20, 13, 20, 11, 8,  15, 3,  19, 20, 20, 7,  21, 26, 26, 10,
                      4,  20, 17, 19, 17, 22, 20, 13, 19, 19, 28, 9,  9,  19, 20, 9,  19, 9,  9,  2};
  CHECK(positions(by_edges(counts, {1, 3, 8, 20}), tokens) == std::vector{20, 16, 19, 5});
  CHECK(positions(by_edges(counts, {}), tokens) == std::vector{45, 15});
  const FrequencyBins mass = by_mass(counts, 3);
  CHECK(mass.labels == Labels{"1", "3", "8"});
  CHECK(positions(mass, tokens) == std::vector{20, 16, 24});

  const Counts few = {70, 80, 250, 125, 500, 45, 100, 55, 0, 50, 165, 60};
  const Ids targets = {1, 2, 4, 6, 6,  6,  4,  7, 5, 6, 4, 4, 4, 4, 4, 4, 4, 4, 7, 2, 4,  4,  3, 4,
                       4, 4, 4, 1, 10, 10, 10, 4, 7, 2, 2, 5, 6, 0, 5, 4, 2, 6, 4, 4, 10, 10, 4, 0};
  CHECK(positions(by_edges(few, {1, 3, 6}, {2, 4}), targets) == std::vector{6, 10, 6, 26});
  CHECK(positions(by_mass(few, 3, {2, 4}), targets) == std::vector{6, 10, 6, 26});
}

TEST_CASE("bins that make no sense are refused") {
  CHECK(failure_of([] { by_edges({1}, {2, 3}); }).says("the first edge is rank 2, expected 1"));
  CHECK(failure_of([] { by_edges({1}, {1, 5, 5}); }).says("edge 5 behind edge 5"));
  CHECK(failure_of([] { by_edges({1, -1}, {}); }).says("count of id 1 is -1"));
  CHECK(failure_of([] { by_edges({1, 1}, {}, {2}); }).says("special id 2 is outside the vocabulary of 2"));
  CHECK(failure_of([] { by_edges({1, 1}, {}, {-1}); }).exit_code == 2);
  CHECK(failure_of([] { by_mass({1}, -1); }).says("equal_mass is -1"));
  const std::int64_t huge = INT64_MAX / 4;
  CHECK(failure_of([&] { by_mass({huge, huge, huge, huge, huge}, 1); }).says("add up to more than 2^63"));
  CHECK(failure_of([&] { by_mass({huge}, 5); }).exit_code == 2);
  CHECK(by_mass({huge}, 4).labels == Labels{"1"});
}
