// Gradient energy: which part of the gradient of the step's loss lies in a tangent basis Q [d, r],
//
//   E = ||G Q||^2/||G||^2      chance r/d      ratio R = E (d - r)/((1 - E) r), against random subspaces of Q's
//                                              complement in closed form,
//
// beside the most that any r directions hold (ceiling) and the next r principal directions as a control. G is what the
// optimizer uses: every counted position of every micro-batch, before clipping.
#include "probes/geometry.h"
#include "probes/probe.h"

namespace nascent {
namespace {

class GradientEnergyProbe : public Probe {
 public:
  bool needs_statistics() const override { return true; }
  void plan(const ProbePlan& plan) override { taps_ = plan.taps; }

  void finish(Stream&, const Parameters&, Recorder& out) override {
    for (const TapStatistics* tap : taps_) {
      const std::string& name = tap->tap().name;
      const Moments& g = tap->gradient();
      const Moments& h = tap->activation();
      const bool there = g.finite && g.sum_squares > 0;
      const bool spread = there && h.finite && spectrum_of(h);
      out.add(name, "alignment", "", spread ? alignment(h.scatter, tap->gradient_raw()) : Value(), g.n, why(g));
      for (const Basis& basis : tap->bases()) report(out, *tap, basis, there);
    }
  }

 private:
  static const char* why(const Moments& g) {
    return !g.finite ? "NaN or infinity" : g.sum_squares > 0 ? "undefined at these values" : "zero gradient";
  }

  void report(Recorder& out, const TapStatistics& tap, const Basis& basis, bool there) const {
    const Moments& g = tap.gradient();
    const std::string labels = "basis=" + basis.name;
    const std::int64_t rank = basis.directions.cols;
    const auto add = [&](const char* key, Value value) { out.add(tap.tap().name, key, labels, value, g.n, why(g)); };
    add("chance", static_cast<double>(rank) / static_cast<double>(g.d));
    there = there && rank > 0;
    const Energy e = there ? energy_in(g, tap.gradient_raw(), basis.directions, tap.ceiling(rank)) : Energy{};
    add("share", e.share);
    add("enrichment", e.enrichment);
    add("control_mean", e.control_mean);
    add("ratio", e.ratio);
    add("log_odds", e.log_odds);
    add("z", e.z);
    add("ceiling", e.ceiling);
    add("of_ceiling", e.of_ceiling);
    add("mean_share", e.mean_share);
    const bool all_next = there && basis.next.cols == rank;
    add("next_pc_share", all_next ? explained_share(tap.gradient_raw(), basis.next) : Value());
  }

  std::vector<TapStatistics*> taps_;
};

const RegisterProbe registered{"gradient_energy", [] { return std::make_unique<GradientEnergyProbe>(); }};

}  // namespace
}  // namespace nascent
