// What nascent_bench measures: each op on data of its own, with the least work that it must do.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "kernels/stream.h"
#include "tests/bench/operands.h"

namespace nascent::bench {

// A model and its batch: B sequences of T tokens, width C.
struct Size {
  const char* name;
  std::int64_t b, t, c, heads, vocab;
  std::int64_t n() const { return b * t; }
  std::int64_t hidden() const { return 4 * c; }
  std::int64_t head_size() const { return c / heads; }
};
inline constexpr Size kSizes[] = {{"quickstart", 16, 256, 256, 4, 2048}, {"gpt2", 4, 1024, 768, 12, 50257}};

// flop: additions, multiplications, divisions, roots, exponentials and comparisons that the op's formula asks for, each
// as one; NaN where the number depends on the data. read, written: bytes, each tensor once however often the op touches
// it; what is added to (+=) is both.
struct Work {
  double flop, read, written;
  bool fp64 = false;  // in double, of which a vector holds half as many
  double bytes() const { return read + written; }
};

struct Prepared {
  std::string shape;
  Work work;
  std::function<void(Stream&)> run;
  std::function<void()> bare = {};  // the same products by direct calls of oneDNN, where the op is made of products
};

struct Case {
  const char* op;
  const char* part;  // of the model, or what sets the case apart from others of this op; may be ""
  std::function<Prepared(Operands&, const Size&)> make;
};

std::vector<Case> product_cases();    // linear, attention, linear_cross_entropy
std::vector<Case> row_cases();        // norms, activations, embeddings, loss, optimizer
std::vector<Case> reduction_cases();  // reduce.h, second moments, statistics of rows, eigenvectors

}  // namespace nascent::bench
