// What must read nothing where there is nothing, and the truth where it was planted.
#include <limits>
#include <map>

#include "data/counts.h"
#include "probes/controls.h"
#include "tests/catch.h"
#include "tests/cloud.h"

using namespace nascent;
using namespace nascent::test;

namespace {

// Independent numbers, equal in every direction: h about a mean, g about 0, in sequences of ten rows.
Cloud flat_cloud(std::uint64_t seed, std::size_t n, std::size_t d) {
  const Random random(seed, "test", "flat");
  std::uint64_t drawn = 0;
  Cloud c;
  for (std::size_t i = 0; i < n; ++i) {
    for (Points* x : {&c.h, &c.g}) {
      x->emplace_back();
      for (std::size_t j = 0; j < d; ++j) x->back().push_back((x == &c.h ? 5 : 0) + random.normal(drawn++));
    }
    c.next.push_back(c.g.back());
    c.sequence.push_back(static_cast<std::int32_t>(i / 10));
    c.token.push_back(static_cast<std::int32_t>(i % 7));
    c.place.push_back(static_cast<std::int32_t>(i % 10));
  }
  return c;
}

std::optional<Record> record_of(const Records& records, const std::string& key, const std::string& labels) {
  const Record* r = find_record(records, key, labels);
  return r && r->value ? std::optional<Record>(*r) : std::nullopt;
}

DenseMatrix random_basis(std::uint64_t seed, std::int64_t d, std::int64_t r) {
  DenseMatrix a(d, r);
  const Random numbers(seed, "test", "basis");
  for (std::size_t i = 0; i < a.data.size(); ++i) a.data[i] = numbers.normal(i);
  return orthonormalize(a);
}

}  // namespace

TEST_CASE("flat clouds read chance: energies within their errors, alignment within its null, ratios the width") {
  const std::size_t n = 3000, d = 32, r = 4;
  const double chance = static_cast<double>(r) / d;
  for (std::uint64_t seed = 0; seed < 5; ++seed) {
    INFO("seed " << seed);
    const Records records = measured(flat_cloud(seed, n, d), Look(static_cast<std::int64_t>(r)));
    const auto within = [&](const char* key, double expected) {
      const auto record = record_of(records, key, "basis=current");
      INFO(key);
      REQUIRE(record);
      REQUIRE(record->se);
      INFO(*record->value << " +- " << *record->se);
      CHECK(std::abs(*record->value - expected) <= 3.5 * *record->se);
    };
    within("share", chance);
    within("log_odds", 0);
    within("ratio", 1);
    within("enrichment", 1);
    within("control_mean", chance);
    within("next_pc_share", chance);
    // The squared part of one random direction in r of d.
    const double one = std::sqrt(2 * chance * (1 - chance) / (static_cast<double>(d) + 2));
    CHECK(std::abs(value_of(records, "mean_share", "basis=current") - chance) <= 3.5 * one);
    CHECK(std::abs(value_of(records, "alignment", "")) <= 3 * std::sqrt(2.0 / ((d - 1.0) * (d + 2.0))));
    CHECK(std::abs(value_of(records, "z", "basis=current")) <= 3.5);
    CHECK(value_of(records, "angle_mean", "basis=current_even,other=current_odd") >= 50);
    CHECK(value_of(records, "control_p", "basis=current") >= 0.02);
    CHECK(value_of(records, "random_p", "basis=current") >= 0.02);
    for (const char* of : {"of=activation", "of=gradient"}) {
      INFO(of);
      CHECK(value_of(records, "pr_cross", of) == Approx(d).epsilon(0.02));
      CHECK(value_of(records, "participation_ratio_unbiased", of) == Approx(d).epsilon(0.02));
      const auto cosine = record_of(records, "avg_cosine_other", of);
      if (std::string(of) == "of=gradient") CHECK(std::abs(*cosine->value) <= 3.5 * *cosine->se);
      const auto between = record_of(records, "between_share", of);  // six of n - 1 degrees of freedom
      CHECK(*between->value <= 3 * 6.0 / static_cast<double>(n));
    }
  }
}

TEST_CASE("p against random subspaces is small as often as it says, against normal ones more often for a wide basis") {
  const auto small = [](std::int64_t d, std::int64_t r, std::int64_t n, int draws) {
    Stream s;
    int random = 0, normal = 0;
    for (int seed = 0; seed < draws; ++seed) {
      const Random numbers(static_cast<std::uint64_t>(seed), "test", "gradient");
      DenseMatrix g(n, d);
      for (std::size_t i = 0; i < g.data.size(); ++i) g.data[i] = numbers.normal(i);
      const Controls c = drawn_controls(s, multiply_transposed(g, g), axes(d, r), 99,
                                        Random(static_cast<std::uint64_t>(seed), "test", "controls"));
      random += *c.random_p <= 0.05;
      normal += *c.normal_p <= 0.05;
    }
    return std::pair(static_cast<double>(random) / draws, static_cast<double>(normal) / draws);
  };
  // Of 600 at 5%: standard deviation 0.9%. At r/d = 1/4 the specification says 17% for N = 1.
  const auto [wide_random, wide_normal] = small(16, 4, 1, 600);
  CHECK(std::abs(wide_random - 0.05) <= 0.027);
  CHECK(std::abs(wide_normal - 0.17) <= 0.045);
  // At r/d = 1/32 both hold, of 200 with standard deviation 1.5%.
  const auto [narrow_random, narrow_normal] = small(64, 2, 50, 200);
  CHECK(narrow_random <= 0.1);
  CHECK(narrow_normal <= 0.1);
}

TEST_CASE("drawn controls lie about their mean in closed form, and a planted subspace beats every one of them") {
  const std::int64_t d = 24, r = 3;
  const DenseMatrix q = random_basis(1, d, r);
  Cloud c = flat_cloud(3, 500, static_cast<std::size_t>(d));
  // 30 times as strong along q: 900 r of 900 r + d - r parts of the energy.
  for (auto& g : c.g) {
    DenseMatrix row(1, d, g);
    const DenseMatrix along = multiply(row, q);
    for (std::int64_t j = 0; j < d; ++j) {
      for (std::int64_t k = 0; k < r; ++k) g[static_cast<std::size_t>(j)] += 29 * along(0, k) * q(j, k);
    }
  }
  const Records records = measured(c, Look(r), {}, nullptr, &q);
  const auto value = [&](const char* key) { return value_of(records, key, "basis=planted"); };
  CHECK(value("share") == Approx(2700.0 / 2721).epsilon(0.002));
  CHECK(value("control_p") == 0.01);
  CHECK(value("random_p") == 0.01);
  CHECK(value("z") > 100);
  CHECK(value("of_ceiling") > 0.999);
  CHECK(value("of_ceiling") <= 1);
  CHECK(value("control_q05") < value("control_mean"));
  CHECK(value("control_q95") > value("control_mean"));
  CHECK(value("control_q50") > value("control_q05"));
  CHECK(value("control_q50") < value("control_q95"));

  // Draws one by one, each its own median, from a gradient that is uneven outside as well.
  DenseMatrix raw(d, d);
  for (std::int64_t j = 0; j < d; ++j) raw(j, j) = 1 / (1.0 + static_cast<double>(j * j));
  Stream s;
  const int draws = 1000;
  double mean = 0, square = 0;
  for (int k = 0; k < draws; ++k) {
    const double share = *drawn_controls(s, raw, q, 1, Random(static_cast<std::uint64_t>(k), "test", "one")).q50;
    mean += share / draws;
    square += share * share / draws;
  }
  const Energy e = energy_in(raw, q, {});
  const double sd = std::sqrt(square - mean * mean);
  CHECK(std::abs(mean - *e.control_mean) <= 3 * sd / std::sqrt(draws));
  CHECK((*e.share - *e.control_mean) / *e.z == Approx(sd).epsilon(0.1));
}

namespace {

struct Softmax {
  static constexpr std::size_t d = 6, types = 17;
  Points w;                                 // [types, d]
  std::vector<std::vector<double>> second;  // sum over positions of W^T (diag p - p p^T) W
  Cloud cloud;                              // g = W^T (p - e_y), y drawn from p
};

Softmax softmax_model(std::uint64_t seed, std::size_t n) {
  Softmax m;
  m.cloud = flat_cloud(seed, n, Softmax::d);
  const Random random(seed, "test", "softmax");
  std::uint64_t drawn = 0;
  m.w.assign(Softmax::types, std::vector<double>(Softmax::d));
  for (auto& row : m.w) {
    for (std::size_t j = 0; j < row.size(); ++j) row[j] = random.normal(drawn++) / (1 + static_cast<double>(j));
  }
  m.second.assign(Softmax::d, std::vector<double>(Softmax::d, 0.0));
  for (std::size_t i = 0; i < n; ++i) {
    std::vector<double> p(Softmax::types, 0.0), mean(Softmax::d, 0.0);
    double total = 0;
    for (std::size_t v = 0; v < p.size(); ++v) {
      for (std::size_t j = 0; j < Softmax::d; ++j) p[v] += m.w[v][j] * (m.cloud.h[i][j] - 5);
      total += p[v] = std::exp(p[v]);
    }
    for (std::size_t v = 0; v < p.size(); ++v) {
      p[v] /= total;
      for (std::size_t j = 0; j < Softmax::d; ++j) mean[j] += p[v] * m.w[v][j];
    }
    double u = random.uniform(drawn++);
    std::size_t y = 0;
    while (y + 1 < p.size() && u > p[y]) u -= p[y++];
    for (std::size_t j = 0; j < Softmax::d; ++j) {
      m.cloud.g[i][j] = mean[j] - m.w[y][j];
      for (std::size_t k = 0; k < Softmax::d; ++k) {
        m.second[j][k] -= mean[j] * mean[k];
        for (std::size_t v = 0; v < p.size(); ++v) m.second[j][k] += p[v] * m.w[v][j] * m.w[v][k];
      }
    }
  }
  return m;
}

}  // namespace

TEST_CASE("labels drawn from a softmax model read the Fisher share in any basis, with an error that says how near") {
  const std::size_t d = Softmax::d, n = 4000;
  const DenseMatrix q = random_basis(8, static_cast<std::int64_t>(d), 2);
  int near = 0;
  for (std::uint64_t seed = 0; seed < 10; ++seed) {
    Softmax m = softmax_model(seed, n);
    double inside = 0, total = 0;
    for (std::size_t j = 0; j < d; ++j) {
      total += m.second[j][j];
      for (std::size_t k = 0; k < d; ++k) {
        double drawn = 0, squares = 0;
        for (const auto& g : m.cloud.g) {
          drawn += g[j] * g[k];
          squares += g[j] * g[k] * g[j] * g[k];
        }
        CHECK(std::abs(drawn - m.second[j][k]) <= 4.5 * std::sqrt(squares));
        for (std::int64_t r = 0; r < 2; ++r)
          inside += q(static_cast<std::int64_t>(j), r) * m.second[j][k] * q(static_cast<std::int64_t>(k), r);
      }
    }
    const Records records = measured(m.cloud, Look(2), {}, nullptr, &q);
    const auto share = record_of(records, "share", "basis=planted");
    REQUIRE(share);
    INFO(*share->value << " +- " << share->se.value_or(std::nan("")) << ", Fisher " << inside / total);
    CHECK(std::abs(*share->value - inside / total) <= 3 * *share->se);
    near += std::abs(*share->value - inside / total) <= *share->se;
    CHECK(*share->se <= 0.02);
  }
  CHECK(near >= 5);  // a normal error holds 6.8 of 10; the activations' own spread is in the se, not in the difference
}

namespace {

std::vector<std::int32_t> relabelled(std::vector<std::int32_t> types, const std::vector<std::int32_t>& to) {
  for (std::int32_t& t : types) t = t < 0 ? t : to[static_cast<std::size_t>(t)];
  return types;
}

void check_equal(const Records& a, const Records& b, bool bins) {
  REQUIRE(a.size() == b.size());
  for (const Record& r : a) {
    if (!bins && !label_of(r, "bin").empty()) continue;
    const Record* other = same_record(b, r, r.labels);
    INFO(text_of(r));
    REQUIRE(other);
    INFO(r.value.value_or(std::nan("")) << ", " << other->value.value_or(std::nan("")));
    CHECK(r.value.has_value() == other->value.has_value());
    CHECK(r.n == other->n);
    CHECK(r.se.has_value() == other->se.has_value());
    if (r.value) CHECK(std::abs(*r.value - *other->value) <= 1e-12 * (1 + std::abs(*r.value)));
    if (r.se) CHECK(std::abs(*r.se - *other->se) <= 1e-11 * (1 + std::abs(*r.se)));
  }
}

}  // namespace

TEST_CASE("token ids permuted leave every record as it was, and every bin where counts are permuted alike") {
  const Cloud cloud = correlated_cloud(9, 7);
  const std::vector<std::int32_t> to = {4, 7, 0, 9, 1, 3, 8, 2, 5, 6};
  Cloud permuted = cloud;
  permuted.token = relabelled(cloud.token, to);
  permuted.target = relabelled(cloud.target, to);
  const std::vector<std::int64_t> counts = {900, 500, 300, 200, 150, 120, 100, 90, 80, 70}, edges = {1, 2, 5};
  std::vector<std::int64_t> moved(10);
  for (std::size_t t = 0; t < 10; ++t) moved[static_cast<std::size_t>(to[t])] = counts[t];
  const std::vector<std::int32_t> special = {7}, special_moved = {2};
  const FrequencyBins bins = frequency_bins(counts, edges, 0, special),
                      moved_bins = frequency_bins(moved, edges, 0, special_moved);
  for (const char* local : {"off", "token", "knn"}) {
    Look look(3), moved_look(3);
    for (Look* l : {&look, &moved_look}) {
      l->choice.norm.known = true;
      l->choice.local.of = local;
      l->choice.local.rank = 2;
      l->choice.local.k = 6;
    }
    look.choice.bins = &bins;
    moved_look.choice.bins = &moved_bins;
    const Records records = measured(cloud, look);
    check_equal(records, measured(permuted, moved_look), true);
    // Bins that do not know of it are others.
    const Records others = measured(permuted, look);
    bool differs = false;
    for (const Record& r : records) {
      if (label_of(r, "bin").empty()) {
        const Record* other = same_record(others, r, r.labels);
        REQUIRE(other);
        CHECK(std::abs(other->value.value_or(0) - r.value.value_or(0)) <= 1e-12 * (1 + std::abs(r.value.value_or(0))));
      } else {
        differs = differs || value_in(others, r, r.labels) != r.value;
      }
    }
    CHECK(differs);
  }
}

TEST_CASE("a NaN or an infinity makes what it is part of missing, and nothing else") {
  const Cloud cloud = correlated_cloud(9, 7, false);
  Look look(3);
  look.choice.norm.known = true;
  look.choice.local.of = "token";
  look.choice.local.rank = 2;
  const Records whole = measured(cloud, look);
  for (const double bad : {std::nan(""), std::numeric_limits<double>::infinity()}) {
    for (const bool gradient : {true, false}) {
      Cloud broken = cloud;
      (gradient ? broken.g : broken.h)[17][3] = bad;
      for (const Record& r : measured(broken, look)) {
        INFO(text_of(r) << " = " << r.value.value_or(0));
        if (r.value) CHECK(std::isfinite(*r.value));
        if (r.se) CHECK(std::isfinite(*r.se));
        const bool of_gradient = r.probe == "gradient_energy" || label_of(r, "of") == "gradient";
        const bool own_gradient = r.probe == "moments" && of_gradient && label_of(r, "view") != "normed";
        const bool untouched = r.tap == "second" || (gradient ? !of_gradient : own_gradient);
        const Record* before = same_record(whole, r, r.labels);
        if (untouched && before) CHECK(r.value == before->value);
        const std::set<std::string> always = {"n", "zero_rows", "rank", "chance"};
        if (!untouched && gradient == of_gradient && !always.contains(r.key)) CHECK(!r.value);
      }
    }
  }
}
