#define EIGEN_DONT_PARALLELIZE
#include <algorithm>
#include <cmath>

#include <Eigen/Eigenvalues>
#include <Eigen/QR>
#include <Eigen/SVD>

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
  if (solver.info() != Eigen::Success) throw machine_error("symmetric_eigen: no convergence for a {} x {} matrix", a.rows, a.cols);
  return largest_first(solver.eigenvalues(), solver.eigenvectors(), count);
}

}  // namespace

DenseMatrix multiply(const DenseMatrix& a, const DenseMatrix& b) { return copy(Eigen::MatrixXd(map(a) * map(b))); }

DenseMatrix multiply_transposed(const DenseMatrix& a, const DenseMatrix& b) {
  return copy(Eigen::MatrixXd(map(a).transpose() * map(b)));
}

DenseMatrix columns(const DenseMatrix& a, std::int64_t first, std::int64_t count) { return copy(map(a).middleCols(first, count)); }

DenseMatrix orthonormalize(const DenseMatrix& a) {
  const Eigen::HouseholderQR<Eigen::MatrixXd> qr{Eigen::MatrixXd(map(a))};
  return copy(Eigen::MatrixXd(qr.householderQ() * Eigen::MatrixXd::Identity(a.rows, a.cols)));
}

std::vector<double> singular_values(const DenseMatrix& a) {
  const Eigen::VectorXd values = Eigen::JacobiSVD<Eigen::MatrixXd>(map(a)).singularValues();
  return {values.begin(), values.end()};
}

Eigenpairs symmetric_eigen(const DenseMatrix& a) { return solve(a, a.rows); }

Eigenpairs top_eigen(const DenseMatrix& a, std::int64_t count, std::int64_t rank, const DenseMatrix& start, double tolerance,
                     bool* solved) {
  constexpr int kSweeps = 8;
  if (solved) *solved = false;
  count = std::min(count, a.rows);
  if (start.cols >= count && start.cols < a.rows) {
    // Each sweep multiplies by a, orthonormalizes, and rotates to the Ritz vectors of the new span.
    const Eigen::MatrixXd matrix = map(a);
    Eigen::MatrixXd image = matrix * map(start);
    for (int sweep = 0; sweep < kSweeps; ++sweep) {
      const Eigen::HouseholderQR<Eigen::MatrixXd> qr(image);
      const Eigen::MatrixXd span = qr.householderQ() * Eigen::MatrixXd::Identity(a.rows, start.cols);
      const Eigen::MatrixXd span_image = matrix * span;
      const Eigen::SelfAdjointEigenSolver<Eigen::MatrixXd> ritz(span.transpose() * span_image);
      const Eigen::VectorXd values = ritz.eigenvalues().reverse();
      const Eigen::MatrixXd turn = ritz.eigenvectors().rowwise().reverse();
      image = span_image * turn;
      const Eigen::MatrixXd vectors = span * turn;
      const auto residual = image.leftCols(rank) - vectors.leftCols(rank) * values.head(rank).asDiagonal();
      const double behind = rank < values.size() ? values(rank) : 0.0;
      const double gap = std::max(values(rank - 1) - behind, 1e-3 * values(0));
      if (residual.norm() <= tolerance * gap) return {{values.begin(), values.begin() + count}, copy(vectors.leftCols(count))};
    }
  }
  if (solved) *solved = true;
  return solve(a, count);
}

}  // namespace nascent
