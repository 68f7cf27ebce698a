// Tangent bases: the top principal directions of the centred activations ("global PCA", a proxy of the tangent space),
// how much of the activations' variance they explain, and the angles between bases of different birth. Beside them, on
// stored arrays, bases of neighbourhoods.
#include <algorithm>
#include <numeric>

#include "probes/geometry.h"
#include "probes/neighbourhoods.h"
#include "probes/probe.h"

namespace nascent {
namespace {

class TangentProbe : public Probe {
 public:
  bool needs_statistics() const override { return true; }

  void report(Stream& s, const Panel& panel, Recorder& out) override {
    for (const auto& tap : panel.taps) {
      if (!tap->has_activation()) continue;
      const std::string& name = tap->tap().name;
      const auto& bases = tap->bases().all();
      report_bases(s, *tap, out);
      for (std::size_t i = 0; i < bases.size(); ++i) {
        const Basis& basis = bases[i];
        report_angles(out, name, basis.name + "_even", basis.halves[0], basis.name + "_odd", basis.halves[1]);
        for (std::size_t j = i + 1; j < bases.size(); ++j)
          report_angles(out, name, basis.name, basis.directions, bases[j].name, bases[j].directions);
      }
      if (panel.choice.local.of != "off") report_local(panel, *tap, out);
    }
  }

 private:
  static void report_bases(Stream& s, const TapStatistics& tap, Recorder& out) {
    const Sample& sample = tap.activation();
    const Moments& h = sample.all;
    const bool spread = spectrum_of(h).has_value();
    const auto& bases = tap.bases().all();
    DenseMatrix inside;
    std::vector<double> whole;  // sum of ||x - mu||^2 of each sequence
    if (spread) {
      std::vector<const DenseMatrix*> directions;
      for (const Basis& basis : bases) directions.push_back(&basis.directions);
      inside = squares_in(s, sample.array, directions, &h.mean);
      whole = sums_by_sequence(sample, distances_of(s, sample.array, {}, sample.array.positions->all(), h.mean).data());
    }
    for (std::size_t i = 0; i < bases.size(); ++i) {
      const Labels labels = {{"basis", bases[i].name}};
      const double rank = static_cast<double>(bases[i].directions.cols);
      const auto add = [&](const char* key, const Estimate& estimate) {
        out.add(tap.tap().name, key, labels, estimate, h.n, h.finite ? "no spread" : "NaN or infinity");
      };
      add("n", static_cast<double>(h.n));
      add("rank", rank);
      add("chance", rank / static_cast<double>(h.d));
      add("explained",
          spread ? explained(sample, bases[i].directions,
                             sums_by_sequence(sample, &inside.data[i * static_cast<std::size_t>(inside.cols)]), whole)
                 : Estimate());
    }
  }

  // tr(Q^T C Q)/tr C. part, whole: sums of ||Q^T (x - mu)||^2 and ||x - mu||^2 of each sequence. Without sequence s, Y_s
  // the sum of its x - mu: sums of squares about the mean that moves with it are less ||Q^T Y_s||^2/(n - n_s) inside and
  // ||Y_s||^2/(n - n_s) in all.
  static Estimate explained(const Sample& sample, const DenseMatrix& basis, const std::vector<double>& part,
                            const std::vector<double>& whole) {
    const Moments& h = sample.all;
    const double inside = std::accumulate(part.begin(), part.end(), 0.0),
                 total = std::accumulate(whole.begin(), whole.end(), 0.0);
    DenseMatrix about = sample.sums;  // Y_s
    for (std::int64_t i = 0; i < about.rows; ++i) {
      for (std::int64_t j = 0; j < about.cols; ++j)
        about(i, j) -= sample.rows_of(i) * h.mean[static_cast<std::size_t>(j)];
    }
    const DenseMatrix along = multiply(about, basis);
    const auto squared_row = [](const DenseMatrix& m, std::int64_t i) {
      double sum = 0;
      for (std::int64_t j = 0; j < m.cols; ++j) sum += m(i, j) * m(i, j);
      return sum;
    };
    const Value se = jackknife(sample.sequences(), [&](std::int64_t i) -> Value {
      const double left = static_cast<double>(h.n) - sample.rows_of(i);
      const auto at = static_cast<std::size_t>(i);
      const double rest = total - whole[at] - squared_row(about, i) / left;
      if (left < 2 || !(rest > 0)) return {};
      return (inside - part[at] - squared_row(along, i) / left) / rest;
    });
    return {explained_share(h.scatter, basis), se};
  }

  static void report_angles(Recorder& out, const std::string& tap, const std::string& basis, const DenseMatrix& a,
                            const std::string& other, const DenseMatrix& b) {
    if (a.cols == 0 || b.cols == 0) return;  // one of them has no directions
    const std::vector<double> angles = principal_angles(a, b);
    double sum = 0;
    for (double angle : angles) sum += angle;
    const auto count = static_cast<std::int64_t>(angles.size());
    const Labels labels = {{"basis", basis}, {"other", other}};
    out.add(tap, "angle_mean", labels, sum / static_cast<double>(count), count);
    out.add(tap, "angle_max", labels, *std::ranges::max_element(angles), count);
  }

  // Means over neighbourhoods, each about its own mean and in its own basis.
  static void report_local(const Panel& panel, const TapStatistics& tap, Recorder& out) {
    const std::vector<Neighbourhood> all = neighbourhoods(tap.activation(), panel.choice.local);
    const auto count = static_cast<std::int64_t>(all.size());
    const double n = static_cast<double>(count), d = static_cast<double>(tap.tap().width),
                 r = static_cast<double>(panel.choice.local.rank);
    double explained = 0, chance = 0;
    for (const Neighbourhood& one : all) {
      explained += one.explained / n;
      chance += r / std::min(d, static_cast<double>(one.rows.size()) - 1) / n;
    }
    const auto add = [&](const char* key, double value) {
      const bool there = count > 0 || std::string(key) == "n" || std::string(key) == "rank";
      out.add(tap.tap().name, key, {{"basis", panel.choice.local.of}}, there ? Estimate(value) : Estimate(), count,
              tap.activation().all.finite ? "no neighbourhood" : "NaN or infinity");
    };
    add("n", n);
    add("rank", r);
    add("explained", explained);
    add("chance", chance);
  }
};

const RegisterProbe registered{"tangent", [] { return std::make_unique<TangentProbe>(); }};

}  // namespace
}  // namespace nascent
