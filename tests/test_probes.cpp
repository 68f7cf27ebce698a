// The measures on data whose answer is known: the specification's worked numbers, planted subspaces, isotropic noise,
// and what must be missing.
#include <algorithm>
#include <cmath>
#include <fmt/format.h>

#include "kernels/cross_entropy.h"
#include "probes/geometry.h"
#include "tests/catch.h"
#include "tests/errors.h"
#include "tests/panels.h"

using namespace nascent;
using namespace nascent::test;

namespace {

Tensor rows(Memory& m, const std::vector<std::vector<double>>& points) {
  const auto n = static_cast<std::int64_t>(points.size()), d = static_cast<std::int64_t>(points[0].size());
  const Tensor t = m.zeros({n, d});
  for (std::int64_t i = 0; i < n; ++i) {
    for (std::int64_t j = 0; j < d; ++j)
      Memory::set(t, i * d + j, points[static_cast<std::size_t>(i)][static_cast<std::size_t>(j)]);
  }
  return t;
}

double tolerance(DType dtype) { return dtype == DType::kF64 ? 1e-9 : 2e-4; }

}  // namespace

TEST_CASE("moments give the specification's worked numbers") {
  const Spectrum worked{8, 22, 100, 4};  // eigenvalues 4, 2, 1, 1
  CHECK(*participation_ratio(worked) == Approx(64.0 / 22).epsilon(1e-12));
  CHECK(*isoscore(worked) == Approx(7.0 / 11).epsilon(1e-12));

  for (const DType dtype : {DType::kF64, DType::kF32}) {
    Memory m(dtype);
    const Moments points = moments_of(rows(m, {{2, 0, 0}, {-2, 0, 1}, {1, 1, 0}, {-1, -1, 0}, {0, 0, -1}}));
    const auto c = spectrum_of(points);
    REQUIRE(c);
    CHECK(*isoscore(*c) == Approx(0.290322581).epsilon(2e-4));
    CHECK(std::abs(*isoscore(*c) - 0.290322581) <= (dtype == DType::kF64 ? 1e-9 : 1e-5));
    CHECK(std::abs(*isoscore_star(*c, 0.2) - 0.452566096) <= (dtype == DType::kF64 ? 1e-9 : 1e-5));
    CHECK(std::abs(*isoscore_star(*c, 0.75) - 0.920289855) <= (dtype == DType::kF64 ? 1e-9 : 1e-5));
    // C0 = I: the covariance has trace 3.1 before it is normalized to 1.
    const double trace_c = trace(points.scatter) / 4;
    CHECK(std::abs(*isoscore_star(*c, 0.2, 3 / trace_c, 3 / (trace_c * trace_c), 1 / trace_c) - 0.432258065) <= 1e-5);
    CHECK(std::abs(*isoscore_star(*c, 0.75, 3 / trace_c, 3 / (trace_c * trace_c), 1 / trace_c) - 0.901345291) <= 1e-5);
  }
}

TEST_CASE("gradient energy gives the specification's worked numbers: d = 16, r = 3, share 0.65") {
  Memory m(DType::kF64);
  // Two directions, one inside the first three axes and one outside, with energies 0.65 and 0.35.
  std::vector<std::vector<double>> g(2, std::vector<double>(16, 0.0));
  g[0][1] = std::sqrt(0.65);
  g[1][9] = std::sqrt(0.35);
  const Moments moments = moments_of(rows(m, g), true);
  const Energy e = energy_in(moments.raw(), axes(16, 3), {});
  CHECK(*e.share == Approx(0.65).epsilon(1e-12));
  CHECK(e.chance == 0.1875);
  CHECK(*e.enrichment == Approx(3.466666667).epsilon(1e-9));
  CHECK(*e.control_mean == Approx(0.080769231).epsilon(1e-8));
  CHECK(*e.ratio == Approx(8.047619048).epsilon(1e-9));
  CHECK(*e.log_odds == Approx(std::log(8.047619048)).epsilon(1e-9));
}

TEST_CASE("a gradient with 70% of its energy in a known rank-4 subspace reads 0.70") {
  const std::int64_t n = 1000, d = 33, r = 4;
  DenseMatrix random(d, d);
  const Random numbers(5, "test", "planted");
  for (std::size_t i = 0; i < random.data.size(); ++i) random.data[i] = numbers.normal(i);
  const DenseMatrix rotation = orthonormalize(random);  // its first four columns span the subspace
  for (const DType dtype : {DType::kF64, DType::kF32}) {
    Memory m(dtype);
    const Tensor noise = m.normal("noise", {n, d}), g = m.zeros({n, d});
    // Each row's parts inside and outside are scaled so that the sums of squares are exactly 0.7 and 0.3.
    double inside = 0, outside = 0;
    for (std::int64_t i = 0; i < n * d; ++i)
      (i % d < r ? inside : outside) += Memory::get(noise, i) * Memory::get(noise, i);
    for (std::int64_t i = 0; i < n; ++i) {
      for (std::int64_t k = 0; k < d; ++k) {
        double x = 0;
        for (std::int64_t j = 0; j < d; ++j) {
          x += rotation(k, j) * Memory::get(noise, i * d + j) * std::sqrt(j < r ? 0.7 / inside : 0.3 / outside) * 1e-6;
        }
        Memory::set(g, i * d + k, x);
      }
    }
    const Moments moments = moments_of(g, true);
    const DenseMatrix basis = columns(rotation, 0, r);
    const Energy e = energy_in(moments.raw(), basis, {});
    CHECK(std::abs(*e.share - 0.7) <= (dtype == DType::kF64 ? 1e-12 : 1e-5));
    // The top four directions of such a gradient are that subspace: the ceiling is the share.
    OneTap one(d);
    one.tap().bases().import("planted", basis);
    one.step({}, g);
    CHECK(std::abs(one.tap().ceilings().at(r - 1) - 0.7) <= 1e-2);
    CHECK(one.tap().ceilings().at(r - 1) >= *e.share);
  }
}

TEST_CASE("isotropic activations and gradients read their chance levels") {
  const std::int64_t n = 4000, d = 32, r = 4;
  for (const DType dtype : {DType::kF64, DType::kF32}) {
    Memory m(dtype);
    OneTap one(d, r);
    one.step(m.normal("h", {n, d}, 2.0, 5.0), m.normal("g", {n, d}, 1e-5));
    TapStatistics& statistics = one.tap();
    const Moments& g = statistics.gradient().all;
    REQUIRE(statistics.bases().all().size() == 2);
    const Energy e =
        energy_in(statistics.gradient_raw(), statistics.bases().all()[0].directions, statistics.ceilings().at(r - 1));
    // The share of N d independent squares in r of d directions: standard deviation sqrt(2 r (1 - r/d)/(N d^2)) at
    // most.
    const double chance = static_cast<double>(r) / d,
                 sd = std::sqrt(2.0 * r * (1 - chance) / (n * static_cast<double>(d * d)));
    CHECK(e.chance == chance);
    CHECK(std::abs(*e.share - chance) <= 4 * sd);
    CHECK(std::abs(*e.log_odds) <= 4 * sd / (chance * (1 - chance)));
    CHECK(std::abs(*alignment(statistics.activation().all.scatter, statistics.gradient_raw())) <=
          3 * std::sqrt(2.0 / ((d - 1.0) * (d + 2.0))));
    const auto c = spectrum_of(g);
    REQUIRE(c);
    // Plain PR of isotropic data reads about n d/(d + n + 1), the unbiased form d.
    CHECK(*participation_ratio(*c) == Approx((n - 1.0) * d / (d + n)).epsilon(0.003));
    CHECK(*participation_ratio_unbiased(*c) == Approx(d).epsilon(0.003));
    CHECK(std::abs(*g.average_cosine()) <= 4.0 / n);
  }
}

TEST_CASE("what a step was cut into does not change a bit of its sums, and halves add up to the whole") {
  for (const DType dtype : {DType::kF64, DType::kF32}) {
    Memory m(dtype);
    const Tensor x = m.normal("x", {999, 17}, 1.0, 100.0);
    for (std::int64_t j = 0; j < 17; ++j) Memory::set(x, 500 * 17 + j, 0);  // one zero row
    Stream s;
    const PositionLabels positions = PositionLabels::of_rows(999, {}, {}, std::vector<std::int32_t>(999, 0));
    const Moments activation = moments_of(x), gradient = moments_of(x, true);
    for (const std::int64_t size : {1, 8, 333}) {
      TapStatistics cut(tap_of(17), dtype, 999, {});
      cut.allocate();
      cut.begin();
      for (std::int64_t i = 0; i < 999; i += size) {
        const Tensor part = x.slice(i, std::min<std::int64_t>(size, 999 - i));
        cut.add_activation(part);
        cut.add_gradient(part);
      }
      cut.sum_up(s, positions, false);
      CHECK(cut.activation().all.scatter.data == activation.scatter.data);
      CHECK(cut.gradient().all.scatter.data == gradient.scatter.data);
      CHECK(cut.gradient().all.n == 999);
      CHECK(cut.gradient().all.zero_rows == 1);
      CHECK(cut.gradient().all.n_centred == 998);
      CHECK(cut.activation().all.n_centred == 999);
    }
    // Two sequences are two halves.
    std::vector<std::int32_t> sequence(999, 0);
    std::fill(sequence.begin() + 400, sequence.end(), 1);
    OneTap two(17);
    two.step(x, x, sequence);
    const Sample& halves = two.tap().gradient();
    CHECK(halves.halves[0].n_centred + halves.halves[1].n_centred == 998);
    CHECK(*participation_ratio(*spectrum_of(halves.all)) ==
          Approx(*participation_ratio(*spectrum_of(gradient))).epsilon(tolerance(dtype) / 2));
    CHECK(trace(halves.all.scatter) == Approx(trace(gradient.scatter)).epsilon(tolerance(dtype) / 2));
    CHECK(*halves.all.mean_norm() == Approx(*gradient.mean_norm()).epsilon(1e-12));
  }
}

TEST_CASE("a step of which the probes were shown too little is an error, never a silent part of it") {
  Memory m(DType::kF64);
  Stream s;
  TapStatistics tap(tap_of(3), DType::kF64, 10, {});
  tap.allocate();
  tap.begin();
  tap.add_activation(m.normal("x", {7, 3}));
  CHECK(failure_of([&] { tap.sum_up(s, PositionLabels::of_rows(10, {}, {}, {}), false); }).says("7 rows"));
}

TEST_CASE("moments do not depend on the scale of the data, down to gradients of 1e-25") {
  for (const double scale : {1.0, 1e-8, 1e-25}) {
    Memory m(DType::kF32);
    const Moments g = moments_of(m.normal("x", {200, 9}, scale), true);
    const auto c = spectrum_of(g);
    REQUIRE(c);
    Memory plain(DType::kF64);
    const auto wanted = spectrum_of(moments_of(plain.normal("x", {200, 9}), true));
    CHECK(*participation_ratio(*c) == Approx(*participation_ratio(*wanted)).epsilon(2e-4));
    CHECK(*energy_in(g.raw(), axes(9, 2), {}).share > 0);
  }
}

TEST_CASE("a large mean does not drown the spread") {
  Memory m(DType::kF64), plain(DType::kF64);
  const auto far = spectrum_of(moments_of(m.normal("x", {300, 5}, 1, 1e4))),
             near = spectrum_of(moments_of(plain.normal("x", {300, 5})));
  CHECK(*participation_ratio(*far) == Approx(*participation_ratio(*near)).epsilon(1e-9));
}

TEST_CASE("what is undefined is missing, never 0 or NaN") {
  Memory m(DType::kF32);
  CHECK(!spectrum_of(moments_of(m.normal("x", {1, 5}))));          // one position has no covariance
  CHECK(!spectrum_of(moments_of(m.normal("x", {7, 5}, 0, 3.7))));  // constant rows
  const Moments zero = moments_of(m.zeros({7, 5}), true);
  CHECK(zero.zero_rows == 7);
  CHECK(!energy_in(zero.raw(), axes(5, 2), {}).share);
  CHECK(*zero.mean_norm() == 0);
  CHECK(!zero.average_cosine());
  CHECK(!Moments(3).mean_norm());

  const Spectrum one_dimension{1, 1, 10, 1};
  CHECK(!isoscore(one_dimension));
  const Spectrum two_positions{1, 1, 2, 5};
  CHECK(!participation_ratio_unbiased(two_positions));

  const Tensor broken = m.normal("x", {7, 5});
  Memory::set(broken, 12, std::nan(""));
  CHECK(!moments_of(broken).finite);
  CHECK(!spectrum_of(moments_of(broken)));

  // All of the energy inside: no random direction of the complement compares, and the ratio has no value.
  const Moments inside = moments_of(rows(m, {{1, 2, 0, 0, 0}, {2, -1, 0, 0, 0}}), true);
  const Energy all = energy_in(inside.raw(), axes(5, 2), {});
  CHECK(*all.share == Approx(1.0));
  CHECK(!all.ratio);
  CHECK(!all.log_odds);
  CHECK(!all.z);
  // More than half of the directions: a control of the same rank does not fit into the complement.
  const Moments isotropic = moments_of(m.normal("g", {50, 5}), true);
  const Energy most = energy_in(isotropic.raw(), axes(5, 3), {});
  CHECK(!most.control_mean);
  CHECK(!most.z);
  CHECK(most.ratio);
}

TEST_CASE("the control's mean and spread in closed form are those of drawn subspaces") {
  const std::int64_t d = 12, r = 3;
  Memory m(DType::kF64);
  const Tensor g = m.normal("g", {40, d});
  for (std::int64_t i = 0; i < 40; ++i) Memory::set(g, i * d + 7, 3 * Memory::get(g, i * d + 7));
  const Moments moments = moments_of(g, true);
  const DenseMatrix raw = moments.raw(), basis = axes(d, r);
  const Energy e = energy_in(raw, basis, {});
  const int draws = 20000;
  double mean = 0, square = 0;
  for (int draw = 0; draw < draws; ++draw) {
    const Random random(static_cast<std::uint64_t>(draw), "test", "control");
    DenseMatrix a(d, r);
    for (std::int64_t i = r; i < d; ++i) {
      for (std::int64_t j = 0; j < r; ++j) a(i, j) = random.normal(static_cast<std::uint64_t>(i * r + j));
    }
    const double share = *explained_share(raw, orthonormalize(a));
    mean += share / draws;
    square += share * share / draws;
  }
  const double sd = std::sqrt(square - mean * mean);
  CHECK(mean == Approx(*e.control_mean).margin(4 * sd / std::sqrt(draws)));
  CHECK((*e.share - mean) / sd == Approx(*e.z).epsilon(0.03));
}

TEST_CASE("principal angles are those that were built in, small ones too") {
  DenseMatrix a = axes(7, 2), b(7, 2);
  const double angles[] = {1e-6, 0.9};
  for (int i = 0; i < 2; ++i) {
    b(i, i) = std::cos(angles[i]);
    b(i + 3, i) = std::sin(angles[i]);
  }
  const auto found = principal_angles(a, b);
  REQUIRE(found.size() == 2);
  for (std::size_t i = 0; i < 2; ++i) CHECK(found[i] == Approx(angles[i] * 180 / 3.14159265358979323846).epsilon(1e-6));
}

TEST_CASE("init is frozen, current follows, and both are principal directions") {
  Memory m(DType::kF32);
  OneTap one(21, 1);
  const auto step = [&](const char* name, int strong) {
    const Tensor h = m.normal(name, {500, 21});
    for (std::int64_t i = 0; i < 500; ++i) Memory::set(h, i * 21 + strong, 10 * Memory::get(h, i * 21 + strong));
    one.step(h, {});
  };
  const auto along = [&](const char* basis, std::int64_t axis) {
    return std::abs(one.tap().bases().find(basis)->directions(axis, 0));
  };
  step("first", 3);
  step("second", 8);
  CHECK(along("current", 8) > 0.99);
  CHECK(along("init", 3) > 0.99);
}

TEST_CASE("a step without spread has no current directions: those of an earlier step are not passed off as its own") {
  Memory m(DType::kF32);
  OneTap one(5, 2);
  const Tensor spread = m.normal("spread", {33, 5}), flat = m.zeros({33, 5});
  for (std::int64_t i = 0; i < 33; ++i) Memory::set(flat, i * 5 + 2, 1);
  for (const Tensor& h : {spread, flat, spread}) {
    one.step(h, {});
    CHECK(one.tap().bases().find("current")->directions.cols == (h.address() == flat.address() ? 0 : 2));
    CHECK(one.tap().bases().find("init")->directions.cols == 2);
  }
}

TEST_CASE("the average cosine is over pairs that have a direction, the mean norm over every row") {
  Memory m(DType::kF64);
  const Moments moments = moments_of(rows(m, {{2, 0}, {1, 0}, {0, 3}, {0, 0}}), true);
  CHECK(*moments.average_cosine() == Approx(1.0 / 3));  // cosines 1, 0, 0
  CHECK(*moments.mean_norm() == Approx(6.0 / 4));
}

TEST_CASE("what probes record of planted axes is what was planted") {
  // Activations spread along the first four of nine axes; energies of the gradient: 4 and 2, 1 along the first and the
  // next two of them, 3 outside. A row of zeros counts as a position and holds nothing.
  std::vector<std::vector<double>> h, g(6, std::vector<double>(9, 0.0));
  const double spread[] = {3, 2, 1, 0.5};
  for (std::size_t i = 0; i < 4; ++i) {
    for (const double sign : {1.0, -1.0}) h.emplace_back(9, 0.0)[i] = sign * spread[i];
  }
  g[0][0] = g[1][0] = std::sqrt(2.0);
  g[2][2] = std::sqrt(2.0);
  g[3][3] = 1;
  g[4][5] = std::sqrt(3.0);
  g.resize(8, std::vector<double>(9, 0.0));
  Memory m(DType::kF64);
  OneTap one(9, 2);
  one.step(rows(m, h), rows(m, g));

  const Records energy = one.records("gradient_energy");
  for (const char* labels : {"basis=current", "basis=init"}) {
    const auto value = [&](const char* key) { return value_of(energy, key, labels); };
    CHECK(value("share") == Approx(0.4));
    CHECK(value("chance") == Approx(2.0 / 9));
    CHECK(value("ceiling") == Approx(0.7));
    CHECK(value("of_ceiling") == Approx((0.4 - 2.0 / 9) / (0.7 - 2.0 / 9)));
    CHECK(value("next_pc_share") == Approx(0.3));
    CHECK(value("mean_share") == Approx(8.0 / 14));
  }
  // C = diag(18, 8, 2, 0.5, 0...), M = diag(4, 0, 2, 1, 0, 3, 0...), each less its trace / 9.
  CHECK(value_of(energy, "alignment", "") ==
        Approx((76.5 - 285.0 / 9) / std::sqrt((392.25 - 28.5 * 28.5 / 9) * (30 - 100.0 / 9))));

  const Records tangent = one.records("tangent");
  CHECK(value_of(tangent, "n", "basis=init") == 8);
  CHECK(value_of(tangent, "rank", "basis=init") == 2);
  CHECK(value_of(tangent, "chance", "basis=init") == Approx(2.0 / 9));
  CHECK(value_of(tangent, "explained", "basis=init") == Approx(26 / 28.5));

  const Records norms = one.records("norms");
  CHECK(value_of(norms, "rms", "") == Approx(std::sqrt(28.5 / (8 * 9))));
  CHECK(value_of(norms, "max_abs", "") == 3);

  const Records moments = one.records("moments");
  CHECK(value_of(moments, "n", "of=gradient") == 8);
  CHECK(value_of(moments, "zero_rows", "of=gradient") == 3);
  CHECK(value_of(moments, "mean_norm", "of=gradient") == Approx((3 * std::sqrt(2.0) + 1 + std::sqrt(3.0)) / 8));
  CHECK(value_of(moments, "norm_of_mean", "of=gradient") == Approx(std::sqrt(14.0) / 8));
  CHECK(value_of(moments, "avg_cosine", "of=gradient") == Approx(2.0 / (5 * 4)));  // one pair of ten is parallel
  CHECK(value_of(moments, "mean_norm", "of=activation") == Approx(13.0 / 8));
  CHECK(value_of(moments, "norm_of_mean", "of=activation") == 0);
  const double s2 = 28.5 * 28.5, f2 = 392.25, mixed = 0.64 * f2 + 0.36 * s2 / 9;  // z = 0.2
  CHECK(value_of(moments, "participation_ratio", "of=activation") == Approx(s2 / f2));
  CHECK(value_of(moments, "isoscore", "of=activation") == Approx((s2 / f2 - 1) / 8));
  CHECK(value_of(moments, "isoscore_star", "of=activation") == Approx((s2 / mixed - 1) / 8));
}

TEST_CASE(
    "norms records the step's dead units, losses by position and updates, ignored targets and earlier steps not") {
  Memory m(DType::kF64);
  Stream s;
  const auto probe = probe_named("norms");
  probe->plan(5);
  Tap mlp;
  mlp.name = "blocks.0.mlp.post";
  const Tensor losses = rows(m, {{1, 2, 3, 4, 5}, {6, 7, 100, 9, 10}}), targets = m.ids("targets", {2, 5}, 9);
  targets.data<std::int32_t>()[7] = kIgnored;  // the loss of 100
  const auto step = [&](const std::vector<std::vector<std::vector<double>>>& micro_batches) {
    probe->begin_step();
    for (const auto& x : micro_batches) probe->on_value(s, mlp, rows(m, x));
    probe->on_losses(s, losses, targets);
    Records records;
    Recorder out(records, "norms");
    probe->finish(s, Parameters(), out);
    return records;
  };
  const Records first = step({{{-1, 0, 2, -3}, {-2, 0, -1, -4}}, {{-1, -5, -1, 0.5}}}),
                second = step({{{-1, 1, -9, -1}}});
  CHECK(value_of(first, "dead", "") == 0.5);
  CHECK(value_of(second, "dead", "") == 0.75);
  for (const Records& records : {first, second}) {
    CHECK(value_of(records, "loss_by_position", "position=0") == Approx(3.5));
    CHECK(value_of(records, "loss_by_position", "position=1") == Approx(4.5));
    CHECK(value_of(records, "loss_by_position", "position=2-3") == Approx(16.0 / 3));
    CHECK(value_of(records, "loss_by_position", "position=4-7") == Approx(7.5));
  }

  Parameter p;
  p.value = rows(m, {{3, 4}, {0, 0.5}});
  Records records;
  Recorder out(records, "norms");
  probe->on_update(s, {p, rows(m, {{3, 4}, {0, 0}}), rows(m, {{2, -2}, {2, 2}}), rows(m, {{1, 1}, {1, 7}})}, out);
  CHECK(value_of(records, "update_ratio", "") == Approx(0.1));
  CHECK(value_of(records, "moment_rms", "moment=first") == Approx(2));
  CHECK(value_of(records, "moment_rms", "moment=second") == Approx(std::sqrt(52.0 / 4)));
}

TEST_CASE("a scatter matrix is that of a plain loop, beyond every block of rows and columns") {
  const std::int64_t n = 1030, d = 131;
  Memory m(DType::kF64);
  const Tensor x = m.normal("x", {n, d}, 1, 2);
  for (std::int64_t i = 1; i < n * d; ++i) Memory::set(x, i, Memory::get(x, i) + 0.5 * Memory::get(x, i - 1));
  const Moments moments = moments_of(x);
  double worst = 0;
  for (std::int64_t j = 0; j < d; ++j) {
    for (std::int64_t k = 0; k < d; ++k) {
      double sum = 0;
      for (std::int64_t i = 0; i < n; ++i) {
        sum += (Memory::get(x, i * d + j) - moments.mean[static_cast<std::size_t>(j)]) *
               (Memory::get(x, i * d + k) - moments.mean[static_cast<std::size_t>(k)]);
      }
      worst = larger(worst, std::abs(moments.scatter(j, k) - sum));
    }
  }
  CHECK(worst <= 1e-9);  // of sums near 1e3
}
