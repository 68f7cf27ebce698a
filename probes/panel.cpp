#include "probes/panel.h"

#include <algorithm>
#include <cmath>

#include "kernels/parallel.h"

namespace nascent {
namespace {

// sigma_i of every position's activation.
std::vector<double> norm_statistic(const NormStatistic& norm, View h) {
  const std::int64_t d = h.cols();
  std::vector<double> sigma(static_cast<std::size_t>(h.rows()));
  dispatch(h.dtype(), [&]<class T>() {
    for (std::int64_t i = 0; i < h.rows(); ++i) {
      const T* row = h.data<T>() + i * d;
      double sum = 0, square = 0;
      for (std::int64_t j = 0; j < d; ++j) sum += static_cast<double>(row[j]);
      const double mean = norm.centred ? sum / static_cast<double>(d) : 0;
      for (std::int64_t j = 0; j < d; ++j)
        square += (static_cast<double>(row[j]) - mean) * (static_cast<double>(row[j]) - mean);
      sigma[static_cast<std::size_t>(i)] = std::sqrt(square / static_cast<double>(d) + norm.eps);
    }
  });
  return sigma;
}

// Every input type weighs the same: a row 1/(rows of its type that count).
Selection by_type(const PositionLabels& positions, const Sample& sample) {
  const Groups types = group_by(positions.token(), sample.centred);
  Selection selection{sample.centred, {}, std::vector<double>(static_cast<std::size_t>(positions.count()), 0.0)};
  for (std::int64_t g = 0; g < types.count(); ++g) {
    for (std::int32_t row : types.of(g))
      selection.weight[static_cast<std::size_t>(row)] = 1 / static_cast<double>(types.of(g).size());
  }
  return selection;
}

}  // namespace

TapStatistics* Panel::find(const std::string& tap) const {
  const auto found = std::ranges::find_if(taps, [&](const auto& t) { return t->tap().name == tap; });
  return found == taps.end() ? nullptr : found->get();
}

void Panel::sum_up(Stream& s, const FitRequest& request) {
  for (const auto& tap : taps) tap->sum_up(s, positions, detail);
  // The fits of the taps are independent and run side by side.
  parallel_for(s, static_cast<std::int64_t>(taps.size()), 1, [&](std::int64_t begin, std::int64_t end, int) {
    for (auto i = static_cast<std::size_t>(begin); i < static_cast<std::size_t>(end); ++i) taps[i]->fit(request);
  });
}

std::vector<Variant> variants_of(const Panel& panel, const TapStatistics& tap, bool gradient) {
  const PositionLabels& positions = panel.positions;
  std::vector<Variant> variants;
  if (positions.some_without_target()) {
    variants.push_back({{{"positions", "target"}}, {positions.with_target(true), {}, {}}});
    variants.push_back({{{"positions", "other"}}, {positions.with_target(false), {}, {}}});
  }
  if (!panel.detail) return variants;
  if (positions.knows_sequences())
    variants.push_back({{{"view", "no_sink"}}, {positions.without_sinks(panel.choice.sink), {}, {}}});
  if (panel.choice.norm.known && tap.has_activation()) {
    std::vector<double> factor = norm_statistic(panel.choice.norm, tap.activation().array.x);
    if (!gradient) {
      for (double& sigma : factor) sigma = 1 / sigma;
    }
    // None where an activation is NaN, infinite, or without a scale.
    if (std::ranges::all_of(factor, [](double f) { return std::isfinite(f); }))
      variants.push_back({{{"view", "normed"}}, {positions.all(), std::move(factor), {}}});
  }
  if (!positions.token().empty()) {
    variants.push_back({{{"weight", "type"}}, by_type(positions, gradient ? tap.gradient() : tap.activation())});
  }
  return variants;
}

Sample part_of(Stream& s, const Panel& panel, const Sample& whole, Selection selection) {
  Array array = whole.array;
  array.products = panel.exact ? DType::kF64 : array.x.dtype();
  return sample_of(s, array, std::move(selection));
}

}  // namespace nascent
