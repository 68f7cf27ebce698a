#define EIGEN_DONT_PARALLELIZE
#include <Eigen/Eigenvalues>
#include <Eigen/QR>
#include <Eigen/SVD>
#include <algorithm>
#include <cmath>

#include "kernels/error.h"
#include "kernels/linalg.h"

namespace nascent {
namespace {

using RowMajor = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

Eigen::Map<const RowMajor> map(const DenseMatrix& a) { return {a.data.data(), a.rows, a.cols}; }

template <class M>
DenseMatrix copy(const M& m) {
  DenseMatrix a(m.rows(), m.cols());
  Eigen::Map<RowMajor>(a.data.data(), a.rows, a.cols) = m;
  return a;
}

// The last `count` columns (and values), in reverse: Eigen sorts upwards.
template <class Values, class Vectors>
Eigenpairs largest_first(const Values& values, const Vectors& vectors, std::int64_t count) {
  Eigenpairs pairs;
  for (std::int64_t i = 0; i < count; ++i) pairs.values.push_back(values(values.size() - 1 - i));
  pairs.vectors = copy(vectors.rightCols(count).rowwise().reverse());
  return pairs;
}

Eigenpairs solve(const DenseMatrix& a, std::int64_t count) {
  const Eigen::SelfAdjointEigenSolver<Eigen::MatrixXd> solver(map(a));
  if (solver.info() != Eigen::Success)
    throw machine_error("symmetric_eigen: no convergence for a {} x {} matrix", a.rows, a.cols);
  return largest_first(solver.eigenvalues(), solver.eigenvectors(), count);
}

// Orthonormal columns of the same span.
Eigen::MatrixXd orthonormal(const Eigen::MatrixXd& a) {
  const Eigen::HouseholderQR<Eigen::MatrixXd> qr(a);
  return qr.householderQ() * Eigen::MatrixXd::Identity(a.rows(), a.cols());
}

// The best eigenpairs of a matrix within a span (Rayleigh-Ritz), largest first.
struct Ritz {
  Ritz(const Eigen::MatrixXd& matrix, const Eigen::MatrixXd& span) {
    const Eigen::MatrixXd span_image = matrix * span;
    const Eigen::SelfAdjointEigenSolver<Eigen::MatrixXd> solver(span.transpose() * span_image);
    const Eigen::MatrixXd turn = solver.eigenvectors().rowwise().reverse();
    values = solver.eigenvalues().reverse();
    vectors = span * turn;
    image = span_image * turn;
  }

  bool converged(std::int64_t rank, double tolerance) const {
    const auto residual = image.leftCols(rank) - vectors.leftCols(rank) * values.head(rank).asDiagonal();
    const double behind = rank < values.size() ? values(rank) : 0.0;
    const double gap = std::max(values(rank - 1) - behind, 1e-3 * values(0));
    return residual.norm() <= tolerance * gap;
  }

  Eigen::VectorXd values;
  Eigen::MatrixXd vectors, image;  // image: matrix * vectors
};

// T(matrix) vectors, T the Chebyshev polynomial that is within 1 on [0, smallest Ritz value] and grows as fast as any
// behind it; scaled by its value at the largest, so that nothing overflows.
Eigen::MatrixXd filtered(const Eigen::MatrixXd& matrix, const Ritz& ritz) {
  constexpr int kDegree = 8;
  const double most = ritz.values(0), half = std::max(ritz.values(ritz.values.size() - 1), 1e-12 * most) / 2;
  double sigma = half / (most - half);
  const double tau = 2 / sigma;
  Eigen::MatrixXd before = ritz.vectors, now = (ritz.image - half * ritz.vectors) * (sigma / half);
  for (int degree = 2; degree <= kDegree; ++degree) {
    const double next_sigma = 1 / (tau - sigma);
    Eigen::MatrixXd next = (matrix * now - half * now) * (2 * next_sigma / half) - (sigma * next_sigma) * before;
    before.swap(now);
    now.swap(next);
    sigma = next_sigma;
  }
  return now;
}

}  // namespace

DenseMatrix multiply(const DenseMatrix& a, const DenseMatrix& b) { return copy(Eigen::MatrixXd(map(a) * map(b))); }

DenseMatrix multiply_transposed(const DenseMatrix& a, const DenseMatrix& b) {
  return copy(Eigen::MatrixXd(map(a).transpose() * map(b)));
}

DenseMatrix columns(const DenseMatrix& a, std::int64_t first, std::int64_t count) {
  return copy(map(a).middleCols(first, count));
}

DenseMatrix orthonormalize(const DenseMatrix& a) { return copy(orthonormal(map(a))); }

std::vector<double> singular_values(const DenseMatrix& a) {
  const Eigen::VectorXd values = Eigen::JacobiSVD<Eigen::MatrixXd>(map(a)).singularValues();
  return {values.begin(), values.end()};
}

Eigenpairs symmetric_eigen(const DenseMatrix& a) { return solve(a, a.rows); }

std::vector<double> symmetric_eigenvalues(const DenseMatrix& a) {
  const Eigen::SelfAdjointEigenSolver<Eigen::MatrixXd> solver(map(a), Eigen::EigenvaluesOnly);
  if (solver.info() != Eigen::Success)
    throw machine_error("symmetric_eigenvalues: no convergence for a {} x {} matrix", a.rows, a.cols);
  const Eigen::VectorXd values = solver.eigenvalues().reverse();
  return {values.begin(), values.end()};
}

Eigenpairs top_eigen(const DenseMatrix& a, std::int64_t count, std::int64_t rank, const DenseMatrix& start,
                     double tolerance, bool* solved) {
  constexpr int kFilters = 4;
  if (solved) *solved = false;
  count = std::min(count, a.rows);
  if (start.cols >= count && start.cols < a.rows) {
    const Eigen::MatrixXd matrix = map(a);
    Ritz ritz(matrix, map(start));
    for (int filter = 0; filter <= kFilters; ++filter) {
      if (ritz.converged(rank, tolerance))
        return {{ritz.values.begin(), ritz.values.begin() + count}, copy(ritz.vectors.leftCols(count))};
      if (filter < kFilters) ritz = Ritz(matrix, orthonormal(filtered(matrix, ritz)));
    }
  }
  if (solved) *solved = true;
  return solve(a, count);
}

}  // namespace nascent
