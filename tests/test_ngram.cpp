// N-gram baselines: distributions that sum to one, and planted statistics found.
#include <cmath>
#include <numeric>

#include "data/ngram.h"
#include "kernels/philox.h"
#include "tests/catch.h"
#include "tests/errors.h"
#include "tests/temporary.h"

using namespace nascent;

namespace {

using Ids = std::vector<std::int32_t>;

Ids random_tokens(std::size_t size, std::uint64_t vocabulary) {
  const Random random(1, "test", "tokens");
  Ids tokens(size);
  // Squared, so that some tokens are frequent and some rare or absent.
  for (std::size_t i = 0; i < size; ++i) {
    const double u = random.uniform(i);
    tokens[i] = static_cast<std::int32_t>(u * u * static_cast<double>(vocabulary));
  }
  return tokens;
}

NgramBaselines baselines_of(const Ids& train, const Ids& heldout, std::int64_t T, std::int64_t vocabulary) {
  const TemporaryFolder folder;
  TokenFileWriter writer(folder.file("a"), vocabulary);
  writer.add_document(train);
  writer.add_document(heldout);
  writer.finish();
  const TokenFile file(folder.file("a"));
  return ngram_baselines(TokenStream(file, {0}), TokenStream(file, {1}), T, vocabulary);
}

}  // namespace

TEST_CASE("probabilities of every order sum to one behind every past, seen or not") {
  for (const std::int32_t V : {1, 2, 5, 7}) {
    for (const std::size_t size : {1, 2, 3, 33, 1000}) {
      const NgramModel model(random_tokens(size, static_cast<std::uint64_t>(V)), V);
      for (std::int32_t a = -1; a < V; ++a)
        for (std::int32_t b = a < 0 ? -1 : 0; b < V; ++b) {
          Ids past;  // none, one token, two tokens
          if (a >= 0) past.push_back(a);
          if (b >= 0) past.push_back(b);
          std::array<double, 3> sum{};
          for (std::int32_t token = 0; token < V; ++token) {
            const auto p = model.probabilities(past, token);
            for (std::size_t n = 0; n < 3; ++n) {
              REQUIRE(p[n] > 0);
              sum[n] += p[n];
            }
          }
          // A few roundings each of at most V terms.
          for (const double s : sum) REQUIRE(std::abs(s - 1) <= 1e-14);
        }
    }
  }
}

TEST_CASE("worked by hand: aabab over two tokens") {
  // Bigrams aa 1, ab 2, ba 1: D = 2 / (2 + 2) = 1/2. Trigrams aab, aba, bab, once each: D = 1.
  const NgramModel model(Ids{0, 0, 1, 0, 1}, 2);
  const double a1 = 4.0 / 7, b1 = 3.0 / 7;
  const double b2 = (1.5 + 0.5 * 2 * b1) / 3;  // behind a
  auto p = model.probabilities(Ids{0, 0}, 1);
  CHECK(p[0] == Approx(b1).epsilon(1e-15));
  CHECK(p[1] == Approx(b2).epsilon(1e-15));
  CHECK(p[2] == Approx(b2).epsilon(1e-15));  // (max(1 - 1, 0) + 1 x 1 x b2) / 1
  p = model.probabilities(Ids{1}, 0);
  CHECK(p[1] == Approx((0.5 + 0.5 * a1) / 1).epsilon(1e-15));
  CHECK(p[2] == p[1]);
  // bb never occurs, so its trigrams are the bigrams behind b.
  p = model.probabilities(Ids{1, 1}, 0);
  CHECK(p[2] == p[1]);
}

TEST_CASE("a planted bigram chain is found by order 2 and not by order 1") {
  // Token k is followed by k + 1 or k + 3 (modulo 10), evenly: ln 2 nats behind one token, ln 10 without.
  const Random random(2, "test", "chain");
  Ids tokens{0};
  for (std::uint64_t i = 0; i < 60000; ++i) tokens.push_back((tokens.back() + (random.uniform(i) < 0.5 ? 1 : 3)) % 10);
  const Ids train(tokens.begin(), tokens.begin() + 50000), heldout(tokens.begin() + 50000, tokens.end());
  const NgramBaselines found = baselines_of(train, heldout, 33, 10);
  CHECK(found.targets == 10000 / 33 * 33);
  // Held-out sampling leaves less than 1e-3 here, and fitting 10 or 100 free numbers on 50000 tokens about
  // 1e-3.
  CHECK(std::abs(found.nats[0] - std::log(10.0)) < 5e-3);
  CHECK(std::abs(found.nats[1] - std::log(2.0)) < 5e-3);
  CHECK(std::abs(found.nats[2] - std::log(2.0)) < 5e-3);
}

TEST_CASE("a planted second-order rule is found by order 3 alone") {
  // Each token is the sum of the two before it (modulo 7), but for one in ten drawn at random.
  const Random random(3, "test", "rule");
  Ids tokens{1, 2};
  for (std::uint64_t i = 0; i < 60000; ++i) {
    const std::int32_t sum = (tokens[i] + tokens[i + 1]) % 7;
    const bool noise = random.uniform(2 * i) < 0.1;
    tokens.push_back(noise ? static_cast<std::int32_t>(random.uniform(2 * i + 1) * 7) : sum);
  }
  const Ids train(tokens.begin(), tokens.begin() + 40000), heldout(tokens.begin() + 40000, tokens.end());
  const NgramBaselines found = baselines_of(train, heldout, 1, 7);
  const double hit = 0.9 + 0.1 / 7, miss = 0.1 / 7;
  const double truth = -hit * std::log(hit) - 6 * miss * std::log(miss);
  CHECK(found.nats[1] > 1.9);
  CHECK(std::abs(found.nats[2] - truth) < 0.03);
}

TEST_CASE("baselines are evaluated on exactly the targets of the held-out windows") {
  const Ids train = random_tokens(1000, 33), heldout = random_tokens(100, 33);
  const NgramModel model(train, 33);
  for (const std::int64_t T : {1, 3, 33, 99}) {
    const NgramBaselines found = baselines_of(train, heldout, T, 33);
    const std::size_t targets = static_cast<std::size_t>(99 / T * T);
    REQUIRE(found.targets == targets);
    double nats = 0;
    for (std::size_t at = 1; at <= targets; ++at)
      nats -= std::log(model.probabilities(std::span(heldout).first(at), heldout[at])[2]);
    CHECK(found.nats[2] == Approx(nats / static_cast<double>(targets)).epsilon(1e-13));
  }
  CHECK(failure_of([&] { baselines_of(train, heldout, 100, 33); }).exit_code == 2);
  CHECK(failure_of([&] { baselines_of({}, heldout, 3, 33); }).exit_code == 2);
  CHECK(failure_of([&] { NgramModel(Ids{0, 5, 1}, 5); }).says("token 1 is 5"));
  CHECK(failure_of([&] { NgramModel(Ids{0}, 1 << 21); }).exit_code == 2);
  CHECK(failure_of([&] { NgramModel(Ids{0}, 0); }).exit_code == 2);
}
