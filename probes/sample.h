// One array at a tap, activations or gradients, over a selection of its positions: the sums that measures are made of,
// over all, over two halves of the sequences, and by sequence.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/row_statistics.h"
#include "kernels/stream.h"
#include "probes/geometry.h"
#include "probes/jackknife.h"
#include "probes/position_labels.h"

namespace nascent {

// Which positions count, and how.
struct Selection {
  std::vector<std::int32_t> rows;
  std::vector<double> factor, weight;  // [N] or empty: x_i is taken times factor_i, and counts weight_i times
};

// An array as it was shown: activations or gradients [N, d].
struct Array {
  View x;
  const PositionLabels* positions = nullptr;
  bool gradient = false;         // rows of exactly zero are left out of what is centred
  double largest = 0;            // |x_ij|; NaN where an element is NaN or infinite
  DType products = DType::kF64;  // of second moments
};

struct Sample {
  Array array;
  Selection selection;
  Groups by_sequence;                 // the selected rows of each sequence that has some
  std::vector<std::int32_t> number;   // of those sequences
  std::vector<std::int32_t> centred;  // the selected rows that have a part in mean and scatter, by sequence
  DenseMatrix sums, unit_sums;        // [S, d]: by sequence, of x and of x/||x||
  DenseMatrix scalars;                // [S, kRowScalars]
  Moments all, halves[2];             // even and odd sequences

  std::int64_t sequences() const { return by_sequence.count(); }
  double rows_of(std::int64_t s) const { return static_cast<double>(by_sequence.of(s).size()); }
  double scalar(std::int64_t s, int which) const { return scalars(s, which); }
  double centred_of(std::int64_t s) const {  // rows of a sequence in mean and scatter
    return rows_of(s) - (array.gradient ? scalar(s, kZeroRows) : 0);
  }

  // Sequences that a standard error leaves out in turn. None of weighted rows: without one the weights would be others.
  std::int64_t left_out() const { return selection.weight.empty() ? sequences() : 0; }

  // Mean of ||x||, norm of the mean of x, average cosine over pairs of rows with a direction.
  Estimate mean_norm() const;
  Estimate norm_of_mean() const;
  Estimate average_cosine() const;

  // The moments of all but one of eight groups of sequences (their numbers modulo 8), each left out in turn: for standard
  // errors of spectral measures. None where there is only one group.
  std::vector<Moments> without_groups(Stream& s) const;
};

// A share as a function of sums over sequences: of inside to total, and its value without each sequence.
struct SequenceShare {
  std::vector<double> inside, total;  // [S]

  // Of the share E without a sequence.
  template <class F>
  Value error_of(F&& function) const {
    double all_inside = 0, all = 0;
    for (std::size_t s = 0; s < total.size(); ++s) {
      all_inside += inside[s];
      all += total[s];
    }
    return jackknife(static_cast<std::int64_t>(total.size()), [&](std::int64_t s) -> Value {
      const double rest = all - total[static_cast<std::size_t>(s)];
      return rest > 0 ? function((all_inside - inside[static_cast<std::size_t>(s)]) / rest) : Value();
    });
  }
};

// Sums over the rows of each sequence of numbers given for every row of the array [N], as the selection counts them;
// squares: they are squares of what its factors scale.
std::vector<double> sums_by_sequence(const Sample& sample, const double* of_rows, bool squares = false);

// The sums of an array over a selection.
Sample sample_of(Stream& s, const Array& array, Selection selection);

// ||x_i - mean||^2, x_i times its factor, for the rows given, in their order.
std::vector<double> distances_of(Stream& s, const Array& array, const std::vector<double>& factor,
                                 const std::vector<std::int32_t>& rows, const std::vector<double>& mean);

// ||Q^T (x_i - mean)||^2 for every row of an array: [bases, N]. No mean: about 0.
DenseMatrix squares_in(Stream& s, const Array& array, const std::vector<const DenseMatrix*>& bases,
                       const std::vector<double>* mean);

}  // namespace nascent
