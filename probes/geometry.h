// The formulas of the measures, on sums that the probes have accumulated. Undefined is nothing, never 0 or NaN.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "kernels/linalg.h"
#include "probes/jackknife.h"

namespace nascent {

constexpr double kCancelled = 1e-12;  // a sum of squares below this part of the one it is part of counts as zero
constexpr double kDifference = 1e-6;  // a difference of two sums below this part of the first counts as zero

// First and second moments of N vectors in R^d: the sufficient statistic of most measures. Micro-batches and ranks add
// up.
struct Moments {
  std::int64_t d = 0;
  std::int64_t n = 0;              // all vectors
  std::int64_t zero_rows = 0;      // of them exactly zero
  std::int64_t n_centred = 0;      // of them in mean and scatter (gradients: without zero rows)
  std::int64_t weighted_rows = 0;  // how many rows weights have made n_centred of; 0: no weights
  std::int64_t unit_rows = 0;      // of them with a direction
  double sum_norm = 0;             // sum ||x||
  double sum_squares = 0;          // sum ||x||^2
  double largest = 0;              // largest |x_ij|
  bool finite = true;              // no NaN and no infinity was among them
  double rounding = 1e-9;          // eigenvalues of scatter below this part of the largest count as zero
  std::vector<double> sum;         // sum x [d]
  std::vector<double> unit_sum;    // sum x/||x|| [d]
  std::vector<double> mean;        // of the n_centred [d]
  DenseMatrix scatter;             // sum (x - mean)(x - mean)^T over the n_centred [d, d]

  explicit Moments(std::int64_t width = 0);
  void clear();
  // Adds the statistic of other vectors (Chan, Golub & LeVeque 1979): exact, without cancellation.
  void add(const Moments& other);

  Value mean_norm() const;       // mean of ||x||
  Value norm_of_mean() const;    // ||mean of all x||
  Value average_cosine() const;  // over pairs, zero rows left out
  DenseMatrix raw() const;       // sum x x^T, not centred
};

double trace(const DenseMatrix& a);
double frobenius_squared(const DenseMatrix& a);
double inner_product(const DenseMatrix& a, const DenseMatrix& b);  // <A, B> = tr(A^T B)

// S = tr C and F = ||C||_F^2 of a covariance of N vectors in R^d, C from sums of squares that count as zero when
// cancelled away.
struct Spectrum {
  double s = 0, f = 0;
  std::int64_t n = 0, d = 0;
};
std::optional<Spectrum> spectrum_of(const Moments& m);

Value participation_ratio(const Spectrum& c);           // S^2/F
Value participation_ratio_unbiased(const Spectrum& c);  // T1/T2, Gaussian
Value isoscore(const Spectrum& c);                      // (PR - 1)/(d - 1), Rudman et al. 2022
// The same on (1 - z) C + z C0 (Rudman & Eickhoff 2024), C0 given by its trace, ||C0||^2 and <C, C0>.
Value isoscore_star(const Spectrum& c, double z, double c0_trace, double c0_squared, double c_c0);
Value isoscore_star(const Spectrum& c, double z);  // C0 = (tr C/d) I

// tr C_A tr C_B/<C_A, C_B> of two halves, each about its own mean: unbiased above and below for the expected C.
Value participation_ratio_cross(const Moments& a, const Moments& b);

// Of all eigenvalues of C, largest first, those that count as zero cut off (see non_zero).
Value effective_rank(const std::vector<double>& values);  // exp(-sum p ln p), p = sqrt(value)/sum of sqrt(values)
Value pc1_share(const std::vector<double>& values);       // the largest one's share
Value spectrum_slope(const std::vector<double>& values);  // of ln value on ln index

// How many eigenvalues of m.scatter, largest first, are not zero: above m.rounding of the largest, and at most N - 1,
// N the number of rows.
std::int64_t non_zero(const std::vector<double>& values, const Moments& m);

// The slope of y on x by least squares, three points or more; missing where x has no spread.
Value slope(const std::vector<double>& x, const std::vector<double>& y);

// How the energy of gradients G [N, d] lies to the subspace of a basis Q [d, r], from M = G^T G.
struct Energy {
  Value share;        // E = tr(Q^T M Q)/tr M
  double chance = 0;  // r/d
  Value enrichment, control_mean, ratio, log_odds;
  Value z;           // of E against the random control's mean and variance
  Value ceiling;     // share of the top r of M itself, or missing when not given
  Value of_ceiling;  // (E - r/d)/(ceiling - r/d)
};
Energy energy_in(const DenseMatrix& raw, const DenseMatrix& basis, Value ceiling);

// The keys of Energy that are functions of the share alone.
Value enrichment(double share, double d, double r);    // E d/r
Value control_mean(double share, double d, double r);  // (1 - E) r/(d - r); missing for 2r > d
Value energy_ratio(double share, double d, double r);  // E (d - r)/((1 - E) r); missing where 1 - E counts as zero
Value log_odds(double share, double d, double r);      // ln of it; missing for E = 0

// ||Q^T m||^2/||m||^2 of a mean, from sums of N vectors and their projections on Q; squares: the sum of their ||x||^2.
Value mean_share(const std::vector<double>& sum, const std::vector<double>& along, double squares, double n);
// a^T QQ^T b/(a . b) of two means, from sums over two halves and their projections on Q.
Value mean_share_cross(const std::vector<double>& a, const std::vector<double>& a_along, const std::vector<double>& b,
                       const std::vector<double>& b_along);

// The shares of the r largest eigenvalues of M in its trace, added up: what the best r directions hold, r = 1, 2, ...
std::vector<double> ceilings(const std::vector<double>& values, double total);

// tr(A B)/(||A|| ||B||) of A = C - (tr/d) I, B = M - (tr/d) I; nothing where one of them is (nearly) isotropic.
Value alignment(const DenseMatrix& covariance, const DenseMatrix& raw);

// tr(Q^T C Q)/tr C
Value explained_share(const DenseMatrix& covariance, const DenseMatrix& basis);

// The min(r, r') angles between two subspaces in degrees, smallest first; small ones from sines (Knyazev & Argentati
// 2002).
std::vector<double> principal_angles(const DenseMatrix& a, const DenseMatrix& b);

}  // namespace nascent
