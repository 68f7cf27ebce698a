#include <cmath>

#include "kernels/linalg.h"
#include "kernels/philox.h"
#include "probes/geometry.h"
#include "tests/catch.h"

using namespace nascent;

namespace {

DenseMatrix random_matrix(std::int64_t rows, std::int64_t cols, const char* name) {
  DenseMatrix a(rows, cols);
  const Random random(11, "test", name);
  for (std::size_t i = 0; i < a.data.size(); ++i) a.data[i] = random.normal(i);
  return a;
}

DenseMatrix transposed(const DenseMatrix& a) {
  DenseMatrix t(a.cols, a.rows);
  for (std::int64_t i = 0; i < a.rows; ++i) {
    for (std::int64_t j = 0; j < a.cols; ++j) t(j, i) = a(i, j);
  }
  return t;
}

// Q diag(values) Q^T for a random rotation Q.
DenseMatrix with_eigenvalues(const std::vector<double>& values, const DenseMatrix& rotation) {
  DenseMatrix scaled = rotation;
  for (std::int64_t i = 0; i < scaled.rows; ++i) {
    for (std::int64_t j = 0; j < scaled.cols; ++j) scaled(i, j) *= values[static_cast<std::size_t>(j)];
  }
  return multiply(scaled, transposed(rotation));
}

double sine_of_largest_angle(const DenseMatrix& a, const DenseMatrix& b) {
  return std::sin(principal_angles(a, b).back() / 180 * 3.14159265358979323846);
}

}  // namespace

TEST_CASE("eigenpairs of a planted spectrum are found, largest first") {
  const std::int64_t d = 33;
  const DenseMatrix rotation = orthonormalize(random_matrix(d, d, "rotation"));
  std::vector<double> planted;
  for (std::int64_t i = 0; i < d; ++i) planted.push_back(1.0 / static_cast<double>((i + 1) * (i + 1)));
  const Eigenpairs pairs = symmetric_eigen(with_eigenvalues(planted, rotation));
  for (std::size_t i = 0; i < planted.size(); ++i) CHECK(std::abs(pairs.values[i] - planted[i]) <= 1e-12);
  CHECK(sine_of_largest_angle(columns(pairs.vectors, 0, 4), columns(rotation, 0, 4)) <= 1e-8);
}

TEST_CASE("warm-started top eigenvectors agree with the full solve, whatever the spectrum and the start") {
  const std::int64_t d = 129, r = 7, carried = 3 * r;
  const DenseMatrix rotation = orthonormalize(random_matrix(d, d, "rotation"));
  const DenseMatrix drift = random_matrix(d, d, "drift");
  struct Case {
    const char* name;
    double (*value)(double i);
    double drift;
  };
  const Case cases[] = {{"power law", [](double i) { return std::pow(i, -2.0); }, 0.01},
                        {"nearly flat", [](double i) { return 1 - 0.004 * i; }, 0.001},
                        {"nearly flat, hardly moved", [](double i) { return 1 - 0.002 * i; }, 0.0002},
                        {"slow decay", [](double i) { return std::pow(i, -0.3); }, 0.3},
                        {"rank 10", [](double i) { return i <= 10 ? 1 / i : 0.0; }, 0.02},
                        {"a far start", [](double i) { return std::exp(-i / 9); }, 30}};
  for (const Case& c : cases) {
    INFO(c.name);
    std::vector<double> planted;
    for (std::int64_t i = 1; i <= d; ++i) planted.push_back(c.value(static_cast<double>(i)));
    DenseMatrix turned = rotation;
    for (std::size_t i = 0; i < turned.data.size(); ++i)
      turned.data[i] += c.drift * drift.data[i] / std::sqrt(static_cast<double>(d));
    const DenseMatrix before = with_eigenvalues(planted, orthonormalize(turned)),
                      now = with_eigenvalues(planted, rotation);
    const Eigenpairs start = top_eigen(before, carried, r, {}, 1e-4),
                     found = top_eigen(now, carried, r, start.vectors, 1e-4);
    CHECK(sine_of_largest_angle(columns(found.vectors, 0, r), columns(rotation, 0, r)) <= 1e-4);
    for (std::int64_t i = 0; i < r; ++i) {
      CHECK(std::abs(found.values[static_cast<std::size_t>(i)] - planted[static_cast<std::size_t>(i)]) <=
            1e-7 * planted[0]);
    }
  }
}

TEST_CASE("a matrix that hardly moved needs no full solve") {
  const std::int64_t d = 65, r = 4;
  const DenseMatrix rotation = orthonormalize(random_matrix(d, d, "rotation"));
  std::vector<double> planted;
  for (std::int64_t i = 1; i <= d; ++i) planted.push_back(std::pow(static_cast<double>(i), -0.5));
  const DenseMatrix a = with_eigenvalues(planted, rotation);
  bool solved = false;
  const Eigenpairs first = top_eigen(a, 3 * r, r, {}, 1e-4, &solved);
  CHECK(solved);
  DenseMatrix moved = a;
  for (std::int64_t i = 0; i < d; ++i) moved(i, i) += 0.01 * std::sin(static_cast<double>(i));
  top_eigen(moved, 3 * r, r, first.vectors, 1e-4, &solved);
  CHECK(!solved);
}
