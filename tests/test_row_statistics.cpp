// Kernels that sum over rows, against plain loops in double: odd sizes, lists of rows, empty groups, zero rows, and the
// same bits for any number of threads.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "kernels/row_statistics.h"
#include "kernels/second_moments.h"
#include "probes/position_labels.h"
#include "tests/catch.h"
#include "tests/memory.h"

using namespace nascent;
using namespace nascent::test;

namespace {

using Doubles = std::vector<double>;
using Ids = std::vector<std::int32_t>;

// What `run` writes with a stream of 1, 2 and 3 threads, which must be the same bits.
template <class F>
Doubles result_of(std::int64_t size, F&& run) {
  Doubles first;
  for (const int threads : {1, 2, 3}) {
    Stream s(Device::kCpu, threads);
    Doubles out(static_cast<std::size_t>(size), -77.0);  // what was there before is not added to
    run(s, out.data());
    if (threads == 1) first = out;
    CHECK(std::memcmp(first.data(), out.data(), out.size() * sizeof(double)) == 0);
  }
  return first;
}

// The worst |got - want|/scale; NaN where they differ in being NaN.
class Worst {
 public:
  void see(double got, double want, double scale) {
    const double error = got == want || (std::isnan(got) && std::isnan(want)) ? 0 : std::abs(got - want) / scale;
    worst_ = larger(worst_, error);
  }
  double value() const { return worst_; }

 private:
  double worst_ = 0;
};

struct Size {
  DType dtype;
  std::int64_t n, d;
};

std::vector<Size> sizes() {
  std::vector<Size> all;
  for (const DType dtype : {DType::kF64, DType::kF32}) {
    for (const std::int64_t n : {1, 3, 33, 1000}) {
      for (const std::int64_t d : {1, 3, 65, 131}) all.push_back({dtype, n, d});
    }
  }
  return all;
}

// Rows about a mean that is not theirs; some are zero. Every third is left out, the others come in no order, in groups of
// 0 to 6 rows of which the first and the last are empty.
struct Rows {
  Rows(const Size& size, double scale) : n(size.n), d(size.d), memory(size.dtype) {
    x = memory.normal("x", {n, d}, scale, 0.5 * scale);
    y = memory.normal("y", {n, d}, 3);
    for (std::int64_t i = 2; i < n; i += 5) {
      for (std::int64_t j = 0; j < d; ++j) Memory::set(i % 2 == 0 ? x : y, i * d + j, 0);
    }
    const Random random(3, "test", "rows");
    for (std::int64_t i = 0; i < n; ++i) {
      factor.push_back(0.5 + random.uniform(static_cast<std::uint64_t>(2 * i)));
      weight.push_back(random.uniform(static_cast<std::uint64_t>(2 * i + 1)));
    }
    for (std::int64_t j = 0; j < d; ++j) mean.push_back(scale * random.normal(static_cast<std::uint64_t>(5000 + j)));
    for (std::int64_t i = 0; i < n; ++i) {
      const std::int64_t row = n - 1 - (i * 7 + 5) % n;  // 7 divides no n
      if (row % 3 != 1) rows.push_back(static_cast<std::int32_t>(row));
    }
    offsets = {0, 0};
    for (std::size_t at = 0, g = 0; at < rows.size(); ++g) {
      at = std::min(rows.size(), at + (g * 5) % 7);
      offsets.push_back(static_cast<std::int32_t>(at));
    }
    offsets.push_back(offsets.back());
    for (const std::int32_t row : rows) {
      for (std::int64_t j = 0; j < d; ++j)
        largest = std::max(largest, std::abs(value(row, j) * factor[static_cast<std::size_t>(row)]));
    }
  }

  std::int64_t groups() const { return static_cast<std::int64_t>(offsets.size()) - 1; }
  double value(std::int64_t row, std::int64_t j) const { return Memory::get(x, row * d + j); }
  double norm(std::int64_t row) const {
    double square = 0;
    for (std::int64_t j = 0; j < d; ++j) square += value(row, j) * value(row, j);
    return std::sqrt(square);
  }

  std::int64_t n, d;
  Memory memory;
  Tensor x, y;
  Doubles factor, weight, mean;
  Ids rows, offsets;
  double largest = 0;
};

}  // namespace

TEST_CASE("sums over groups of rows are those of plain loops, with factors and weights and without", "[threads]") {
  for (const Size& size : sizes()) {
    const Rows data(size, 1);
    const std::int64_t d = size.d, groups = data.groups();
    for (const bool scaled : {false, true}) {
      INFO("n " << size.n << ", d " << d << ", scaled " << scaled);
      const View factor = scaled ? view_of(data.factor) : View(), weight = scaled ? view_of(data.weight) : View();
      const Doubles out = result_of(groups * (2 * d + kRowScalars), [&](Stream& s, double* to) {
        row_statistics(s, Tensor(to, DType::kF64, {groups, d}), Tensor(to + groups * d, DType::kF64, {groups, d}),
                       Tensor(to + 2 * groups * d, DType::kF64, {groups, kRowScalars}), data.x, view_of(data.rows),
                       view_of(data.offsets), factor, weight);
      });
      Worst worst;
      for (std::int64_t g = 0; g < groups; ++g) {
        Doubles sum(static_cast<std::size_t>(d)), unit(sum);
        double scalars[kRowScalars] = {};
        for (std::int32_t at = data.offsets[static_cast<std::size_t>(g)];
             at < data.offsets[static_cast<std::size_t>(g) + 1]; ++at) {
          const auto row = static_cast<std::size_t>(data.rows[static_cast<std::size_t>(at)]);
          const double f = scaled ? data.factor[row] : 1, w = scaled ? data.weight[row] : 1,
                       norm = data.norm(static_cast<std::int64_t>(row));
          for (std::int64_t j = 0; j < d; ++j) {
            const double x = data.value(static_cast<std::int64_t>(row), j);
            sum[static_cast<std::size_t>(j)] += w * f * x;
            unit[static_cast<std::size_t>(j)] += norm > 0 ? w * x / norm : 0;
          }
          scalars[kSumNorm] += w * f * norm;
          scalars[kSumSquares] += w * f * f * norm * norm;
          scalars[norm > 0 ? kUnitRows : kZeroRows] += 1;
        }
        for (std::int64_t j = 0; j < d; ++j) {
          const auto at = static_cast<std::size_t>(j);
          worst.see(out[static_cast<std::size_t>(g * d + j)], sum[at], 10);
          worst.see(out[static_cast<std::size_t>((groups + g) * d + j)], unit[at], 10);
        }
        for (std::int64_t k = 0; k < kRowScalars; ++k) {
          const double got = out[static_cast<std::size_t>(2 * groups * d + g * kRowScalars + k)];
          worst.see(got, scalars[k], 1 + std::abs(scalars[k]));
          if (k >= kZeroRows) CHECK(got == scalars[k]);  // counts are exact
        }
      }
      CHECK(worst.value() <= 1e-13);
    }
  }
}

TEST_CASE("squared lengths along several bases side by side are those of plain loops, also at 1e-15 and of no columns",
          "[threads]") {
  for (const Size& size : sizes()) {
    for (const double scale : {1.0, 1e-15}) {
      const Rows data(size, scale);
      const std::int64_t d = size.d, n = static_cast<std::int64_t>(data.rows.size());
      // Of 1, 0, d and 0 columns.
      Memory plain;
      const Tensor bases = plain.normal("bases", {d, d + 1});
      const Ids ends = {1, 1, static_cast<std::int32_t>(d + 1), static_cast<std::int32_t>(d + 1)};
      for (const bool centred : {false, true}) {
        for (const bool along : {false, true}) {
          INFO("n " << size.n << ", d " << d << ", scale " << scale << ", centred " << centred << ", bases " << along);
          const std::int64_t count = along ? 4 : 1;
          const Doubles out = result_of(count * n, [&](Stream& s, double* to) {
            row_squares(s, Tensor(to, DType::kF64, {count, n}), data.x, view_of(data.rows),
                        centred ? view_of(data.mean) : View(), along ? View(bases) : View(),
                        along ? view_of(ends) : View(), data.largest, centred ? view_of(data.factor) : View());
          });
          Worst worst;
          for (std::int64_t i = 0; i < n; ++i) {
            const auto row = static_cast<std::size_t>(data.rows[static_cast<std::size_t>(i)]);
            Doubles shifted;
            double whole = 0;
            for (std::int64_t j = 0; j < d; ++j) {
              const double x = data.value(static_cast<std::int64_t>(row), j);
              shifted.push_back(centred ? data.factor[row] * x - data.mean[static_cast<std::size_t>(j)] : x);
              whole += shifted.back() * shifted.back();
            }
            for (std::int64_t b = 0; b < count; ++b) {
              double square = along ? 0 : whole;
              const std::int64_t from = !along || b == 0 ? 0 : ends[static_cast<std::size_t>(b) - 1];
              for (std::int64_t k = from; along && k < ends[static_cast<std::size_t>(b)]; ++k) {
                double product = 0;
                for (std::int64_t j = 0; j < d; ++j)
                  product += Memory::get(bases, j * (d + 1) + k) * shifted[static_cast<std::size_t>(j)];
                square += product * product;
              }
              const double got = out[static_cast<std::size_t>(b * n + i)];
              if (square == 0) CHECK(got == 0);
              worst.see(got, square, (square > 0 ? static_cast<double>(along ? d : 1) : 1) * whole);
            }
          }
          CHECK(worst.value() <= (size.dtype == DType::kF64 ? 1e-13 : 1e-5));
        }
      }
    }
  }
}

TEST_CASE("sums over pairs of a type and a sequence are those of plain loops", "[threads]") {
  for (const Size& size : sizes()) {
    const Rows data(size, 1);
    const std::int64_t d = size.d, pairs = data.groups();
    // Types of 1, 2, 3, 1, ... pairs; one of none.
    Ids types = {0, 0};
    for (std::int32_t w = 0; types.back() < pairs; ++w)
      types.push_back(std::min(static_cast<std::int32_t>(pairs), types.back() + 1 + w % 3));
    INFO("n " << size.n << ", d " << d);
    const Doubles out = result_of(pairs * kPairScalars, [&](Stream& s, double* to) {
      pair_statistics(s, Tensor(to, DType::kF64, {pairs, kPairScalars}), data.x, view_of(data.rows),
                      view_of(data.offsets), view_of(types), view_of(data.mean));
    });
    const auto sum = [&](std::int32_t from, std::int32_t to, bool unit) {
      Doubles total(static_cast<std::size_t>(d) + 1);  // and the number of rows with a direction
      for (std::int32_t at = data.offsets[static_cast<std::size_t>(from)];
           at < data.offsets[static_cast<std::size_t>(to)]; ++at) {
        const std::int64_t row = data.rows[static_cast<std::size_t>(at)];
        const double norm = data.norm(row);
        for (std::int64_t j = 0; j < d; ++j) {
          const auto k = static_cast<std::size_t>(j);
          total[k] += !unit ? data.value(row, j) - data.mean[k] : norm > 0 ? data.value(row, j) / norm : 0;
        }
        total.back() += norm > 0;
      }
      return total;
    };
    const auto product = [&](const Doubles& a, const Doubles& b) {
      double p = 0;
      for (std::int64_t j = 0; j < d; ++j) p += a[static_cast<std::size_t>(j)] * b[static_cast<std::size_t>(j)];
      return p;
    };
    Worst worst;
    for (std::size_t w = 0; w + 1 < types.size(); ++w) {
      const Doubles y_type = sum(types[w], types[w + 1], false), u_type = sum(types[w], types[w + 1], true);
      for (std::int32_t p = types[w]; p < types[w + 1]; ++p) {
        const Doubles y = sum(p, p + 1, false), u = sum(p, p + 1, true);
        const auto at = static_cast<std::size_t>(p);
        const double want[] = {static_cast<double>(data.offsets[at + 1] - data.offsets[at]),
                               product(y_type, y),
                               product(y, y),
                               u.back(),
                               product(u_type, u),
                               product(u, u)};
        for (std::size_t k = 0; k < kPairScalars; ++k)
          worst.see(out[at * kPairScalars + k], want[k], 100 * static_cast<double>(d));
      }
    }
    CHECK(worst.value() <= 1e-13);
  }
}

TEST_CASE("cosines of rows are those of plain loops, and none where a row is zero", "[threads]") {
  for (const Size& size : sizes()) {
    const Rows data(size, 1e-12);
    const std::int64_t d = size.d, n = static_cast<std::int64_t>(data.rows.size());
    INFO("n " << size.n << ", d " << d);
    const Doubles out = result_of(n, [&](Stream& s, double* to) {
      row_cosines(s, Tensor(to, DType::kF64, {n}), data.x, data.y, view_of(data.rows));
    });
    Worst worst;
    for (std::int64_t i = 0; i < n; ++i) {
      const std::int64_t row = data.rows[static_cast<std::size_t>(i)];
      double xy = 0, xx = 0, yy = 0;
      for (std::int64_t j = 0; j < d; ++j) {
        const double x = data.value(row, j), y = Memory::get(data.y, row * d + j);
        xy += x * y, xx += x * x, yy += y * y;
      }
      worst.see(out[static_cast<std::size_t>(i)], xx > 0 && yy > 0 ? xy / std::sqrt(xx * yy) : kNoCosine, 1);
    }
    CHECK(worst.value() <= 1e-14);
  }
}

TEST_CASE("second moments are those of plain loops, with factors and weights, in single and double products",
          "[threads]") {
  for (const Size& size : sizes()) {
    for (const double scale : {1.0, 1e-15}) {
      const Rows data(size, scale);
      const std::int64_t d = size.d;
      for (const bool scaled : {false, true}) {
        Doubles want(static_cast<std::size_t>(d * d)), terms(want);  // and the sums of |terms|
        for (const std::int32_t row : data.rows) {
          const auto i = static_cast<std::size_t>(row);
          const double f = scaled ? data.factor[i] : 1, w = scaled ? data.weight[i] : 1;
          Doubles shifted;
          for (std::int64_t j = 0; j < d; ++j)
            shifted.push_back(f * data.value(row, j) - data.mean[static_cast<std::size_t>(j)]);
          for (std::size_t j = 0; j < shifted.size(); ++j) {
            for (std::size_t k = 0; k < shifted.size(); ++k) {
              want[j * shifted.size() + k] += w * shifted[j] * shifted[k];
              terms[j * shifted.size() + k] += w * std::abs(shifted[j] * shifted[k]);
            }
          }
        }
        for (const DType products : {DType::kF64, DType::kF32}) {
          INFO("n " << size.n << ", d " << d << ", scale " << scale << ", scaled " << scaled);
          // Without factors the largest element is bounded by twice what it is with them.
          const Doubles out = result_of(d * d, [&](Stream& s, double* to) {
            second_moments(s, Tensor(to, DType::kF64, {d, d}), data.x, view_of(data.rows), view_of(data.mean),
                           2 * data.largest, scaled ? view_of(data.factor) : View(),
                           scaled ? view_of(data.weight) : View(), products);
          });
          Worst worst;
          for (std::size_t at = 0; at < out.size(); ++at) worst.see(out[at], want[at], terms[at]);
          CHECK(worst.value() <= (products == DType::kF64 ? 1e-13 : 1e-5));
        }
      }
    }
  }
}
