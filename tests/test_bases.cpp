// Bases: what they are fitted to, when they are born and frozen, and that their state goes on to the bit.
#include <algorithm>
#include <fmt/format.h>

#include "probes/bases.h"
#include "tests/catch.h"
#include "tests/errors.h"
#include "tests/panels.h"

using namespace nascent;
using namespace nascent::test;

namespace {

constexpr std::int64_t kWidth = 11, kRank = 3;

DenseMatrix random_rotation(std::uint64_t seed, std::int64_t d) {
  DenseMatrix a(d, d);
  const Random numbers(seed, "test", "rotation");
  for (std::size_t i = 0; i < a.data.size(); ++i) a.data[i] = numbers.normal(i);
  return orthonormalize(a);
}

// A step's activations: directions of their own, one mean for all, a size, five sequences.
struct Steps {
  static constexpr std::int64_t n = 60;

  explicit Steps(DType dtype = DType::kF64) : memory(dtype) {
    for (std::int64_t i = 0; i < n; ++i) sequence.push_back(static_cast<std::int32_t>(i % 5));
  }
  Tensor step(std::uint64_t number, double size) {
    const Tensor x = memory.zeros({n, kWidth});
    const DenseMatrix turn = random_rotation(number, kWidth);
    const Random numbers(number, "test", "step");
    for (std::int64_t i = 0; i < n; ++i) {
      for (std::int64_t j = 0; j < kWidth; ++j) {
        double sum = 7 * static_cast<double>(number);
        for (std::int64_t k = 0; k < kWidth; ++k)
          sum += turn(j, k) * numbers.normal(static_cast<std::uint64_t>(i * kWidth + k)) / (1 + static_cast<double>(k));
        Memory::set(x, i * kWidth + j, size * sum);
      }
    }
    return x;
  }

  Memory memory;
  std::vector<std::int32_t> sequence;
};

// The covariance of the rows that `takes`, over its trace or as it is, about their own mean.
template <class F>
DenseMatrix covariance(const std::vector<Tensor>& steps, F&& takes, bool over_trace) {
  DenseMatrix c(kWidth, kWidth), mean(1, kWidth);
  double count = 0;
  for (const bool second : {false, true}) {
    for (const Tensor& x : steps) {
      for (std::int64_t i = 0; i < x.rows(); ++i) {
        if (!takes(i)) continue;
        const auto value = [&](std::int64_t j) { return Memory::get(x, i * kWidth + j); };
        if (!second) count += 1;
        for (std::int64_t j = 0; j < kWidth; ++j) {
          if (!second) mean(0, j) += value(j);
          for (std::int64_t k = 0; second && k < kWidth; ++k)
            c(j, k) += (value(j) - mean(0, j) / count) * (value(k) - mean(0, k) / count);
        }
      }
    }
  }
  const double unit = over_trace ? trace(c) : 1;
  for (double& value : c.data) value /= unit;
  return c;
}

double largest_angle(const DenseMatrix& basis, const DenseMatrix& c, std::int64_t r = kRank) {
  REQUIRE(basis.cols == r);
  return principal_angles(basis, columns(symmetric_eigen(c).vectors, 0, r)).back();
}

FitRequest pooling(bool close = false) {
  FitRequest request;
  request.full = true;
  request.pool = !close;
  request.close = close;
  return request;
}

// Bases of another choice than a OneTap's own.
void choose(OneTap& one, const BasisChoice& choice, std::int64_t width = kWidth) {
  one.panel.choice.basis = choice;
  one.panel.taps[0] = std::make_unique<TapStatistics>(tap_of(width), DType::kF64, 0, choice);
}

const Basis& basis_of(OneTap& one, const std::string& name) {
  const Basis* basis = one.tap().bases().find(name);
  REQUIRE(basis);
  return *basis;
}

}  // namespace

TEST_CASE("early is the top of the mean of each step's C over its trace, or of all positions, and of halves alike") {
  for (const bool raw : {false, true}) {
    Steps steps;
    const std::vector<Tensor> x = {steps.step(1, 1), steps.step(2, 20), steps.step(3, 0.1)};
    const auto pooled = [&](std::size_t count, auto&& takes) {
      if (raw) return covariance({x.begin(), x.begin() + static_cast<std::ptrdiff_t>(count)}, takes, false);
      DenseMatrix sum(kWidth, kWidth);
      for (std::size_t s = 0; s < count; ++s) {
        const DenseMatrix c = covariance({x[s]}, takes, true);
        for (std::size_t i = 0; i < c.data.size(); ++i) sum.data[i] += c.data[i];
      }
      return sum;
    };
    const auto all = [](std::int64_t) { return true; };
    OneTap one(kWidth, kRank);
    choose(one, {kRank, 0, raw});
    for (std::size_t s = 0; s < 3; ++s) {
      one.step(x[s], {}, steps.sequence, pooling());
      CHECK(!one.tap().bases().find("early"));
      CHECK(largest_angle(basis_of(one, "early_so_far").directions, pooled(s + 1, all)) <= 0.006);  // 1e-4
      // A step that is no part of the window changes nothing of it.
      one.step(steps.step(50 + s, 100), {}, steps.sequence);
      CHECK(largest_angle(basis_of(one, "early_so_far").directions, pooled(s + 1, all)) <= 0.006);
    }
    one.step(steps.step(9, 5), {}, steps.sequence, pooling(true));
    CHECK(!one.tap().bases().find("early_so_far"));
    const Basis early = basis_of(one, "early");
    CHECK(largest_angle(early.directions, pooled(3, all)) <= 1e-6);
    CHECK(early.next.cols == kRank);
    for (std::int64_t half = 0; half < 2; ++half) {
      const auto takes = [=](std::int64_t i) { return i % 5 % 2 == half; };
      CHECK(largest_angle(early.halves[half], pooled(3, takes)) <= 1e-6);
      CHECK(largest_angle(early.halves[half], pooled(3, all)) > 1);
    }
    // Frozen for ever, whatever comes.
    for (std::uint64_t s = 20; s < 23; ++s) {
      one.step(steps.step(s, 3), {}, steps.sequence, pooling(true));
      CHECK(basis_of(one, "early").directions.data == early.directions.data);
      CHECK(!one.tap().bases().find("early_so_far"));
    }
  }
}

TEST_CASE("a window that closes without a step that was pooled gives no early basis") {
  Steps steps;
  OneTap one(kWidth, kRank);
  one.step(steps.step(1, 1), {}, steps.sequence, pooling(true));
  CHECK(!one.tap().bases().find("early"));
  // Nor does a step without spread count for one.
  one.step(steps.memory.zeros({Steps::n, kWidth}), {}, steps.sequence, pooling());
  CHECK(!one.tap().bases().has_pool());
  one.step(steps.step(2, 1), {}, steps.sequence, pooling(true));
  CHECK(!one.tap().bases().find("early"));
}

TEST_CASE("bases go on from a saved state to the bit, inside the window and behind it") {
  for (const DType dtype : {DType::kF64, DType::kF32}) {
    for (const bool raw : {false, true}) {
      for (const double explained : {0.0, 0.8}) {
        for (const int saved_after : {0, 1, 3, 5}) {
          INFO("raw " << raw << ", explained " << explained << ", saved after step " << saved_after);
          Steps steps(dtype);
          OneTap whole(kWidth, kRank), first(kWidth, kRank), second(kWidth, kRank);
          for (OneTap* one : {&whole, &first, &second}) {
            choose(*one, {kRank, explained, raw});
            one->tap().bases().import("given", axes(kWidth, 2));
          }
          ProbeState state;
          for (int s = 0; s < 8; ++s) {
            const auto number = static_cast<std::uint64_t>(s < 4 ? 1 : s);  // the same spectrum, then others
            const Tensor h = steps.step(number, 1 + s), g = steps.memory.normal(fmt::format("g{}", s), h.shape());
            FitRequest request;  // steps 0, 2, 4 are detailed, the window closes with 5
            request.full = s % 2 == 0;
            request.pool = request.full && s < 5;
            request.close = s >= 5;
            whole.step(h, g, steps.sequence, request);
            OneTap& other = s <= saved_after ? first : second;
            other.step(h, g, steps.sequence, request);
            if (s == saved_after) {
              first.tap().save(state, "x/");
              second.tap().load(state, "x/");
            }
            REQUIRE(whole.tap().bases().all().size() == other.tap().bases().all().size());
            for (std::size_t b = 0; b < whole.tap().bases().all().size(); ++b) {
              const Basis &one = whole.tap().bases().all()[b], &two = other.tap().bases().all()[b];
              INFO("step " << s << ", basis " << one.name);
              CHECK(one.name == two.name);
              CHECK(one.directions.data == two.directions.data);
              CHECK(one.next.data == two.next.data);
              CHECK(one.halves[0].data == two.halves[0].data);
              CHECK(one.halves[1].data == two.halves[1].data);
            }
            CHECK(whole.tap().ceilings() == other.tap().ceilings());
          }
          CHECK(whole.tap().bases().find("early"));
        }
      }
    }
  }
  Steps steps;
  OneTap one(kWidth, kRank), other(kWidth, kRank);
  CHECK(failure_of([&] { one.tap().load({}, "x/"); }).exit_code == 2);
  // A basis that the state does not know of is another one to look at, and stays.
  one.step(steps.step(1, 1), {}, steps.sequence);
  ProbeState state;
  one.tap().save(state, "x/");
  other.tap().bases().import("new", axes(kWidth, 2));
  other.tap().load(state, "x/");
  CHECK(basis_of(other, "new").directions.data == axes(kWidth, 2).data);
  CHECK(basis_of(other, "init").directions.data == basis_of(one, "init").directions.data);
}

namespace {

// Rows whose scatter has these eigenvalues: two of each sign along directions of a random rotation.
Tensor with_spectrum(Memory& memory, std::int64_t d, const std::vector<double>& values) {
  const DenseMatrix turn = random_rotation(4, d);
  const auto n = static_cast<std::int64_t>(2 * values.size());
  const Tensor x = memory.zeros({n, d});
  for (std::int64_t i = 0; i < n; ++i) {
    const double size = std::sqrt(values[static_cast<std::size_t>(i / 2)] / 2) * (i % 2 == 0 ? 1 : -1);
    for (std::int64_t j = 0; j < d; ++j) Memory::set(x, i * d + j, size * turn(j, i / 2));
  }
  return x;
}

}  // namespace

TEST_CASE("explained takes the fewest directions that hold so much of the variance, at most what there is") {
  Memory memory;
  const Tensor x = with_spectrum(memory, 9, {8, 4, 2, 1, 1});  // shares 1/2, 3/4, 7/8, 15/16, 1
  const std::pair<double, std::int64_t> cases[] = {{0.3, 1},  {0.5, 1},  {0.51, 2}, {0.75, 2},
                                                   {0.76, 3}, {0.94, 5}, {1, 5}};
  for (const auto& [share, r] : cases) {
    for (const std::int64_t rank : {1, 4}) {  // of no account beside it
      INFO(share);
      OneTap one(9);
      choose(one, {rank, share, false}, 9);
      one.step(x, {});
      CHECK(basis_of(one, "current").directions.cols == r);
      CHECK(basis_of(one, "current").next.cols == std::min(r, 5 - r));
    }
  }
  // At most d - 1 of them.
  OneTap full(5);
  choose(full, {2, 1, false}, 5);
  full.step(memory.normal("full", {50, 5}), {});
  CHECK(basis_of(full, "current").directions.cols == 4);
}

TEST_CASE("a basis has no more directions than the data, and fewer positions than directions fit one") {
  for (const DType dtype : {DType::kF64, DType::kF32}) {
    Memory memory(dtype);
    for (const bool full : {false, true}) {
      FitRequest request;
      request.full = full;
      OneTap low(9, 7);
      low.step(with_spectrum(memory, 9, {8, 4, 2}), {}, {}, request);
      CHECK(basis_of(low, "current").directions.cols == 3);
      CHECK(basis_of(low, "current").next.cols == 0);
      for (const std::int64_t n : {1, 2, 5, 33}) {
        OneTap few(33, 16);
        const Tensor x = memory.normal("x", {n, 33}, 1, 10);
        few.step(x, {}, {}, request);
        const DenseMatrix& q = basis_of(few, "current").directions;
        CHECK(q.cols == std::min<std::int64_t>(16, n - 1));
        CHECK(basis_of(few, "current").next.cols == std::clamp<std::int64_t>(n - 1 - 16, 0, q.cols));
        if (n == 1) continue;
        check_basis(q, 33, "current");
        // All but the directions that were left out explain everything.
        const Value share = explained_share(few.tap().activation().all.scatter, q);
        if (n - 1 <= 16) CHECK(std::abs(*share - 1) <= (dtype == DType::kF64 ? 1e-10 : 1e-5));
      }
    }
    OneTap one(1, 4);
    one.step(memory.normal("one", {9, 1}), memory.normal("g", {9, 1}));
    CHECK(basis_of(one, "current").directions.cols == 0);  // at most d - 1
    CHECK(std::isnan(value_of(one.records("gradient_energy"), "share", "basis=current")));
    CHECK(value_of(one.records("tangent"), "rank", "basis=current") == 0);
  }
}

TEST_CASE("an imported basis of the wrong width, of too many columns or not orthonormal is refused by name") {
  const auto refused = [](const DenseMatrix& q, const std::string& words) {
    const Failure failure = failure_of([&] { check_basis(q, 5, "file: tap"); });
    CHECK(failure.exit_code == 2);
    CHECK(failure.says("file: tap"));
    CHECK(failure.says(words));
  };
  check_basis(axes(5, 1), 5, "");
  check_basis(axes(5, 4), 5, "");
  refused(axes(6, 2), "(6, 2)");
  refused(axes(4, 2), "expected (5, r) with r from 1 to 4");
  refused(axes(5, 5), "(5, 5)");
  refused(DenseMatrix(5, 0), "(5, 0)");
  DenseMatrix q = axes(5, 2);
  q(3, 1) = 0.9e-4;  // its square is far below the tolerance, and no product sees more
  check_basis(q, 5, "");
  q(0, 1) = 1.1e-4;
  refused(q, "columns 0 and 1");
  q = axes(5, 2);
  q(1, 1) = 1.0001;
  refused(q, "columns 1 and 1");
  q(1, 1) = std::nan("");
  refused(q, "columns 0 and 1");
}

TEST_CASE("imported bases stay as they are beside those that are fitted, and each reads its own share") {
  Memory memory;
  const Tensor g = memory.zeros({4, 5});
  const double energy[] = {0.4, 0.3, 0.2, 0.1};
  for (std::int64_t i = 0; i < 4; ++i) Memory::set(g, i * 5 + i, std::sqrt(energy[i]));
  OneTap one(5, 2);
  DenseMatrix last(5, 1);
  last(3, 0) = 1;
  one.tap().bases().import("last", last);
  one.tap().bases().import("first", axes(5, 2));
  one.step(memory.normal("h", {4, 5}), g);
  const Records records = one.records("gradient_energy");
  CHECK(value_of(records, "share", "basis=first") == Approx(0.7));
  CHECK(value_of(records, "share", "basis=last") == Approx(0.1));
  CHECK(value_of(records, "ceiling", "basis=last") == Approx(0.4));
  CHECK(value_of(records, "ceiling", "basis=first") == Approx(0.7));
  CHECK(basis_of(one, "last").directions.data == last.data);
  // A basis from elsewhere has no directions behind it.
  CHECK(std::isnan(value_of(records, "next_pc_share", "basis=first")));
}
