// Sums over positions and what probes compute: reductions, moments, statistics of rows, eigenvectors.
#include <cmath>
#include <fmt/format.h>
#include <limits>

#include "kernels/linalg.h"
#include "kernels/reduce.h"
#include "kernels/row_statistics.h"
#include "kernels/second_moments.h"
#include "tests/bench/cases.h"

namespace nascent::bench {
namespace {

constexpr double kLargest = 8;       // bounds every number that Operands draws
constexpr std::int64_t kRank = 16;   // of a probe's basis
constexpr std::int64_t kTypes = 64;  // kinds of tokens
constexpr double kDependsOnData = std::numeric_limits<double>::quiet_NaN();

double numbers(const View& x) { return static_cast<double>(x.size()); }
std::string shape_of(const View& x) { return fmt::format("{}x{}", x.rows(), x.cols()); }

// Over the columns of an activation into a row that is added to.
template <class Op>
Case over_columns(const Op& op) {
  return {op.name(), "", [&op](Operands& m, const Size& z) -> Prepared {
            const Tensor x = m.normal({z.n(), z.hidden()}), out = m.zeros({z.hidden()});
            return {shape_of(x),
                    {.flop = numbers(x), .read = bytes(x, out), .written = bytes(out)},
                    [=, &op](Stream& s) { op(s, out, x); }};
          }};
}

// Over all numbers of an activation into one, in double.
template <class Op>
Case over_all(const Op& op, double flop) {
  return {op.name(), "", [&op, flop](Operands& m, const Size& z) -> Prepared {
            const Tensor x = m.normal({z.n(), z.hidden()}), out = m.zeros({1}, DType::kF64);
            return {shape_of(x),
                    {.flop = flop * numbers(x), .read = bytes(x), .written = bytes(out), .fp64 = true},
                    [=, &op](Stream& s) { op(s, out, x); }};
          }};
}

Prepared difference(Operands& m, const Size& z) {
  const Tensor x = m.normal({z.n(), z.hidden()}), y = m.zeros(x.shape()), out = m.zeros({1}, DType::kF64);
  return {shape_of(x),
          {.flop = 3 * numbers(x), .read = bytes(x, y), .written = bytes(out), .fp64 = true},
          [=](Stream& s) { sum_squared_difference(s, out, x, y); }};
}

// One triangle: d (d + 1)/2 products of a multiplication and an addition for each row.
Prepared moments(Operands& m, const Size& z, DType products) {
  const Tensor x = m.normal({z.n(), z.c}), rows = m.rows(z.n()), mean = m.zeros({z.c}, DType::kF64);
  const Tensor scatter = m.zeros({z.c, z.c}, DType::kF64);
  return {shape_of(x),
          {.flop = numbers(x) * static_cast<double>(z.c + 1),
           .read = bytes(x, rows, mean),
           .written = bytes(scatter),
           .fp64 = products == DType::kF64},
          [=](Stream& s) { second_moments(s, scatter, x, rows, mean, kLargest, {}, {}, products); }};
}

// A group for each sequence. Each number: square, sum; sum; scaled to length 1, sum.
Prepared by_sequence(Operands& m, const Size& z) {
  const Tensor x = m.normal({z.n(), z.c}), rows = m.rows(z.n());
  std::vector<std::int32_t> first;
  for (std::int64_t b = 0; b <= z.b; ++b) first.push_back(static_cast<std::int32_t>(b * z.t));
  const Tensor offsets = m.integers(first), sums = m.zeros({z.b, z.c}, DType::kF64);
  const Tensor unit_sums = m.zeros(sums.shape(), DType::kF64), scalars = m.zeros({z.b, kRowScalars}, DType::kF64);
  return {shape_of(x),
          {.flop = 5 * numbers(x),
           .read = bytes(x, rows, offsets),
           .written = bytes(sums, unit_sums, scalars),
           .fp64 = true},
          [=](Stream& s) { row_statistics(s, sums, unit_sums, scalars, x, rows, offsets, {}, {}); }};
}

// Two bases. Each number: centre; a multiplication and an addition for each of the 2 x 16 columns.
Prepared squares_in_bases(Operands& m, const Size& z) {
  const Tensor x = m.normal({z.n(), z.c}), rows = m.rows(z.n()), mean = m.zeros({z.c}, DType::kF64);
  const Tensor bases = m.normal({z.c, 2 * kRank}, DType::kF64), ends = m.integers({kRank, 2 * kRank});
  const Tensor out = m.zeros({2, z.n()}, DType::kF64);
  return {fmt::format("{}, 2 bases of {}", shape_of(x), kRank),
          {.flop = (1 + 2 * 2 * kRank) * numbers(x), .read = bytes(x, rows, mean, bases, ends), .written = bytes(out)},
          [=](Stream& s) { row_squares(s, out, x, rows, mean, bases, ends, kLargest, {}); }};
}

// Position i holds type i mod 64, so every type stands in every sequence. Each number: square, sum; centre, sum; unit, sum.
Prepared by_type_and_sequence(Operands& m, const Size& z) {
  std::vector<std::int32_t> order, offset = {0}, type = {0};
  for (std::int64_t w = 0; w < kTypes; ++w) {
    for (std::int64_t b = 0; b < z.b; ++b) {
      for (std::int64_t t = w; t < z.t; t += kTypes) order.push_back(static_cast<std::int32_t>(b * z.t + t));
      offset.push_back(static_cast<std::int32_t>(order.size()));
    }
    type.push_back(static_cast<std::int32_t>(offset.size() - 1));
  }
  const Tensor x = m.normal({z.n(), z.c}), rows = m.integers(order), offsets = m.integers(offset);
  const Tensor types = m.integers(type), mean = m.zeros({z.c}, DType::kF64);
  const Tensor out = m.zeros({kTypes * z.b, kPairScalars}, DType::kF64);
  return {fmt::format("{}, {} pairs", shape_of(x), kTypes * z.b),
          {.flop = 6 * numbers(x), .read = bytes(x, rows, offsets, types, mean), .written = bytes(out), .fp64 = true},
          [=](Stream& s) { pair_statistics(s, out, x, rows, offsets, types, mean); }};
}

// Each number of x and y: two squares and a product, summed.
Prepared cosines(Operands& m, const Size& z) {
  const Tensor x = m.normal({z.n(), z.c}), y = m.normal(x.shape()), rows = m.rows(z.n());
  const Tensor out = m.zeros({z.n()}, DType::kF64);
  return {shape_of(x),
          {.flop = 6 * numbers(x), .read = bytes(x, y, rows), .written = bytes(out), .fp64 = true},
          [=](Stream& s) { row_cosines(s, out, x, y, rows); }};
}

// The second moments of 2 d rows, with a spectrum that falls by the root of 1, 2, 3, ...
DenseMatrix covariance(std::int64_t d) {
  Operands m(Device::kCpu);
  const Tensor x = m.normal({2 * d, d}, DType::kF64);
  DenseMatrix rows(2 * d, d, std::vector<double>(x.data<double>(), x.data<double>() + x.size()));
  for (std::int64_t i = 0; i < rows.rows; ++i) {
    for (std::int64_t j = 0; j < d; ++j) rows(i, j) /= std::sqrt(static_cast<double>(j + 1));
  }
  return multiply_transposed(rows, rows);
}

double square_bytes(std::int64_t d) { return 8.0 * static_cast<double>(d * d); }
double cube(std::int64_t d) { return static_cast<double>(d) * static_cast<double>(d * d); }

// 9 d^3 with vectors, 4/3 d^3 without (Golub & Van Loan 2013, section 8.3).
Prepared all_eigenpairs(Operands&, const Size& z) {
  const DenseMatrix a = covariance(z.c);
  return {fmt::format("{0}x{0}", z.c),
          {.flop = 9 * cube(z.c), .read = square_bytes(z.c), .written = square_bytes(z.c), .fp64 = true},
          [=](Stream&) { symmetric_eigen(a); }};
}

Prepared all_eigenvalues(Operands&, const Size& z) {
  const DenseMatrix a = covariance(z.c);
  return {fmt::format("{0}x{0}", z.c),
          {.flop = 4 * cube(z.c) / 3, .read = square_bytes(z.c), .written = 0, .fp64 = true},
          [=](Stream&) { symmetric_eigenvalues(a); }};
}

// From the eigenvectors of a matrix that differs by a hundredth, as the step before had it.
Prepared top_eigenpairs(Operands&, const Size& z) {
  const DenseMatrix a = covariance(z.c);
  DenseMatrix before = a;
  for (std::int64_t i = 0; i < z.c; ++i) before(i, i) *= 1 + 0.01 * static_cast<double>(i % 2);
  const DenseMatrix start = columns(symmetric_eigen(before).vectors, 0, 3 * kRank);
  return {fmt::format("{} of {}x{}", kRank, z.c, z.c),
          {.flop = kDependsOnData, .read = square_bytes(z.c), .written = 0, .fp64 = true},
          [=](Stream&) { top_eigen(a, 3 * kRank, kRank, start, 1e-4); }};
}

}  // namespace

std::vector<Case> reduction_cases() {
  return {over_columns(column_sum),
          over_columns(column_max),
          over_all(sum_squares, 2),
          over_all(sum, 1),
          {"sum_squared_difference", "", difference},
          over_all(max_abs, 1),
          {"second_moments", "f32 products", [](Operands& m, const Size& z) { return moments(m, z, DType::kF32); }},
          {"second_moments", "f64 products", [](Operands& m, const Size& z) { return moments(m, z, DType::kF64); }},
          {"row_statistics", "", by_sequence},
          {"row_squares", "", squares_in_bases},
          {"pair_statistics", "", by_type_and_sequence},
          {"row_cosines", "", cosines},
          {"symmetric_eigen", "", all_eigenpairs},
          {"symmetric_eigenvalues", "", all_eigenvalues},
          {"top_eigen", "", top_eigenpairs}};
}

}  // namespace nascent::bench
