#include "train/evaluate.h"

#include <algorithm>
#include <span>
#include <vector>

#include "kernels/reduce.h"

namespace nascent {

Evaluation evaluate(Stream& s, Transformer& model, const Windows& windows, std::int64_t sequences) {
  const auto count = static_cast<std::int64_t>(windows.count());
  const std::int64_t wanted = sequences > 0 ? std::min(sequences, count) : count;
  const std::int64_t batch = model.batch(), length = windows.length();
  std::vector<std::int32_t> inputs(static_cast<std::size_t>(batch * length)), targets(inputs.size());
  const View input_view(inputs.data(), DType::kI32, {batch, length}),
      target_view(targets.data(), DType::kI32, {batch, length});

  model.listen(false);
  Evaluation result;
  double total = 0;
  for (std::int64_t first = 0; first < wanted; first += batch) {
    // The last batch may have empty places: their targets are ignored.
    std::fill(inputs.begin(), inputs.end(), 0);
    std::fill(targets.begin(), targets.end(), kIgnored);
    const std::int64_t filled = std::min(batch, wanted - first);
    for (std::int64_t i = 0; i < filled; ++i) {
      const auto place = static_cast<std::size_t>(i * length), n = static_cast<std::size_t>(length);
      windows.fill(static_cast<std::uint64_t>(first + i), std::span(inputs).subspan(place, n),
                   std::span(targets).subspan(place, n));
    }
    model.forward(s, input_view);
    double sum_of_losses = 0;
    sum(s, Tensor(&sum_of_losses, DType::kF64, {1}), model.losses(s, target_view));
    total += sum_of_losses;
    result.targets += filled * length;
  }
  model.listen(true);
  result.loss = total / static_cast<double>(result.targets);
  return result;
}

}  // namespace nascent
