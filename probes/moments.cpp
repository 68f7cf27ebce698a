// Moments: norms, cosines, participation ratio, IsoScore and IsoScore* of activations and gradients.
//
//   PR = (tr C)^2/||C||^2      IsoScore = (PR - 1)/(d - 1) (Rudman et al. 2022)
//   IsoScore*: the same of (1 - z) C + z C0 (Rudman & Eickhoff 2024)
#include "probes/geometry.h"
#include "probes/probe.h"

namespace nascent {
namespace {

class MomentsProbe : public Probe {
 public:
  void settings(Settings& s) override {
    s.key("z", z_, 0, 1, "IsoScore*: share of the reference covariance (tr C/d) I mixed into C");
  }
  bool needs_statistics() const override { return true; }
  void plan(const ProbePlan& plan) override { taps_ = plan.taps; }

  void finish(Stream&, const Parameters&, Recorder& out) override {
    for (const TapStatistics* tap : taps_) {
      report(out, tap->tap().name, "of=activation", tap->activation());
      report(out, tap->tap().name, "of=gradient", tap->gradient());
    }
  }

 private:
  void report(Recorder& out, const std::string& tap, const std::string& labels, const Moments& m) const {
    const char* why = !m.finite ? "NaN or infinity" : m.n_centred < 2 ? "fewer than 2 positions" : "no spread";
    const auto add = [&](const char* key, Value value) {
      out.add(tap, key, labels, m.finite ? value : Value(), m.n, why);
    };
    const auto of_spectrum = [&](auto measure) {
      const auto c = spectrum_of(m);
      return c ? measure(*c) : Value();
    };
    out.add(tap, "n", labels, static_cast<double>(m.n), m.n);
    out.add(tap, "zero_rows", labels, static_cast<double>(m.zero_rows), m.n);
    add("mean_norm", m.mean_norm());
    add("norm_of_mean", m.norm_of_mean());
    add("avg_cosine", m.average_cosine());
    add("participation_ratio", of_spectrum(participation_ratio));
    add("participation_ratio_unbiased", of_spectrum(participation_ratio_unbiased));
    add("isoscore", of_spectrum(isoscore));
    add("isoscore_star", of_spectrum([&](const Spectrum& c) { return isoscore_star(c, z_); }));
  }

  double z_ = 0.2;
  std::vector<TapStatistics*> taps_;
};

const RegisterProbe registered{"moments", [] { return std::make_unique<MomentsProbe>(); }};

}  // namespace
}  // namespace nascent
