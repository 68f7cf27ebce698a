// Controls of gradient energy that are more than a formula of one matrix: subspaces drawn at random, and sums over
// neighbourhoods with bases of their own.
#pragma once

#include "kernels/philox.h"
#include "kernels/stream.h"
#include "probes/geometry.h"

namespace nascent {

// Shares of energy, tr(Q_k^T M Q_k)/tr M, of K random subspaces of the rank of Q.
struct Controls {
  Value q05, q50, q95, normal_p;  // orthogonal to Q; missing for 2r > d
  Value random_p;                 // unrestricted: exact also for isotropic gradients
};
// p = (1 + #{E(Q_k) >= E(Q)})/(K + 1). Draws are those of `random`, whatever the number of threads.
Controls drawn_controls(Stream& s, const DenseMatrix& raw, const DenseMatrix& basis, std::int64_t draws,
                        const Random& random);

// K-1 order statistics apart, linear between them.
double quantile(std::vector<double> values, double q);

// Energies summed over neighbourhoods, each with its own basis.
struct LocalEnergy {
  std::int64_t count = 0;
  double inside = 0, total = 0, next = 0, best = 0;  // best: their own top-r energies
  double bracket = 0;                                // ||B||_F^2 - (tr B)^2/m
  double b2 = 0, mean_inside = 0, mean_total = 0;
  bool all_next = true;

  // g [n, d]: the gradients of a neighbourhood's members.
  void add(const DenseMatrix& g, const DenseMatrix& basis, const DenseMatrix& next_directions);
  Energy energy(double d, double r) const;
  Value next_share() const;
  Value mean_share() const;
};

}  // namespace nascent
