// Norms: what everyone looks at first. Per parameter the norms of gradient (before clipping) and weight, the applied
// update over the weight, the rms of Adam's moments; per tap the rms and the largest activation, and the share of dead
// units of each MLP (those whose activation is above 0 nowhere in the step); the loss by position in the sequence, in
// bins of doubling width.
#include <algorithm>
#include <bit>
#include <cmath>
#include <fmt/format.h>
#include <limits>
#include <map>

#include "kernels/cross_entropy.h"
#include "kernels/reduce.h"
#include "kernels/row_statistics.h"
#include "probes/probe.h"

namespace nascent {
namespace {

double norm_of(Stream& s, View x) {
  double square = 0;
  sum_squares(s, Tensor(&square, DType::kF64, {1}), x);
  return std::sqrt(square);
}

// PositionLabels 0, 1, 2-3, 4-7, ...
std::string bin_name(std::size_t bin) {
  if (bin < 2) return fmt::format("{}", bin);
  return fmt::format("{}-{}", std::size_t{1} << (bin - 1), (std::size_t{1} << bin) - 1);
}

class NormsProbe : public Probe {
 public:
  bool needs_statistics() const override { return true; }
  bool needs_updates() const override { return true; }
  bool wants(std::string_view tap) const override { return tap.ends_with(".mlp.post"); }

  void plan(std::int64_t sequence) override {
    loss_bins_.resize(static_cast<std::size_t>(std::bit_width(static_cast<std::uint64_t>(sequence - 1))) + 1);
  }

  void begin_step() override {
    for (auto& [tap, most] : largest_of_unit_)
      std::fill(most.begin(), most.end(), -std::numeric_limits<double>::infinity());
    std::fill(loss_bins_.begin(), loss_bins_.end(), Bin{});
  }

  void on_value(Stream& s, const Tap& tap, View value) override {
    auto& most = largest_of_unit_[tap.name];
    most.resize(static_cast<std::size_t>(value.cols()), -std::numeric_limits<double>::infinity());
    dispatch(value.dtype(), [&]<class T>() {
      const auto column = s.scratch(value.dtype(), {value.cols()});
      T* p = column.template data<T>();
      std::fill_n(p, value.cols(), -std::numeric_limits<T>::infinity());
      column_max(s, column, value);
      for (std::size_t j = 0; j < most.size(); ++j)
        most[j] = static_cast<double>(p[j]) <= most[j] || std::isnan(most[j]) ? most[j] : static_cast<double>(p[j]);
    });
  }

  void on_losses(Stream&, View losses, View targets) override {
    const std::int64_t sequence = losses.cols();
    dispatch(losses.dtype(), [&]<class T>() {
      for (std::int64_t i = 0; i < losses.size(); ++i) {
        if (targets.data<std::int32_t>()[i] == kIgnored) continue;
        Bin& bin = loss_bins_[static_cast<std::size_t>(std::bit_width(static_cast<std::uint64_t>(i % sequence)))];
        bin.sum += static_cast<double>(losses.data<T>()[i]);
        ++bin.count;
      }
    });
  }

  void report(Stream&, const Panel& panel, Recorder& out) override {
    for (const auto& tap : panel.taps) {
      if (!tap->has_activation()) continue;
      const Sample& sample = tap->activation();
      const Moments& h = sample.all;
      const bool there = h.finite && h.n > 0;
      const double width = static_cast<double>(h.d), n = static_cast<double>(h.n);
      const auto rms = [&](double squares, double rows) -> Value { return std::sqrt(squares / (rows * width)); };
      const Value se = jackknife(sample.sequences(), [&](std::int64_t i) {
        return rms(h.sum_squares - sample.scalar(i, kSumSquares), n - sample.rows_of(i));
      });
      const char* why = "NaN or infinity";
      out.add(tap->tap().name, "rms", {}, there ? Estimate(rms(h.sum_squares, n), se) : Estimate(), h.n, why);
      out.add(tap->tap().name, "max_abs", {}, there ? Estimate(h.largest) : Estimate(), h.n, why);
    }
  }

  void finish(Stream& s, const Parameters& parameters, Recorder& out) override {
    for (const Parameter& p : parameters) {
      out.add(p.name, "grad_norm", {}, norm_of(s, p.grad), p.grad.size());
      out.add(p.name, "weight_norm", {}, norm_of(s, p.value), p.value.size());
    }
    for (const auto& [tap, most] : largest_of_unit_) {
      const auto dead = std::count_if(most.begin(), most.end(), [](double x) { return x <= 0; });
      const auto units = static_cast<std::int64_t>(most.size());
      const bool finite = std::ranges::all_of(most, [](double x) { return std::isfinite(x); });
      const double share = static_cast<double>(dead) / static_cast<double>(units);
      out.add(tap, "dead", {}, finite ? Value(share) : Value(), units, "NaN or infinity");
    }
    for (std::size_t i = 0; i < loss_bins_.size(); ++i) {
      const Bin& bin = loss_bins_[i];
      const Value mean = bin.count > 0 ? Value(bin.sum / static_cast<double>(bin.count)) : Value();
      out.add("", "loss_by_position", {{"position", bin_name(i)}}, mean, bin.count, "no target here");
    }
  }

  void on_update(Stream& s, const AppliedUpdate& update, Recorder& out) override {
    const Parameter& p = update.parameter;
    double moved = 0;
    sum_squared_difference(s, Tensor(&moved, DType::kF64, {1}), p.value, update.before);
    const double before = norm_of(s, update.before), root = std::sqrt(static_cast<double>(p.value.size()));
    out.add(p.name, "update_ratio", {}, before > 0 ? Value(std::sqrt(moved) / before) : Value(), p.value.size(),
            "zero weight");
    out.add(p.name, "moment_rms", {{"moment", "first"}}, norm_of(s, update.first) / root, p.value.size());
    out.add(p.name, "moment_rms", {{"moment", "second"}}, norm_of(s, update.second) / root, p.value.size());
  }

 private:
  struct Bin {
    double sum = 0;
    std::int64_t count = 0;
  };

  std::map<std::string, std::vector<double>> largest_of_unit_;
  std::vector<Bin> loss_bins_;
};

const RegisterProbe registered{"norms", [] { return std::make_unique<NormsProbe>(); }};

}  // namespace
}  // namespace nascent
