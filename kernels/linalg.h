// Small dense linear algebra in double on the host, for the probes: eigenvectors of covariances and orthonormal bases.
// Matrices are row-major; a basis Q [d, r] has orthonormal columns.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

namespace nascent {

struct DenseMatrix {
  std::int64_t rows = 0, cols = 0;
  std::vector<double> data;

  DenseMatrix() = default;
  DenseMatrix(std::int64_t r, std::int64_t c) : rows(r), cols(c), data(static_cast<std::size_t>(r * c), 0.0) {}
  DenseMatrix(std::int64_t r, std::int64_t c, std::vector<double> values) : rows(r), cols(c), data(std::move(values)) {}
  double& operator()(std::int64_t i, std::int64_t j) { return data[static_cast<std::size_t>(i * cols + j)]; }
  double operator()(std::int64_t i, std::int64_t j) const { return data[static_cast<std::size_t>(i * cols + j)]; }
};

DenseMatrix multiply(const DenseMatrix& a, const DenseMatrix& b);                   // a b
DenseMatrix multiply_transposed(const DenseMatrix& a, const DenseMatrix& b);        // a^T b
DenseMatrix columns(const DenseMatrix& a, std::int64_t first, std::int64_t count);  // a copy of these columns

// An orthonormal basis of the columns of a [d, r], r <= d (Householder QR).
DenseMatrix orthonormalize(const DenseMatrix& a);

// Singular values of a, largest first.
std::vector<double> singular_values(const DenseMatrix& a);

struct Eigenpairs {
  std::vector<double> values;  // largest first
  DenseMatrix vectors;         // [d, as many], a column each
};

// All eigenpairs of a symmetric matrix [d, d].
Eigenpairs symmetric_eigen(const DenseMatrix& a);

// Its eigenvalues alone, largest first: a quarter of the work.
std::vector<double> symmetric_eigenvalues(const DenseMatrix& a);

// The `count` largest eigenpairs of a symmetric positive semidefinite matrix, by Chebyshev-filtered subspace iteration
// (Zhou, Saad, Tiago & Chelikowsky 2006) from `start` [d, at least count], where an earlier, similar matrix had them;
// with a full solve where that has not converged after a few filters. Converged: the residual bounds the sine of the
// angle to the true span of the first `rank` pairs by `tolerance`, as far as the gap behind them is above 1e-3 of the
// largest eigenvalue (Davis & Kahan 1970). A start of no columns means a full solve. `solved` (may be null) tells
// whether there was one.
Eigenpairs top_eigen(const DenseMatrix& a, std::int64_t count, std::int64_t rank, const DenseMatrix& start,
                     double tolerance, bool* solved = nullptr);

}  // namespace nascent
