#include <algorithm>
#include <cmath>

#include "kernels/cross_entropy.h"
#include "kernels/parallel.h"
#include "kernels/require.h"
#include "kernels/vecmath.h"

namespace nascent::cpu {
namespace {

template <class T>
struct Softmax {
  T most, total;  // largest logit, sum of exp(logit - most)
};

template <class T>
Softmax<T> softmax_of(const T* row, std::int64_t v) {
  T most = row[0], total = 0;
#pragma omp simd reduction(max : most)
  for (std::int64_t j = 0; j < v; ++j) most = row[j] > most ? row[j] : most;
#pragma omp simd reduction(+ : total)
  for (std::int64_t j = 0; j < v; ++j) total += exp_of(row[j] - most);
  return {most, total};
}

void check(const char* op, const View& losses, const View& logits, const View& targets) {
  require_shape(op, "losses", losses, {logits.rows()});
  require_shape(op, "targets", targets, {logits.rows()});
}

}  // namespace

void cross_entropy_forward(Stream& s, Tensor losses, View logits, View targets) {
  check("cross_entropy_forward", losses, logits, targets);
  const std::int64_t v = logits.cols();
  dispatch(logits.dtype(), [&]<class T>() {
    parallel_for(s, logits.rows(), 4, [&](std::int64_t begin, std::int64_t end, int) {
      for (std::int64_t i = begin; i < end; ++i) {
        const std::int32_t target = targets.data<std::int32_t>()[i];
        T& loss = losses.data<T>()[i];
        loss = 0;
        if (target == kIgnored) continue;
        const T* row = logits.data<T>() + i * v;
        const auto [most, total] = softmax_of(row, v);
        loss = std::log(total) + most - row[target];
      }
    });
  });
}

void cross_entropy_forward_backward(Stream& s, Tensor losses, Tensor dlogits, View logits, View targets, double scale) {
  check("cross_entropy_forward_backward", losses, logits, targets);
  require_shape("cross_entropy_forward_backward", "dlogits", dlogits, logits.shape());
  const std::int64_t v = logits.cols();
  dispatch(logits.dtype(), [&]<class T>() {
    parallel_for(s, logits.rows(), 4, [&](std::int64_t begin, std::int64_t end, int) {
      for (std::int64_t i = begin; i < end; ++i) {
        const std::int32_t target = targets.data<std::int32_t>()[i];
        const T* row = logits.data<T>() + i * v;
        T* gradient = dlogits.data<T>() + i * v;
        T& loss = losses.data<T>()[i];
        loss = 0;
        if (target == kIgnored) {
          std::fill_n(gradient, v, T{0});
          continue;
        }
        const Softmax<T> softmax = softmax_of(row, v);
        const T most = softmax.most, factor = static_cast<T>(scale) / softmax.total;
        loss = std::log(softmax.total) + most - row[target];
#pragma omp simd
        for (std::int64_t j = 0; j < v; ++j) gradient[j] = exp_of(row[j] - most) * factor;
        gradient[target] -= static_cast<T>(scale);
      }
    });
  });
}

}  // namespace nascent::cpu
