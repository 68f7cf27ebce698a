// A matrix product by a direct call of oneDNN, prepared once: what nascent's own products are held against.
#pragma once

#include <memory>

#include "kernels/gemm.h"

namespace nascent::bench {

class BareProduct {
 public:
  // c = a b (+ bias in every row), or c += a b. The memory must outlive this.
  BareProduct(Matrix<float> c, Matrix<const float> a, Matrix<const float> b, Into into, const float* bias = nullptr);
  void run() const;

 private:
  struct Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace nascent::bench
