// Views, weights and choices of positions are what a panel of rows changed by hand reads.
#include <algorithm>
#include <map>

#include "tests/catch.h"
#include "tests/cloud.h"

using namespace nascent;
using namespace nascent::test;

namespace {

Look look_at(std::int64_t sink = 2) {
  Look look(3);
  look.choice.sink = sink;
  return look;
}

// `init` of another cloud and the first axes.
ProbeState stored_bases(std::size_t width) {
  Cloud other = correlated_cloud(5, width);
  for (auto& row : other.h) std::reverse(row.begin(), row.end());
  const DenseMatrix planted = axes(static_cast<std::int64_t>(width), 3);
  ProbeState state;
  measured(other, look_at(), {}, &state, &planted);
  return state;
}

bool close(std::optional<double> a, std::optional<double> b, double tolerance) {
  return a.has_value() == b.has_value() && (!a || std::abs(*a - *b) <= tolerance * std::abs(*b) + 1e-14);
}

// Records that carry this label, less the label, against those of a panel of its own, with their standard errors where
// they have one. Which keys there were.
std::set<std::string> compare(const Records& records, const std::string& label, const std::string& text,
                              const Records& own, double tolerance = 1e-9, const std::set<std::string>& but = {}) {
  std::set<std::string> keys;
  for (const Record& r : records) {
    Labels labels = labels_of(r.labels);
    if (label_of(r, label) != text || of_fitted_basis(r) || but.contains(r.key)) continue;
    labels.erase(label);
    const Record* other = same_record(own, r, text_of(labels));
    INFO(text_of(r));
    REQUIRE(other);
    INFO(r.value.value_or(std::nan("")) << ", by hand " << other->value.value_or(std::nan("")));
    CHECK(close(r.value, other->value, tolerance));
    INFO("se " << r.se.value_or(std::nan("")) << ", by hand " << other->se.value_or(std::nan("")));
    CHECK((!r.se || close(r.se, other->se, 1e-8)));
    if (r.value) keys.insert(r.key);
  }
  return keys;
}

const std::set<std::string> kMoments = {"mean_norm",
                                        "norm_of_mean",
                                        "participation_ratio",
                                        "isoscore",
                                        "isoscore_star",
                                        "effective_rank",
                                        "pc1_share",
                                        "spectrum_slope",
                                        "share",
                                        "enrichment",
                                        "control_mean",
                                        "ratio",
                                        "log_odds",
                                        "z",
                                        "ceiling",
                                        "of_ceiling",
                                        "next_pc_share",
                                        "mean_share",
                                        "mean_share_cross"};

bool holds_all(const std::set<std::string>& keys, std::set<std::string> wanted) {
  for (const std::string& key : keys) wanted.erase(key);
  for (const std::string& key : wanted) UNSCOPED_INFO("no " << key);
  return wanted.empty();
}

}  // namespace

TEST_CASE("view=no_sink reads what the rows without the first of each sequence read") {
  const Cloud cloud = correlated_cloud(9, 7);
  const ProbeState bases = stored_bases(7);
  for (const std::int64_t sink : {0, 1, 3}) {
    const Records own =
                      measured(cloud.repeated([&](std::size_t i) { return cloud.place[i] >= sink; }), look_at(), bases),
                  all = measured(cloud, look_at(sink), bases);
    // The first position is that of the sequence as stored.
    const std::set<std::string> but = sink > 0 ? std::set<std::string>{"position0_share"} : std::set<std::string>();
    std::set<std::string> wanted = kMoments;
    wanted.insert({"n", "zero_rows", "avg_cosine", "pr_cross", "participation_ratio_unbiased", "top_position_share"});
    CHECK(holds_all(compare(all, "view", "no_sink", own, 1e-9, but), wanted));
  }
  // Nothing is left: counts say so, all else is missing.
  for (const Record& r : measured(cloud, look_at(100), bases)) {
    INFO(text_of(r));
    if (label_of(r, "view") == "no_sink" && r.key != "n" && r.key != "zero_rows" && r.key != "chance") CHECK(!r.value);
  }
}

TEST_CASE("view=normed reads what h/sigma and sigma g read, sigma by LayerNorm and by RMSNorm") {
  const Cloud cloud = correlated_cloud(9, 7);
  const ProbeState bases = stored_bases(7);
  for (const bool centred : {true, false}) {
    for (const double eps : {1e-5, 0.7}) {
      Cloud normed = cloud;
      for (std::size_t i = 0; i < cloud.size(); ++i) {
        double mean = 0, square = 0;
        for (double x : cloud.h[i]) mean += centred ? x / 7 : 0;
        for (double x : cloud.h[i]) square += (x - mean) * (x - mean) / 7;
        const double sigma = std::sqrt(square + eps);
        for (double& x : normed.h[i]) x /= sigma;
        for (double& x : normed.g[i]) x *= sigma;
      }
      Look look = look_at();
      look.choice.norm = {true, centred, eps};
      const Records own = measured(normed, look_at(), bases), all = measured(cloud, look, bases);
      CHECK(holds_all(compare(all, "view", "normed", own), kMoments));
    }
  }
}

TEST_CASE("weight=type reads what rows repeated until every type occurs equally often read") {
  // Widths below and above the number of types.
  for (const std::size_t width : {std::size_t{7}, std::size_t{13}}) {
    Cloud cloud = correlated_cloud(9, width, false);
    // Types that occur once, twice, three, four and six times as often as others may: 12 is a multiple of each.
    const std::int32_t times[] = {12, 12, 6, 6, 4, 3, 2, 1, 1};
    std::size_t at = 0;
    std::vector<std::int32_t> types;
    for (std::size_t w = 0; w < 9; ++w)
      types.insert(types.end(), static_cast<std::size_t>(times[w]), static_cast<std::int32_t>(w));
    cloud = cloud.repeated([&](std::size_t i) { return i < types.size(); });
    REQUIRE(cloud.size() == types.size());
    for (std::int32_t& token : cloud.token) token = types[(at++ * 29) % types.size()];  // 29 and 47 are coprime
    cloud.target.clear();
    std::map<std::int32_t, int> count;
    for (std::int32_t token : cloud.token) ++count[token];
    REQUIRE(count.size() == 9);

    const ProbeState bases = stored_bases(width);
    const Cloud repeated = cloud.repeated([&](std::size_t i) { return 12 / count[cloud.token[i]]; });
    REQUIRE(repeated.size() == 12 * 9);
    const Records own = measured(repeated, look_at(), bases), all = measured(cloud, look_at(), bases);
    // Counts, and a correction for them, are of the rows there are.
    const auto keys =
        compare(all, "weight", "type", own, 1e-9, {"n", "zero_rows", "participation_ratio_unbiased", "chance"});
    CHECK(holds_all(keys, kMoments));
    CHECK(value_of(all, "n", "of=activation,weight=type") == 9);
  }
}

TEST_CASE("positions with and without a target read what panels of those rows read") {
  const Cloud cloud = correlated_cloud(9, 7);
  const ProbeState bases = stored_bases(7);
  for (const char* which : {"target", "other"}) {
    Cloud part = cloud.repeated([&](std::size_t i) { return (cloud.target[i] >= 0) == (which[0] == 't'); });
    part.target.clear();
    const Records own = measured(part, look_at(), bases), all = measured(cloud, look_at(), bases);
    std::set<std::string> wanted = kMoments;
    wanted.insert({"n", "zero_rows", "avg_cosine", "avg_cosine_other", "between_share", "pr_cross"});
    // The first position is that of the sequence as stored.
    const std::set<std::string> but = {which[0] == 'o' ? "position0_share" : ""};
    CHECK(holds_all(compare(all, "positions", which, own, 1e-9, but), wanted));
  }
}
