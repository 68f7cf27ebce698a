// Moments: norms, cosines, spectra and shares of variance of activations and gradients. C is the centred covariance.
// What needs eigenvalues, types or a pass over single rows is of detailed steps.
//
//   PR = (tr C)^2/||C||^2      IsoScore = (PR - 1)/(d - 1) (Rudman et al. 2022)
//   IsoScore*: the same of (1 - z) C + z C0 (Rudman & Eickhoff 2024)
//   effective rank exp(-sum p ln p), p the singular values' shares (Roy & Vetterli 2007)
#include <algorithm>
#include <cmath>
#include <optional>

#include "data/safetensors.h"
#include "kernels/error.h"
#include "kernels/parallel.h"
#include "probes/geometry.h"
#include "probes/probe.h"
#include "probes/shares.h"

namespace nascent {
namespace {

// Eigenvalues of C that are not zero.
std::vector<double> spectrum_values(const Moments& m) {
  if (!spectrum_of(m)) return {};
  std::vector<double> values = symmetric_eigenvalues(m.scatter);
  values.resize(static_cast<std::size_t>(non_zero(values, m)));
  return values;
}

class MomentsProbe : public Probe {
 public:
  void settings(Settings& s) override {
    s.key("z", z_, 0, 1, "IsoScore*: share of the reference covariance C0 mixed into C");
    s.key("c0", c0_,
          "IsoScore*: scaled_identity, (tr C/d) I; identity; or a safetensors file of h:TAP and g:TAP [d, d]");
  }
  bool needs_statistics() const override { return true; }

  void report(Stream& s, const Panel& panel, Recorder& out) override {
    for (const auto& tap : panel.taps) {
      if (tap->has_activation()) report(s, panel, *tap, false, out);
      if (tap->has_gradient()) report(s, panel, *tap, true, out);
    }
    for (std::size_t i = 0; i + 1 < panel.taps.size(); ++i) report_next(s, *panel.taps[i], *panel.taps[i + 1], out);
  }

 private:
  // One sample's records: where they go and what they are made of.
  struct Report {
    Recorder& out;
    const std::string& tap;
    Labels labels;
    const Moments& m;

    void add(const char* key, const Estimate& estimate) const {
      const char* why = !m.finite         ? "NaN or infinity"
                        : m.n_centred < 2 ? "fewer than 2 positions"
                        : spectrum_of(m)  ? "undefined at these values"
                                          : "no spread";
      out.add(tap, key, labels, m.finite ? estimate : Estimate(), m.n, why);
    }
  };

  void report(Stream& s, const Panel& panel, const TapStatistics& tap, bool gradient, Recorder& out) {
    const Sample& sample = gradient ? tap.gradient() : tap.activation();
    const Labels of = {{"of", gradient ? "gradient" : "activation"}};
    const std::string& name = tap.tap().name;
    report_sample(s, panel, sample, {out, name, of, sample.all}, true);
    if (!sample.all.finite) return;
    for (Variant& variant : variants_of(panel, tap, gradient)) {
      const Sample seen = part_of(s, panel, sample, std::move(variant.selection));
      variant.labels.merge(Labels(of));
      report_sample(s, panel, seen, {out, name, variant.labels, seen.all}, false);
    }
    if (panel.detail) report_by_target(s, panel, sample, {out, name, of, sample.all});
  }

  void report_sample(Stream& s, const Panel& panel, const Sample& sample, const Report& to, bool with_errors) {
    const Moments& m = sample.all;
    to.out.add(to.tap, "n", to.labels, static_cast<double>(m.n), m.n);
    to.out.add(to.tap, "zero_rows", to.labels, static_cast<double>(m.zero_rows), m.n);
    report_spectrum(s, panel, sample, to, with_errors);
    to.add("norm_of_mean", sample.norm_of_mean());
    to.add("mean_norm", sample.mean_norm());
    if (!sample.selection.weight.empty()) return;  // what follows is of pairs and of single rows
    to.add("avg_cosine", sample.average_cosine());
    if (!panel.detail) return;
    const bool spread = spectrum_of(m).has_value();
    const std::optional<Shares> shares = spread ? std::optional<Shares>(std::in_place, s, sample) : std::nullopt;
    to.add("top_position_share", spread ? shares->top_positions() : Estimate());
    to.add("top_coordinate_share", spread ? shares->top_coordinate() : Estimate());
    const PositionLabels& positions = panel.positions;
    if (positions.knows_sequences()) to.add("position0_share", spread ? shares->first_positions() : Estimate());
    if (positions.token().empty() || to.labels.contains("view")) return;
    const Shares::ByType types = spread ? shares->by_type(s, positions.token()) : Shares::ByType();
    to.add("between_share", types.between);
    to.add("avg_cosine_other", types.other_cosine);
  }

  // By target type: of the rows that have one.
  void report_by_target(Stream& s, const Panel& panel, const Sample& sample, Report to) {
    const PositionLabels& positions = panel.positions;
    if (positions.target().empty()) return;
    to.labels["by"] = "target";
    const Sample with = part_of(s, panel, sample, {positions.with_target(true), {}, {}});
    const Shares::ByType types =
        spectrum_of(with.all) ? Shares(s, with).by_type(s, positions.target()) : Shares::ByType();
    to.add("between_share", types.between);
    to.add("avg_cosine_other", types.other_cosine);
  }

  void report_spectrum(Stream& s, const Panel& panel, const Sample& sample, const Report& to, bool with_errors) {
    const std::vector<Moments> rests = panel.detail && with_errors ? sample.without_groups(s) : std::vector<Moments>();
    const DenseMatrix* c0 = reference(to.tap, sample.array.gradient, sample.all.d);
    const auto estimate = [&](const auto& measure) {
      const auto of = [&](const Moments& m) -> Value {
        const auto c = spectrum_of(m);
        return c ? measure(*c, m) : Value();
      };
      const auto without = [&](std::int64_t g) { return of(rests[static_cast<std::size_t>(g)]); };
      return Estimate(of(sample.all), jackknife(static_cast<std::int64_t>(rests.size()), without));
    };
    to.add("participation_ratio", estimate([](const Spectrum& c, const Moments&) { return participation_ratio(c); }));
    to.add("participation_ratio_unbiased",
           estimate([](const Spectrum& c, const Moments&) { return participation_ratio_unbiased(c); }));
    to.add("isoscore", estimate([](const Spectrum& c, const Moments&) { return isoscore(c); }));
    to.add("isoscore_star", estimate([&](const Spectrum& c, const Moments& m) { return star(c, m, c0); }));
    if (sample.array.positions->knows_sequences() && sample.selection.weight.empty())
      to.add("pr_cross", participation_ratio_cross(sample.halves[0], sample.halves[1]));
    if (panel.detail) report_eigenvalues(s, sample.all, rests, to);
  }

  void report_eigenvalues(Stream& s, const Moments& all, const std::vector<Moments>& rests, const Report& to) const {
    std::vector<std::vector<double>> spectra(rests.size() + 1);  // the last of all
    parallel_for(s, static_cast<std::int64_t>(spectra.size()), 1, [&](std::int64_t begin, std::int64_t end, int) {
      for (auto i = static_cast<std::size_t>(begin); i < static_cast<std::size_t>(end); ++i)
        spectra[i] = spectrum_values(i < rests.size() ? rests[i] : all);
    });
    const auto add = [&](const char* key, Value (*measure)(const std::vector<double>&)) {
      const auto without = [&](std::int64_t g) { return measure(spectra[static_cast<std::size_t>(g)]); };
      to.add(key, Estimate(measure(spectra.back()), jackknife(static_cast<std::int64_t>(rests.size()), without)));
    };
    add("effective_rank", effective_rank);
    add("pc1_share", pc1_share);
    add("spectrum_slope", spectrum_slope);
  }

  Value star(const Spectrum& c, const Moments& m, const DenseMatrix* c0) const {
    if (!c0) return isoscore_star(c, z_);
    // The spectrum is in units of the trace of C.
    const double unit = trace(m.scatter) / static_cast<double>(m.n_centred - 1);
    const double product = inner_product(m.scatter, *c0) / static_cast<double>(m.n_centred - 1);
    return isoscore_star(c, z_, trace(*c0) / unit, frobenius_squared(*c0) / (unit * unit), product / (unit * unit));
  }

  // C0 at a tap; null for (tr C/d) I.
  const DenseMatrix* reference(const std::string& tap, bool gradient, std::int64_t d) {
    if (c0_ == "scaled_identity") return nullptr;
    const std::string name = (gradient ? "g:" : "h:") + tap;
    const auto known = references_.find(name);
    if (known != references_.end()) return &known->second;
    DenseMatrix c0(d, d);
    if (c0_ == "identity") {
      for (std::int64_t j = 0; j < d; ++j) c0(j, j) = 1;
    } else {
      SafetensorsFile file(c0_);
      const View view = file.floats(name);
      if (view.shape() != Shape({d, d}))
        throw input_error("{}: {} has shape {}, expected ({}, {})", c0_, name, view.shape().text(), d, d);
      dispatch(view.dtype(), [&]<class T>() { std::copy_n(view.data<T>(), d * d, c0.data.begin()); });
      if (!std::ranges::all_of(c0.data, [](double x) { return std::isfinite(x); }))
        throw input_error("{}: {} holds NaN or infinity, expected a covariance", c0_, name);
    }
    return &(references_[name] = std::move(c0));
  }

  // Mean cosine of g at a tap and the next one: layers are not replicates.
  static void report_next(Stream& s, const TapStatistics& tap, const TapStatistics& next, Recorder& out) {
    if (!tap.has_gradient() || !next.has_gradient() || tap.tap().width != next.tap().width) return;
    const Sample& sample = tap.gradient();
    std::vector<double> cosines(sample.by_sequence.rows.size());
    row_cosines(s, Tensor(cosines.data(), DType::kF64, {static_cast<std::int64_t>(cosines.size())}), sample.array.x,
                next.gradient().array.x, view_of(sample.by_sequence.rows));
    std::vector<double> sum(static_cast<std::size_t>(sample.sequences())), count(sum.size());
    double total = 0, rows = 0;
    for (std::size_t i = 0; i < sum.size(); ++i) {
      for (std::int32_t at = sample.by_sequence.offsets[i]; at < sample.by_sequence.offsets[i + 1]; ++at) {
        const double cosine = cosines[static_cast<std::size_t>(at)];
        if (cosine == kNoCosine) continue;
        sum[i] += cosine;
        count[i] += 1;
      }
      total += sum[i];
      rows += count[i];
    }
    const bool finite = sample.all.finite && next.gradient().all.finite;
    const auto mean = [=](double t, double n) { return finite && n > 0 ? Value(t / n) : Value(); };
    const Value se = jackknife(sample.sequences(), [&](std::int64_t i) {
      return mean(total - sum[static_cast<std::size_t>(i)], rows - count[static_cast<std::size_t>(i)]);
    });
    out.add(tap.tap().name, "cos_next", {{"of", "gradient"}}, {mean(total, rows), se}, static_cast<std::int64_t>(rows),
            finite ? "no two rows with a direction" : "NaN or infinity");
  }

  double z_ = 0.2;
  std::string c0_ = "scaled_identity";
  std::map<std::string, DenseMatrix> references_;
};

const RegisterProbe registered{"moments", [] { return std::make_unique<MomentsProbe>(); }};

}  // namespace
}  // namespace nascent
