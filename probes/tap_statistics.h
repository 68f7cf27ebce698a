// The activations and gradients of a tap, kept for the length of a step, and what is computed of them once for every
// probe: their sums, second moments and bases. This is where the tensors are read; probes work on what is found here.
//
// They are kept because much can be told only at the end: which directions the step's own basis has, and what each
// sequence holds of them. So every value is that of the whole step, however it was cut.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "kernels/slab.h"
#include "kernels/stream.h"
#include "model/tap.h"
#include "probes/bases.h"
#include "probes/sample.h"

namespace nascent {

class TapStatistics {
 public:
  // Of `positions` activations and gradients of a tap, with memory from allocate() on; 0: they come from elsewhere, by
  // show().
  TapStatistics(Tap tap, DType dtype, std::int64_t positions, BasisChoice choice);
  std::size_t bytes() const { return slab_.bytes(); }
  void allocate() { slab_.allocate(); }

  const Tap& tap() const { return tap_; }

  // In a step: begin, then what the tap shows of every micro-batch, in the order of the positions.
  void begin();
  void add_activation(View h);
  void add_gradient(View g);
  void show(View h, View g);  // arrays [N, d] from elsewhere, to stay where they are; either may be empty

  // Then the sums of both. Second moments from products in double: slower, where single eigenvalues count.
  void sum_up(Stream& s, const PositionLabels& positions, bool in_double);
  // And the bases, and the gradient's own top directions. Independent of other taps.
  void fit(const FitRequest& request);

  bool has_activation() const { return activation_.has_value(); }
  bool has_gradient() const { return gradient_.has_value(); }
  const Sample& activation() const { return *activation_; }
  const Sample& gradient() const { return *gradient_; }
  const DenseMatrix& gradient_raw() const { return gradient_raw_; }  // G^T G, not centred
  Bases& bases() { return bases_; }
  const Bases& bases() const { return bases_; }

  // Shares of the r = 1, 2, ... largest directions of a G^T G, as many as the widest basis has; for gradient_raw() they
  // are known since the fit.
  std::vector<double> ceilings_of(const DenseMatrix& raw) const;
  const std::vector<double>& ceilings() const { return ceilings_; }

  // Between steps. load throws (input) for what is not such a state.
  void save(ProbeState& state, const std::string& prefix) const;
  void load(const ProbeState& state, const std::string& prefix);

 private:
  struct Kept {
    Tensor memory;  // [N, d]
    View shown;     // what of it is filled, or an array from elsewhere
    std::int64_t rows = 0;
  };
  void add(Kept& kept, View x);
  std::int64_t widest_basis() const;
  static std::optional<Sample> sum_up(Stream& s, const PositionLabels& positions, const Kept& kept, bool gradient,
                                      bool in_double, const std::string& tap);

  Tap tap_;
  Slab slab_{"probes"};
  Kept h_, g_;
  std::optional<Sample> activation_, gradient_;
  DenseMatrix gradient_raw_;
  std::vector<double> ceilings_;
  DenseMatrix gradient_start_;  // where the next step's eigenvectors start from
  Bases bases_;
};

}  // namespace nascent
