// Tangent bases: the top principal directions of the centred activations ("global PCA", a proxy of the tangent space).
// `init` is born at the first step and frozen, `current` is refitted every step.
#include <algorithm>

#include "probes/geometry.h"
#include "probes/probe.h"

namespace nascent {
namespace {

class TangentProbe : public Probe {
 public:
  bool needs_statistics() const override { return true; }
  void plan(const ProbePlan& plan) override { taps_ = plan.taps; }

  void finish(Stream&, const Parameters&, Recorder& out) override {
    for (const TapStatistics* tap : taps_) {
      const std::string& name = tap->tap().name;
      const Moments& h = tap->activation();
      const bool spread = h.finite && spectrum_of(h);
      for (const Basis& basis : tap->bases()) {
        const std::string labels = "basis=" + basis.name;
        const double rank = static_cast<double>(basis.directions.cols);
        out.add(name, "n", labels, static_cast<double>(h.n), h.n);
        out.add(name, "rank", labels, rank, h.n);
        out.add(name, "chance", labels, rank / static_cast<double>(h.d), h.n);
        out.add(name, "explained", labels, spread ? explained_share(h.scatter, basis.directions) : Value(), h.n,
                "no spread");
      }
      if (tap->bases().size() == 2) report_angles(out, name, tap->bases()[0], tap->bases()[1]);
    }
  }

 private:
  void report_angles(Recorder& out, const std::string& tap, const Basis& basis, const Basis& other) const {
    const std::string labels = "basis=" + basis.name + ",other=" + other.name;
    if (basis.directions.cols == 0) return;  // this step has no directions
    const std::vector<double> angles = principal_angles(basis.directions, other.directions);
    if (angles.empty()) return;
    double sum = 0;
    for (double angle : angles) sum += angle;
    const auto count = static_cast<std::int64_t>(angles.size());
    out.add(tap, "angle_mean", labels, sum / static_cast<double>(count), count);
    out.add(tap, "angle_max", labels, *std::max_element(angles.begin(), angles.end()), count);
  }

  std::vector<TapStatistics*> taps_;
};

const RegisterProbe registered{"tangent", [] { return std::make_unique<TangentProbe>(); }};

}  // namespace
}  // namespace nascent
