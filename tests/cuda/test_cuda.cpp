// What CUDA's twins have to hold beyond the suite of ops: the CPU's results, refusals, memory.
#include <cmath>
#include <functional>
#include <vector>

#include "kernels/adamw.h"
#include "kernels/embedding.h"
#include "kernels/norm.h"
#include "kernels/reduce.h"
#include "kernels/second_moments.h"
#include "kernels/slab.h"
#include "tests/catch.h"
#include "tests/memory.h"

using namespace nascent;
using namespace nascent::test;

namespace {

// What `run` leaves in the tensors it returns, on a device.
std::vector<std::vector<double>> results(Device device, DType dtype,
                                         const std::function<std::vector<Tensor>(Stream&, Memory&)>& run) {
  Stream s(device);
  Memory m(dtype, device);
  const std::vector<Tensor> tensors = run(s, m);
  s.wait();
  std::vector<std::vector<double>> all;
  for (const Tensor& t : tensors) all.push_back(values(t));
  return all;
}

void check_like_cpu(double tolerance, DType dtype, const std::function<std::vector<Tensor>(Stream&, Memory&)>& run) {
  const auto cpu = results(Device::kCpu, dtype, run), cuda = results(Device::kCuda, dtype, run);
  REQUIRE(cpu.size() == cuda.size());
  for (std::size_t i = 0; i < cpu.size(); ++i) {
    INFO("result " << i << ", " << name_of(dtype));
    CHECK(gradient_error(cuda[i], cpu[i], 0) <= tolerance);
  }
}

constexpr DType kBoth[] = {DType::kF32, DType::kF64};
double tolerance_of(DType dtype) { return dtype == DType::kF32 ? 2e-5 : 1e-12; }

}  // namespace

TEST_CASE("AdamW on CUDA makes the CPU's updates") {
  for (const DType dtype : kBoth) {
    for (const std::int64_t n : {1, 33, 1000}) {
      check_like_cpu(tolerance_of(dtype), dtype, [&](Stream& s, Memory& m) {
        const Tensor w = m.normal("w", {n}), first = m.normal("m", {n}, 0.1), second = m.zeros({n});
        for (const std::int64_t t : {1, 2, 7})
          adamw_update(s, w, first, second, m.normal("g", {n}), AdamW{0.1, 0.9, 0.95, 1e-8, 0.01, 0.5, t});
        return std::vector{w, first, second};
      });
    }
    // What has no gradient and eps = 0 stays.
    check_like_cpu(0, dtype, [&](Stream& s, Memory& m) {
      const Tensor w = m.normal("w", {3}), first = m.zeros({3}), second = m.zeros({3});
      adamw_update(s, w, first, second, m.zeros({3}), AdamW{0.1, 0.9, 0.95, 0, 0, 1, 1});
      return std::vector{w};
    });
  }
}

TEST_CASE("column sums on CUDA are added to what is there, as on the CPU") {
  for (const DType dtype : kBoth) {
    for (const auto& [n, c] : std::vector<std::pair<std::int64_t, std::int64_t>>{{1, 1}, {33, 3}, {1000, 259}}) {
      check_like_cpu(tolerance_of(dtype), dtype, [n = n, c = c](Stream& s, Memory& m) {
        const Tensor out = m.normal("out", {c});
        column_sum(s, out, m.normal("x", {n, c}));
        return std::vector{out};
      });
    }
  }
}

TEST_CASE("second moments on CUDA are the CPU's: centred, scaled, weighted, of chosen rows") {
  for (const DType dtype : kBoth) {
    for (const DType products : kBoth) {
      for (const bool scaled : {false, true}) {
        for (const auto& [n, d] : std::vector<std::pair<std::int64_t, std::int64_t>>{{1, 1}, {35, 7}, {700, 130}}) {
          const bool single = dtype == DType::kF32 || products == DType::kF32;
          check_like_cpu(single ? 2e-5 : 1e-12, dtype, [=, n = n, d = d](Stream& s, Memory& m) {
            const double size = 1e-20;  // float squares of it are 0
            const Tensor x = m.normal("x", {n, d}, size, 3 * size), scatter = m.zeros({d, d}, DType::kF64);
            const Tensor rows =
                m.filled({(n + 1) / 2}, DType::kI32, [](std::uint64_t i) { return static_cast<double>(2 * i); });
            const Tensor mean = m.filled({d}, DType::kF64, [&](std::uint64_t) { return 3 * size; });
            const auto positive = [](std::uint64_t i) { return 0.5 + static_cast<double>(i % 5); };
            const Tensor factor = scaled ? m.filled({n}, DType::kF64, positive) : Tensor();
            const Tensor weight = scaled ? m.filled({n}, DType::kF64, positive) : Tensor();
            second_moments(s, scatter, x, rows, mean, 50 * size, factor, weight, products);
            return std::vector{scatter};
          });
        }
      }
    }
  }
}

TEST_CASE("second moments on CUDA are symmetric to the bit, and 0 for no rows") {
  Stream s(Device::kCuda);
  Memory m(DType::kF32, Device::kCuda);
  const std::int64_t d = 33;
  const Tensor x = m.normal("x", {100, d}), mean = m.zeros({d}, DType::kF64);
  const Tensor out = m.zeros({d, d}, DType::kF64);
  const Tensor rows = m.filled({100}, DType::kI32, [](std::uint64_t i) { return static_cast<double>(i); });
  second_moments(s, out, x, rows, mean, 5, {}, {}, DType::kF32);
  s.wait();
  const std::vector<double> c = values(out);
  for (std::size_t i = 0; i < 33; ++i) {
    for (std::size_t j = 0; j < 33; ++j) CHECK(c[i * 33 + j] == c[j * 33 + i]);
  }
  second_moments(s, out, x, m.zeros({0}, DType::kI32), mean, 5, {}, {}, DType::kF32);
  s.wait();
  CHECK(values(out) == std::vector<double>(33 * 33, 0.0));
}

TEST_CASE("an op refuses memory of another device than its stream's, and says where it has no twin") {
  Stream s(Device::kCuda);
  Memory here(DType::kF32, Device::kCuda), there(DType::kF32);
  CHECK_THROWS_WITH(column_sum(s, here.zeros({3}), there.zeros({2, 3})), "column_sum: x is on cpu, the stream on cuda");
  CHECK_THROWS_WITH(embedding_forward(s, here.zeros({2, 3}), here.zeros({2}, DType::kI32), here.zeros({5, 3})),
                    "embedding_forward: this build has no cuda version of it");
  CHECK_THROWS_WITH(column_sum(s, here.zeros({3}), here.zeros({2, 4})), "column_sum: out has shape (3), expected (4)");
  CHECK_THROWS_WITH(s.check_finite(true), "--check-nan: not built for device cuda");
}

TEST_CASE("a slab on CUDA is zero, and its tensors and scratch lie on the device") {
  Slab slab("test", Device::kCuda);
  Tensor a, b;
  slab.place(a, "a", DType::kF32, {3, 5});
  slab.place(b, "b", DType::kF64, {7});
  slab.allocate();
  CHECK(a.device() == Device::kCuda);
  CHECK(values(a) == std::vector<double>(15, 0.0));
  CHECK_NOTHROW(slab.check_guards());
  Stream s(Device::kCuda);
  const auto scratch = s.scratch(DType::kF64, {7});
  Memory host(DType::kF64);
  const Tensor x = host.normal("x", {7}), back = host.zeros({7});
  copy(s, scratch, x);
  copy(s, b, scratch);
  copy(s, back, b);
  CHECK(values(back) == values(x));
  CHECK_THROWS_WITH(copy(s, a, x), "copy: to f32 (3, 5), from f64 (7)");
}

TEST_CASE("memory that the device has not is refused in words") {
  Slab slab("test", Device::kCuda);
  Tensor a;
  slab.place(a, "a", DType::kF32, {std::int64_t{1} << 50});
  CHECK_THROWS_WITH(slab.allocate(), Catch::Matchers::StartsWith("slab test: no memory for 45035996273") &&
                                         Catch::Matchers::EndsWith(" bytes on cuda"));
}
