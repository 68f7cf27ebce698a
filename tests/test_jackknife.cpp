// Standard errors are what leaving out each sequence (or each group of sequences) by hand gives, and cover the truth as
// often as they promise.
#include <algorithm>

#include "data/counts.h"
#include "probes/jackknife.h"
#include "tests/catch.h"
#include "tests/cloud.h"

using namespace nascent;
using namespace nascent::test;

namespace {

// Over sequences; those of gradient_energy and tangent for bases that stay as they are.
const std::set<std::string> kBySequence = {"mean_norm",        "norm_of_mean",    "avg_cosine", "between_share",
                                           "avg_cosine_other", "position0_share", "explained",  "share",
                                           "enrichment",       "control_mean",    "ratio",      "log_odds",
                                           "next_pc_share",    "mean_share",      "cos_next",   "rms"};

const std::set<std::string> kByGroup = {"participation_ratio",
                                        "participation_ratio_unbiased",
                                        "isoscore",
                                        "isoscore_star",
                                        "effective_rank",
                                        "pc1_share",
                                        "spectrum_slope",
                                        "ceiling",
                                        "of_ceiling",
                                        "z",
                                        "alignment"};

FrequencyBins bins_of_ten() {
  const std::vector<std::int64_t> counts = {900, 500, 300, 200, 150, 120, 100, 90, 80, 70}, edges = {1, 2, 4};
  const std::vector<std::int32_t> special = {7};
  return frequency_bins(counts, edges, 0, special);
}

// Bases that are not those of the data: `init` of another cloud, and one at random.
ProbeState stored_bases(std::size_t width, std::int64_t rank) {
  Cloud other = correlated_cloud(5, width);
  for (auto& row : other.h) std::reverse(row.begin(), row.end());
  DenseMatrix random(static_cast<std::int64_t>(width), rank);
  const Random numbers(3, "test", "basis");
  for (std::size_t i = 0; i < random.data.size(); ++i) random.data[i] = numbers.normal(i);
  const DenseMatrix planted = orthonormalize(random);
  ProbeState state;
  measured(other, Look(rank), {}, &state, &planted);
  return state;
}

// Whether a record is made of this row, among others.
bool counts_for(const Record& r, const Cloud& c, std::size_t i, const FrequencyBins& bins, std::int64_t sink) {
  const std::string bin = label_of(r, "bin"), positions = label_of(r, "positions");
  const std::int32_t type = label_of(r, "by") == "target" ? c.target[i] : c.token[i];
  const auto label = [&] { return bins.labels[static_cast<std::size_t>(bins.bin[static_cast<std::size_t>(type)])]; };
  return type >= 0 && (bin.empty() || label() == bin) &&
         (positions.empty() || (positions == "target") == (c.target[i] >= 0)) &&
         (label_of(r, "view") != "no_sink" || c.place[i] >= sink);
}

// se from values; none where there are fewer than two, or one is missing.
std::optional<double> error_from(const std::vector<std::optional<double>>& values) {
  if (values.size() < 2) return {};
  double mean = 0, sum = 0;
  const double parts = static_cast<double>(values.size());
  for (const auto& v : values) {
    if (!v) return {};
    mean += *v / parts;
  }
  for (const auto& v : values) sum += (*v - mean) * (*v - mean);
  return std::sqrt((parts - 1) / parts * sum);
}

void check_error(const Record& r, const std::optional<double>& wanted, double tolerance) {
  INFO(text_of(r) << ": se " << r.se.value_or(std::nan("")) << ", by hand " << wanted.value_or(std::nan("")));
  CHECK(r.se.has_value() == wanted.has_value());
  // Where leaving out changes nothing the value's own rounding is left.
  if (r.se && wanted) CHECK(std::abs(*r.se - *wanted) <= tolerance * *wanted + 1e-13 * std::abs(r.value.value_or(0)));
}

}  // namespace

TEST_CASE("standard errors over sequences are those of leaving out each sequence's rows by hand") {
  const FrequencyBins bins = bins_of_ten();
  for (const std::int32_t sequences : {2, 9}) {
    const Cloud cloud = correlated_cloud(sequences, 7);
    Look look(3);
    look.choice.sink = 2;
    look.choice.norm.known = true;
    look.choice.bins = &bins;
    const ProbeState bases = stored_bases(7, 3);
    const Records all = measured(cloud, look, bases);
    std::vector<Records> without;
    for (std::int32_t s = 0; s < sequences; ++s)
      without.push_back(measured(cloud.repeated([&](std::size_t i) { return cloud.sequence[i] != s; }), look, bases));
    std::set<std::string> seen;
    for (const Record& r : all) {
      if (!kBySequence.contains(r.key) || of_fitted_basis(r) || label_of(r, "weight") == "type") continue;
      std::vector<std::optional<double>> values;
      for (std::int32_t s = 0; s < sequences; ++s) {
        bool has_rows = false;
        for (std::size_t i = 0; i < cloud.size(); ++i)
          has_rows = has_rows || (cloud.sequence[i] == s && counts_for(r, cloud, i, bins, look.choice.sink));
        if (has_rows) values.push_back(value_in(without[static_cast<std::size_t>(s)], r, r.labels));
      }
      check_error(r, r.value ? error_from(values) : std::nullopt, 1e-8);
      if (r.se) seen.insert(r.key);
    }
    if (sequences > 2) CHECK(seen == kBySequence);
  }
}

TEST_CASE("standard errors of spectral measures are those of leaving out each of eight groups of sequences by hand") {
  for (const std::int32_t sequences : {5, 9, 20}) {
    const Cloud cloud = correlated_cloud(sequences, 7);
    const Look look(3);
    const ProbeState bases = stored_bases(7, 3);
    const Records all = measured(cloud, look, bases);
    std::vector<Records> without;
    for (std::int32_t g = 0; g < std::min(8, sequences); ++g)
      without.push_back(
          measured(cloud.repeated([&](std::size_t i) { return cloud.sequence[i] % 8 != g; }), look, bases));
    std::set<std::string> seen;
    for (const Record& r : all) {
      if (!kByGroup.contains(r.key) || of_fitted_basis(r)) continue;
      if (r.labels.find("positions") != std::string::npos || r.labels.find("view") != std::string::npos ||
          r.labels.find("weight") != std::string::npos)
        continue;  // no group is left out of parts
      std::vector<std::optional<double>> values;
      for (const Records& records : without) values.push_back(value_in(records, r, r.labels));
      check_error(r, r.value ? error_from(values) : std::nullopt, 1e-8);
      if (r.se) seen.insert(r.key);
    }
    CHECK(seen == kByGroup);
  }
}

TEST_CASE("the mean gradient's share across halves, and its standard error, are those of sums by hand") {
  const Cloud cloud = correlated_cloud(9, 7);
  DenseMatrix q = axes(7, 2);
  const Records records = measured(cloud, Look(2), {}, nullptr, &q);
  const Record* r = find_record(records, "mean_share_cross", "basis=planted");
  REQUIRE(r);
  const auto value = [&](std::int32_t left_out) {
    double inside = 0, total = 0;
    for (std::size_t j = 0; j < 7; ++j) {
      double half[2] = {0, 0};
      for (std::size_t i = 0; i < cloud.size(); ++i) {
        if (cloud.sequence[i] != left_out) half[cloud.sequence[i] % 2] += cloud.g[i][j];
      }
      total += half[0] * half[1];
      if (j < 2) inside += half[0] * half[1];
    }
    return inside / total;
  };
  CHECK(*r->value == Approx(value(-1)).epsilon(1e-12));
  std::vector<std::optional<double>> values;
  for (std::int32_t s = 0; s < 9; ++s) values.emplace_back(value(s));
  check_error(*r, error_from(values), 1e-8);
}

namespace {

double dot(const std::vector<double>& a, const std::vector<double>& b) {
  double sum = 0;
  for (std::size_t j = 0; j < a.size(); ++j) sum += a[j] * b[j];
  return sum;
}

std::vector<double> mean_of(const Points& x, const std::vector<std::size_t>& rows) {
  std::vector<double> mean(x.front().size(), 0.0);
  for (const std::size_t i : rows) {
    for (std::size_t j = 0; j < mean.size(); ++j) mean[j] += x[i][j] / static_cast<double>(rows.size());
  }
  return mean;
}

double squared_distance(const std::vector<double>& a, const std::vector<double>& b) {
  return dot(a, a) - 2 * dot(a, b) + dot(b, b);
}

}  // namespace

TEST_CASE("shares of variance and cosines of pairs are those of plain loops over rows and pairs") {
  const Cloud cloud = correlated_cloud(9, 5);
  const Records records = measured(cloud, Look(2));
  for (const bool gradient : {false, true}) {
    for (const bool by_target : {false, true}) {
      const Points& x = gradient ? cloud.g : cloud.h;
      const auto& type = by_target ? cloud.target : cloud.token;
      std::vector<std::size_t> rows;
      for (std::size_t i = 0; i < cloud.size(); ++i) {
        if (type[i] >= 0 && (!gradient || dot(x[i], x[i]) > 0)) rows.push_back(i);
      }
      const std::vector<double> mu = mean_of(x, rows);
      double total = 0, between = 0, first = 0, top = 0, cosines = 0, pairs = 0;
      for (const std::size_t i : rows) {
        std::vector<std::size_t> same;
        for (const std::size_t k : rows) {
          if (type[k] == type[i]) same.push_back(k);
          if (type[k] == type[i] || cloud.sequence[k] == cloud.sequence[i]) continue;
          cosines += dot(x[i], x[k]) / std::sqrt(dot(x[i], x[i]) * dot(x[k], x[k]));
          pairs += 1;
        }
        const double square = squared_distance(x[i], mu);
        total += square;
        between += squared_distance(mean_of(x, same), mu);
        first += cloud.place[i] == 0 ? square : 0;
        top = std::max(top, square);  // fewer than 1000 rows: one of them
      }
      const std::string of = std::string(by_target ? "by=target," : "") + (gradient ? "of=gradient" : "of=activation");
      INFO(of);
      CHECK(value_of(records, "between_share", of) == Approx(between / total).epsilon(1e-10));
      CHECK(value_of(records, "avg_cosine_other", of) == Approx(cosines / pairs).epsilon(1e-10));
      if (by_target) continue;
      CHECK(value_of(records, "position0_share", of) == Approx(first / total).epsilon(1e-10));
      CHECK(value_of(records, "top_position_share", of) == Approx(top / total).epsilon(1e-10));
    }
  }
  double sum = 0, count = 0;
  for (std::size_t i = 0; i < cloud.size(); ++i) {
    const double norms = std::sqrt(dot(cloud.g[i], cloud.g[i]) * dot(cloud.next[i], cloud.next[i]));
    if (norms == 0) continue;
    sum += dot(cloud.g[i], cloud.next[i]) / norms;
    count += 1;
  }
  CHECK(value_of(records, "cos_next", "of=gradient") == Approx(sum / count).epsilon(1e-10));
}

namespace {

// Sequences of six rows: what a sequence has of its own, with variances 4, 1, 1, 1, 1, 1, and each row's, with 1, 1, 1, 1,
// 1, 4. Of h and g alike, the first axis holds 5 of 18 parts of the variance.
Cloud random_effects(std::uint64_t seed, std::int32_t sequences) {
  const Random random(seed, "test", "coverage");
  std::uint64_t drawn = 0;
  Cloud c;
  for (std::int32_t s = 0; s < sequences; ++s) {
    std::vector<double> own[2];
    for (auto& v : own) {
      for (int j = 0; j < 6; ++j) v.push_back((j == 0 ? 2 : 1) * random.normal(drawn++));
    }
    for (std::int32_t p = 0; p < 6; ++p) {
      for (Points* x : {&c.h, &c.g}) {
        x->push_back(own[x == &c.g]);
        for (std::size_t j = 0; j < 6; ++j) x->back()[j] += (j == 5 ? 2 : 1) * random.normal(drawn++);
      }
      c.next.push_back(c.g.back());
      c.sequence.push_back(s);
      c.token.push_back(0);
      c.place.push_back(p);
    }
  }
  return c;
}

}  // namespace

TEST_CASE("nine in ten to all but two in a hundred intervals of 1.96 se hold the truth, those of positions fewer") {
  const DenseMatrix axis = axes(6, 1);
  Look look(1);
  look.detail = false;
  const double truth = 5.0 / 18;
  // Of the share, its log odds, the explained variance, and the mean's norm: E||x|| from many more draws.
  double mean_norm = 0;
  const Cloud many = random_effects(1000, 20000);
  for (const auto& row : many.h) mean_norm += std::sqrt(dot(row, row)) / static_cast<double>(many.size());
  const struct {
    const char *key, *labels;
    double truth;
  } keys[] = {{"share", "basis=planted", truth},
              {"log_odds", "basis=planted", std::log(truth * 5 / (1 - truth))},
              {"explained", "basis=planted", truth},
              {"mean_norm", "of=activation", mean_norm}};
  int held[4] = {}, naive[4] = {};
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    Cloud cloud = random_effects(seed, 40);
    for (int* count : {held, naive}) {
      if (count == naive) {
        for (std::size_t i = 0; i < cloud.size(); ++i) cloud.sequence[i] = static_cast<std::int32_t>(i);
      }
      const Records records = measured(cloud, look, {}, nullptr, &axis);
      for (std::size_t k = 0; k < 4; ++k) {
        const double error = std::abs(value_of(records, keys[k].key, keys[k].labels) - keys[k].truth);
        count[k] += error <= 1.96 * error_of(records, keys[k].key, keys[k].labels);
      }
    }
  }
  for (std::size_t k = 0; k < 4; ++k) {
    INFO(keys[k].key << ": " << held[k] << " of 100, with positions taken for independent " << naive[k]);
    CHECK(held[k] >= 90);
    CHECK(held[k] <= 98);
    CHECK(naive[k] <= held[k] - 8);
  }
}
