#include "train/batches.h"

#include <algorithm>
#include <fmt/format.h>
#include <span>
#include <vector>

#include "kernels/cross_entropy.h"

namespace nascent {

Batches::Batches(const Windows& windows, std::uint64_t seed, std::int64_t batch, std::int64_t micro_batch)
    : windows_(windows), order_(windows.count(), seed), micro_batch_(micro_batch) {
  slab_.place(inputs_, "inputs", DType::kI32, {batch, windows.length()});
  slab_.place(targets_, "targets", DType::kI32, {batch, windows.length()});
  slab_.allocate();
}

void Batches::load(std::int64_t first) {
  const auto batch = static_cast<std::uint64_t>(inputs_.shape()[0]);
  const auto length = static_cast<std::size_t>(windows_.length());
  const std::span inputs(inputs_.data<std::int32_t>(), batch * length);
  const std::span targets(targets_.data<std::int32_t>(), batch * length);
  first_ = static_cast<std::uint64_t>(first);
  for (std::uint64_t i = 0; i < batch; ++i) {
    windows_.fill(order_.at(first_ + i), inputs.subspan(i * length, length), targets.subspan(i * length, length));
  }
  counted_ = std::count_if(targets.begin(), targets.end(), [](std::int32_t target) { return target != kIgnored; });
}

std::string Batches::text() const {
  const auto batch = static_cast<std::uint64_t>(inputs_.shape()[0]);
  std::vector<std::string> windows;
  for (std::uint64_t i = 0; i < batch; ++i) {
    const std::uint64_t window = order_.at(first_ + i);
    windows.push_back(fmt::format("{} (begins in document {})", window, windows_.document_of(window)));
  }
  return fmt::format("samples {} to {} of the order: windows {}", first_, first_ + batch - 1, fmt::join(windows, ", "));
}

}  // namespace nascent
