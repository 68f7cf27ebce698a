#include <cmath>
#include <cstdint>

#include "kernels/error.h"
#include "kernels/slab.h"
#include "kernels/stream.h"
#include "tests/catch.h"
#include "tests/memory.h"

using namespace nascent;

TEST_CASE("a slab gives every tensor its planned shape, zeros, and an address that is a multiple of 64") {
  Slab slab("test");
  Tensor odd, ids, twice;
  slab.place(odd, "odd", DType::kF32, {3, 33});
  slab.place(ids, "ids", DType::kI32, {1});
  slab.place(twice, "twice", DType::kF64, {1000});
  CHECK(!odd);
  slab.allocate();
  for (const Tensor& t : {odd, ids, twice})
    CHECK(reinterpret_cast<std::uintptr_t>(t.address()) % Slab::kAlignment == 0);
  CHECK(odd.shape() == Shape{3, 33});
  CHECK(test::rms(test::values(odd)) == 0);
  CHECK(test::rms(test::values(twice)) == 0);
  CHECK(slab.bytes() >= 3 * 33 * 4 + 4 + 8000);
}

TEST_CASE("a slab refuses a name planned twice and a tensor placed too late") {
  Slab slab("test");
  Tensor a, b;
  slab.place(a, "a", DType::kF32, {2});
  CHECK_THROWS_WITH(slab.place(b, "a", DType::kF32, {2}), "slab test: a placed twice");
  slab.allocate();
  CHECK_THROWS_WITH(slab.place(b, "b", DType::kF32, {2}), "slab test: b placed after allocation");
}

#ifndef NDEBUG
TEST_CASE("debug builds name the tensor that was written past its end, and poison what is read before it is written") {
  Slab slab("test");
  Tensor a, b;
  slab.place(a, "a", DType::kF32, {16});
  slab.place(b, "b", DType::kF32, {16});
  slab.allocate(true);
  CHECK(std::isnan(a.data<float>()[0]));
  slab.check_guards();
  a.data<float>()[16] = 1;
  CHECK_THROWS_WITH(slab.check_guards(), "slab test: written past the end of a");
}
#endif

TEST_CASE("scratch is a stack: what ends is given again, what is held stays its own") {
  Stream s;
  const void* first = nullptr;
  {
    const auto a = s.scratch(DType::kF32, {100});
    const auto b = s.scratch(DType::kF64, {33});
    first = (*a).address();
    CHECK((*a).address() != (*b).address());
    CHECK(reinterpret_cast<std::uintptr_t>((*b).address()) % Slab::kAlignment == 0);
    const auto large = s.scratch(DType::kF32, {5, 1000, 1000});  // beyond the first piece of memory
    const auto after = s.scratch(DType::kF32, {7});
    after.data<float>()[6] = 1;
    large.data<float>()[4999999] = 1;
  }
  const auto again = s.scratch(DType::kF32, {100});
  CHECK((*again).address() == first);
}

TEST_CASE("views check what is asked of them") {
  test::Memory m(DType::kF32);
  const Tensor t = m.zeros({4, 3});
  CHECK(t.slice(1, 2).shape() == Shape{2, 3});
  CHECK(t.slice(1, 2).data<float>() == t.data<float>() + 3);
  CHECK(t.reshaped({2, 6}).cols() == 6);
  CHECK_THROWS_WITH(t.slice(3, 2), "View: rows 3 to 5 of shape (4, 3)");
  CHECK_THROWS_WITH(t.reshaped({5, 2}), "View: (4, 3) cannot be seen as (5, 2)");
  CHECK_THROWS_WITH(t.data<double>(), "View: elements are f32, asked for as f64");
}

TEST_CASE("a device that this build has not is refused in words") {
  CHECK_THROWS_WITH(Stream(Device::kCuda), "device cuda: there is none here (built without CUDA), expected cpu");
}

TEST_CASE("a slab refuses a shape whose size overflows") {
  Slab slab("test");
  Tensor a;
  const std::int64_t n = std::int64_t{1} << 32;
  CHECK_THROWS_WITH(slab.place(a, "a", DType::kF32, {n, n}),
                    "slab test: a of shape (4294967296, 4294967296) is beyond any memory");
  CHECK_THROWS_AS(slab.place(a, "b", DType::kF32, {n, n / 2 + 1}), Error);
}
