#include "kernels/linear_cross_entropy.h"

#include <algorithm>

namespace nascent {
namespace {

template <class F>
void for_each_block(std::int64_t positions, std::int64_t vocab, F f) {
  const std::int64_t rows = head_block_rows(vocab);
  for (std::int64_t first = 0; first < positions; first += rows) f(first, std::min(rows, positions - first));
}

}  // namespace

std::int64_t head_block_rows(std::int64_t vocab) {
  constexpr std::int64_t kLogits = std::int64_t{1} << 22;
  return std::clamp<std::int64_t>(kLogits / std::max<std::int64_t>(vocab, 1) / 64 * 64, 64, 1024);
}

void linear_cross_entropy_forward(Stream& s, Tensor losses, View h, View w, View targets,
                                  const BlockListener& on_block) {
  for_each_block(h.rows(), w.rows(), [&](std::int64_t first, std::int64_t n) {
    const auto logits = s.scratch(h.dtype(), {n, w.rows()});
    linear_forward(s, logits, h.slice(first, n), w, {});
    cross_entropy_forward(s, losses.slice(first, n), logits, targets.slice(first, n));
    if (on_block) on_block(first, logits, {});
  });
}

void linear_cross_entropy_forward_backward(Stream& s, Tensor losses, Tensor dh, Tensor dw, View h, View w, View targets,
                                           double scale, const BlockListener& on_block) {
  for_each_block(h.rows(), w.rows(), [&](std::int64_t first, std::int64_t n) {
    const auto logits = s.scratch(h.dtype(), {n, w.rows()});
    const auto dlogits = s.scratch(h.dtype(), {n, w.rows()});
    linear_forward(s, logits, h.slice(first, n), w, {});
    cross_entropy_forward_backward(s, losses.slice(first, n), dlogits, logits, targets.slice(first, n), scale);
    if (on_block) on_block(first, logits, dlogits);
    linear_backward(s, dh.slice(first, n), dw, {}, dlogits, h.slice(first, n), w);
  });
}

}  // namespace nascent
