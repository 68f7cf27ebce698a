// Neighbourhoods of a cloud of activations, each with a basis of its own: the occurrences of a token type, or a position
// and those nearest to it.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/linalg.h"
#include "probes/panel.h"

namespace nascent {

struct Neighbourhood {
  std::vector<std::int32_t> rows;
  DenseMatrix basis;     // [d, rank], the principal directions about the neighbourhood's mean
  DenseMatrix next;      // [d, up to rank], the directions behind them
  double explained = 0;  // their share of its variance
};

// Those with `rank` non-zero eigenvalues or more; none for rank >= d.
//   token   all rows of a type, min_count or more of them
//   knn     a row and the k others of largest cosine with it, zero rows left out; around every row, or `centres` of
//           them where there are more, evenly spaced
std::vector<Neighbourhood> neighbourhoods(const Sample& activation, const LocalChoice& choice);

// Rows of an array as doubles [rows, d].
DenseMatrix rows_of(View x, const std::vector<std::int32_t>& rows);

}  // namespace nascent
