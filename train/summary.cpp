#include "train/summary.h"

#include <cmath>
#include <fmt/format.h>
#include <string>
#include <vector>

namespace nascent {
namespace {

std::string number(std::optional<double> value, int digits) {
  return value ? fmt::format("{:.{}f}", *value, digits) : "-";
}

void print_losses(const MetricsDb& metrics, std::int64_t first, std::int64_t last) {
  fmt::print("\nLoss in nats per token\n");
  fmt::print("  training, step {:<10} {}\n", first, number(metrics.step(first)->loss, 4));
  fmt::print("  training, step {:<10} {}\n", last, number(metrics.step(last)->loss, 4));
  const char* names[] = {"unigram", "bigram", "trigram"};
  for (int order = 1; order <= 3; ++order) {
    const auto loss = metrics.value(first, "eval", "", "ngram_loss", fmt::format("order={}", order));
    if (loss) fmt::print("  held out, {:<15} {}\n", names[order - 1], number(loss, 4));
  }
  const auto heldout = metrics.value(last + 1, "eval", "", "loss", "split=heldout_all");
  if (heldout) fmt::print("  held out, final model     {}\n", number(heldout, 4));
}

// One row a tap and step: the share of the gradient in each basis, beside chance and the most that as many directions
// hold.
void print_energy(const MetricsDb& metrics) {
  const std::string probe = "gradient_energy", current = "basis=current", init = "basis=init";
  const std::vector<std::string> taps = metrics.taps(probe, "share", current);
  if (taps.empty()) return;
  fmt::print(
      "\nShare of the gradient's energy in the top principal directions of the activations: of the first step (init), "
      "of the same\n"
      "step (current). Chance is what random directions hold, ceiling the most that as many directions can.\n");
  fmt::print("  {:<22} {:>7} {:>8} {:>8} {:>8} {:>8}\n", "tap", "step", "init", "current", "chance", "ceiling");
  for (const std::string& tap : taps) {
    const std::vector<std::int64_t> steps = metrics.steps(probe, tap, "share", current);
    if (steps.empty()) continue;
    for (const std::int64_t step : {steps.front(), steps[steps.size() / 2], steps.back()}) {
      const auto value = [&](const char* key, const std::string& basis) {
        return number(metrics.value(step, probe, tap, key, basis), 3);
      };
      fmt::print("  {:<22} {:>7} {:>8} {:>8} {:>8} {:>8}\n", tap, step, value("share", init), value("share", current),
                 value("chance", current), value("ceiling", current));
    }
  }
}

}  // namespace

void print_summary(const MetricsDb& metrics) {
  const auto first = metrics.first_step(), last = metrics.last_step();
  if (!last) return;
  print_losses(metrics, *first, *last);
  print_energy(metrics);
  if (const std::int64_t without = metrics.without_update(); without > 0) {
    fmt::print(
        "\nSteps without an update: {} of {} (loss or gradient not finite, or nothing to predict: see events in "
        "metrics.db)\n",
        without, *last + 1);
  }
  const double all = metrics.seconds(), probes = metrics.sum("seconds");
  fmt::print("\n{} steps in {:.0f} s, of which probes took {:.1f}%\n", *last + 1 - *first, all, 100 * probes / all);
}

}  // namespace nascent
