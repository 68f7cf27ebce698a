// Gradient energy: which part of the gradient of the step's loss lies in a tangent basis Q [d, r],
//
//   E = ||G Q||^2/||G||^2      chance r/d      ratio R = E (d - r)/((1 - E) r), against random subspaces of Q's
//                                              complement in closed form,
//
// beside the most that any r directions hold (ceiling) and the next r principal directions as a control. G is what the
// optimizer uses: every counted position of every micro-batch, before clipping. On detailed steps also by bins of token
// frequency, against drawn subspaces, and for other views of the positions.
#include <algorithm>
#include <cmath>

#include "kernels/parallel.h"
#include "kernels/philox.h"
#include "probes/controls.h"
#include "probes/geometry.h"
#include "probes/neighbourhoods.h"
#include "probes/probe.h"

namespace nascent {
namespace {

// Q^T of a sum of gradients.
std::vector<double> projected(const DenseMatrix& basis, const std::vector<double>& v) {
  std::vector<double> along(static_cast<std::size_t>(basis.cols));
  for (std::int64_t i = 0; i < basis.rows; ++i) {
    for (std::int64_t j = 0; j < basis.cols; ++j)
      along[static_cast<std::size_t>(j)] += basis(i, j) * v[static_cast<std::size_t>(i)];
  }
  return along;
}

std::vector<double> less_row(std::vector<double> v, const DenseMatrix& m, std::int64_t row) {
  for (std::size_t j = 0; j < v.size(); ++j) v[j] -= m(row, static_cast<std::int64_t>(j));
  return v;
}

// What a sample's energies are made of: M and the shares of its own best directions.
struct RawMoment {
  DenseMatrix m;
  std::vector<double> ceilings;

  explicit RawMoment(const TapStatistics& tap) : m(tap.gradient_raw()), ceilings(tap.ceilings()) {}
  RawMoment(const Moments& g, const TapStatistics& tap) : m(g.raw()) {
    if (g.finite) ceilings = tap.ceilings_of(m);
  }
  Value ceiling(std::int64_t r) const {
    const bool there = r > 0 && r <= static_cast<std::int64_t>(ceilings.size());
    return there ? Value(ceilings[static_cast<std::size_t>(r) - 1]) : Value();
  }
};

// ||Q^T g_i||^2 of every row for every basis and for the directions behind it.
class RowEnergies {
 public:
  RowEnergies(Stream& s, const TapStatistics& tap) {
    std::vector<const DenseMatrix*> all;
    for (const Basis& basis : tap.bases().all()) {
      index_[&basis.directions] = all.size();
      all.push_back(&basis.directions);
      index_[&basis.next] = all.size();
      all.push_back(&basis.next);
    }
    if (tap.gradient().all.finite) inside_ = squares_in(s, tap.gradient().array, all, nullptr);
  }
  SequenceShare share(const Sample& sample, const DenseMatrix& directions) const {
    SequenceShare share;
    if (sample.left_out() == 0) return share;
    const std::size_t row = index_.at(&directions) * static_cast<std::size_t>(inside_.cols);
    share.inside = sums_by_sequence(sample, &inside_.data[row], true);
    for (std::int64_t i = 0; i < sample.sequences(); ++i) share.total.push_back(sample.scalar(i, kSumSquares));
    return share;
  }

 private:
  std::map<const DenseMatrix*, std::size_t> index_;
  DenseMatrix inside_;
};

class GradientEnergyProbe : public Probe {
 public:
  void settings(Settings& s) override {
    s.key("controls", controls_, 1, 100000, "random subspaces drawn for quantiles and p on detailed steps");
  }
  bool needs_statistics() const override { return true; }

  void report(Stream& s, const Panel& panel, Recorder& out) override {
    for (const auto& tap : panel.taps) {
      if (!tap->has_gradient()) continue;
      const Sample& sample = tap->gradient();
      std::vector<RawMoment> rests;  // without each group of sequences
      if (panel.detail && sample.all.finite) {
        for (const Moments& rest : sample.without_groups(s)) rests.emplace_back(rest, *tap);
      }
      const RowEnergies energies(s, *tap);
      if (tap->has_activation()) report_alignment(s, panel, *tap, rests, out);
      report_sample(*tap, energies, sample, RawMoment(*tap), {}, rests, out);
      for (Variant& variant : variants_of(panel, *tap, true)) {
        const Sample seen = part_of(s, panel, sample, std::move(variant.selection));
        report_sample(*tap, energies, seen, {seen.all, *tap}, variant.labels, {}, out);
      }
      if (panel.detail) {
        report_bins(s, panel, *tap, energies, out);
        report_controls(s, panel, *tap, out);
      }
      if (panel.choice.local.of != "off" && tap->has_activation()) report_local(panel, *tap, out);
    }
  }

 private:
  static const char* why(const Moments& g, bool others_finite = true) {
    return !g.finite || !others_finite ? "NaN or infinity"
           : g.sum_squares > 0         ? "undefined at these values"
                                       : "zero gradient";
  }

  static void report_sample(const TapStatistics& tap, const RowEnergies& energies, const Sample& sample,
                            const RawMoment& raw, const Labels& labels, const std::vector<RawMoment>& rests,
                            Recorder& out) {
    for (const Basis& basis : tap.bases().all()) {
      Labels own = labels;
      own["basis"] = basis.name;
      report_basis(tap, energies, sample, raw, basis, own, rests, out);
    }
  }

  static void report_basis(const TapStatistics& tap, const RowEnergies& energies, const Sample& sample,
                           const RawMoment& raw, const Basis& basis, const Labels& labels,
                           const std::vector<RawMoment>& rests, Recorder& out) {
    const Moments& g = sample.all;
    const DenseMatrix& q = basis.directions;
    const double d = static_cast<double>(q.rows), r = static_cast<double>(q.cols);
    const auto add = [&](const char* key, const Estimate& estimate) {
      out.add(tap.tap().name, key, labels, estimate, g.n, q.cols > 0 ? why(g) : "the basis has no directions");
    };
    add("chance", r / d);
    const bool there = g.finite && g.sum_squares > 0 && q.cols > 0;
    const Energy e = there ? energy_in(raw.m, q, raw.ceiling(q.cols)) : Energy{};
    const SequenceShare share = there ? energies.share(sample, q) : SequenceShare();
    const auto of_share = [&](const Value& value, auto&& function) {
      return Estimate(value, share.error_of(function));
    };
    add("share", of_share(e.share, [](double x) { return Value(x); }));
    add("enrichment", of_share(e.enrichment, [=](double x) { return enrichment(x, d, r); }));
    add("control_mean", of_share(e.control_mean, [=](double x) { return control_mean(x, d, r); }));
    add("ratio", of_share(e.ratio, [=](double x) { return energy_ratio(x, d, r); }));
    add("log_odds", of_share(e.log_odds, [=](double x) { return log_odds(x, d, r); }));

    std::vector<Energy> without;  // each group of sequences
    for (std::size_t i = 0; there && i < rests.size(); ++i)
      without.push_back(energy_in(rests[i].m, q, rests[i].ceiling(q.cols)));
    const auto spectral = [&](Value Energy::* key) {
      return Estimate(e.*key, jackknife(static_cast<std::int64_t>(without.size()),
                                        [&](std::int64_t i) { return without[static_cast<std::size_t>(i)].*key; }));
    };
    add("z", spectral(&Energy::z));
    add("ceiling", spectral(&Energy::ceiling));
    add("of_ceiling", spectral(&Energy::of_ceiling));

    const bool all_next = there && basis.next.cols == q.cols;
    add("next_pc_share", all_next
                             ? Estimate(explained_share(raw.m, basis.next),
                                        energies.share(sample, basis.next).error_of([](double x) { return Value(x); }))
                             : Estimate());
    add("mean_share", there ? mean_share_of(sample, q) : Estimate());
    if (sample.array.positions->knows_sequences())
      add("mean_share_cross", there ? mean_share_cross_of(sample, q) : Estimate());
  }

  static Estimate mean_share_of(const Sample& sample, const DenseMatrix& basis) {
    const Moments& g = sample.all;
    const double n = static_cast<double>(g.n);
    const DenseMatrix along = multiply(sample.sums, basis);  // [S, r]
    const std::vector<double> all_along = projected(basis, g.sum);
    return {mean_share(g.sum, all_along, g.sum_squares, n), jackknife(sample.left_out(), [&](std::int64_t i) {
              return mean_share(less_row(g.sum, sample.sums, i), less_row(all_along, along, i),
                                g.sum_squares - sample.scalar(i, kSumSquares), n - sample.rows_of(i));
            })};
  }

  static Estimate mean_share_cross_of(const Sample& sample, const DenseMatrix& basis) {
    const DenseMatrix along = multiply(sample.sums, basis);
    const std::vector<double>&a = sample.halves[0].sum, &b = sample.halves[1].sum;
    const std::vector<double> a_along = projected(basis, a), b_along = projected(basis, b);
    return {mean_share_cross(a, a_along, b, b_along), jackknife(sample.left_out(), [&](std::int64_t i) {
              return sample.number[static_cast<std::size_t>(i)] % 2 == 0
                         ? mean_share_cross(less_row(a, sample.sums, i), less_row(a_along, along, i), b, b_along)
                         : mean_share_cross(a, a_along, less_row(b, sample.sums, i), less_row(b_along, along, i));
            })};
  }

  static void report_alignment(Stream& s, const Panel& panel, const TapStatistics& tap,
                               const std::vector<RawMoment>& gradient_rests, Recorder& out) {
    const Moments &h = tap.activation().all, &g = tap.gradient().all;
    const bool there = g.finite && g.sum_squares > 0 && h.finite && spectrum_of(h);
    const std::vector<Moments> rests =
        panel.detail && there ? tap.activation().without_groups(s) : std::vector<Moments>();
    const std::size_t groups = std::min(rests.size(), gradient_rests.size());
    const Value se = jackknife(static_cast<std::int64_t>(groups), [&](std::int64_t i) {
      const auto at = static_cast<std::size_t>(i);
      return alignment(rests[at].scatter, gradient_rests[at].m);
    });
    out.add(tap.tap().name, "alignment", {},
            there ? Estimate(alignment(h.scatter, tap.gradient_raw()), se) : Estimate(), g.n, why(g, h.finite));
  }

  // The rows of each bin of types, by input and by target type; positions without a target are in no bin of targets.
  static void report_bins(Stream& s, const Panel& panel, const TapStatistics& tap, const RowEnergies& energies,
                          Recorder& out) {
    if (!panel.choice.bins) return;
    const PositionLabels& positions = panel.positions;
    for (const bool by_target : {false, true}) {
      const auto& type = by_target ? positions.target() : positions.token();
      if (type.empty()) continue;
      std::vector<std::int32_t> bin_of(type.size(), -1), bins;
      for (std::size_t i = 0; i < type.size(); ++i) {
        if (type[i] >= 0) bin_of[i] = panel.choice.bins->bin[static_cast<std::size_t>(type[i])];
      }
      const Groups groups = group_by(bin_of, positions.all(), &bins);
      for (std::int64_t b = 0; b < groups.count(); ++b) {
        const auto rows = groups.of(b);
        Labels labels = {
            {"bin", panel.choice.bins->labels[static_cast<std::size_t>(bins[static_cast<std::size_t>(b)])]}};
        if (by_target) labels["by"] = "target";
        const Sample sample = part_of(s, panel, tap.gradient(), {{rows.begin(), rows.end()}, {}, {}});
        report_sample(tap, energies, sample, {sample.all, tap}, labels, {}, out);
      }
    }
  }

  void report_controls(Stream& s, const Panel& panel, const TapStatistics& tap, Recorder& out) const {
    const Moments& g = tap.gradient().all;
    if (!g.finite || !(g.sum_squares > 0)) return;
    const Random random(panel.choice.seed, "probe controls " + tap.tap().name, std::to_string(panel.step));
    for (const Basis& basis : tap.bases().all()) {
      if (basis.directions.cols == 0) continue;
      const Controls c = drawn_controls(s, tap.gradient_raw(), basis.directions, controls_, random);
      const auto add = [&](const char* key, Value value) {
        out.add(tap.tap().name, key, {{"basis", basis.name}}, value, controls_, "2r > d: no subspace of equal rank");
      };
      add("control_p", c.normal_p);
      add("control_q05", c.q05);
      add("control_q50", c.q50);
      add("control_q95", c.q95);
      add("random_p", c.random_p);
    }
  }

  static void report_local(const Panel& panel, const TapStatistics& tap, Recorder& out) {
    const Sample& sample = tap.gradient();
    const double d = static_cast<double>(tap.tap().width), r = static_cast<double>(panel.choice.local.rank);
    const bool finite = sample.all.finite && tap.activation().all.finite;
    LocalEnergy sums;
    if (finite) {
      for (const Neighbourhood& one : neighbourhoods(tap.activation(), panel.choice.local))
        sums.add(rows_of(sample.array.x, one.rows), one.basis, one.next);
    }
    const auto add = [&](const char* key, Value value) {
      out.add(tap.tap().name, key, {{"basis", panel.choice.local.of}}, value, sums.count,
              finite ? "no neighbourhood with a gradient" : "NaN or infinity");
    };
    const Energy e = sums.energy(d, r);
    add("chance", r / d);
    add("share", e.share);
    add("enrichment", e.enrichment);
    add("control_mean", e.control_mean);
    add("ratio", e.ratio);
    add("log_odds", e.log_odds);
    add("z", e.z);
    add("ceiling", e.ceiling);
    add("of_ceiling", e.of_ceiling);
    add("next_pc_share", sums.next_share());
    add("mean_share", sums.mean_share());
  }

  std::int64_t controls_ = 99;
};

const RegisterProbe registered{"gradient_energy", [] { return std::make_unique<GradientEnergyProbe>(); }};

}  // namespace
}  // namespace nascent
