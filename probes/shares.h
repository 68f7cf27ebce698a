// Shares of a sample's variance, and what pairs of types and sequences tell of it, each with its standard error.
#pragma once

#include <vector>

#include "probes/sample.h"

namespace nascent {

// Distances from the mean, of one sample.
class Shares {
 public:
  Shares(Stream& s, const Sample& sample);

  Value top_positions() const;       // of the ceil(N/1000) rows farthest from the mean
  Value top_coordinate() const;      // the largest diagonal element of C
  Estimate first_positions() const;  // of the first position of each sequence

  // key: a type of each position, 0 or more for every row of the sample.
  //   between types   sum n_w ||mu_w - mu||^2/sum ||x - mu||^2
  //   other cosine    mean cosine of pairs of rows of different type and different sequence
  struct ByType {
    Estimate between, other_cosine;
  };
  ByType by_type(Stream& s, const std::vector<std::int32_t>& key) const;

 private:
  std::vector<double> sums_about_mean(std::int64_t sequence) const;  // of its rows [d]

  const Sample& sample_;
  std::vector<double> distances_;    // ||x - mu||^2 of sample.centred
  std::vector<double> by_sequence_;  // summed
  double total_ = 0;
};

}  // namespace nascent
