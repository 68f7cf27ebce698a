// The moments of activations and gradients at the taps, computed once a step for every probe that needs them, and the
// bases made of them. This is where the tensors are read; probes work on what is found here.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "kernels/slab.h"
#include "kernels/stream.h"
#include "model/tap.h"
#include "probes/geometry.h"
#include "probes/probe_state.h"

namespace nascent {

// A named basis of a tap: global PCA of its activations.
struct Basis {
  std::string name;        // "init", "current"
  DenseMatrix directions;  // [d, r], orthonormal
  DenseMatrix next;        // [d, up to r]: the principal directions r+1 ... 2r of the same fit
  std::int64_t born = 0;   // the step whose activations it was fitted on
};

class TapStatistics {
 public:
  explicit TapStatistics(const Tap& tap);

  const Tap& tap() const { return tap_; }

  // In a step: clear, then what the taps show of every micro-batch, then both fits.
  void clear();
  void add_activation(Stream& s, View h);
  void add_gradient(Stream& s, View g);
  // Bases of at most `rank` directions: `init` from the first step seen, `current` from this one (of none where it has no
  // spread).
  void fit_activation(std::int64_t step, std::int64_t rank);
  // The gradient's own top directions, for the ceiling.
  void fit_gradient(std::int64_t rank);

  const Moments& activation() const { return activation_; }
  const Moments& gradient() const { return gradient_; }
  const DenseMatrix& gradient_raw() const { return gradient_raw_; }  // G^T G, not centred
  Value ceiling(std::int64_t r) const;                               // share of its top r directions
  const std::vector<Basis>& bases() const { return bases_; }         // those that exist so far, by name of birth

  // Between steps: bases and where eigenvectors start from. Throws (input) for what is not such a state.
  void save(ProbeState& state) const;
  void load(const ProbeState& state);

 private:
  void add(Stream& s, Moments& total, View x, bool skip_zero_rows);

  Tap tap_;
  Slab slab_{"tap statistics"};
  Tensor sum_, unit_sum_, scalars_, mean_, scatter_;  // of one micro-batch
  Moments activation_, gradient_, micro_batch_;
  DenseMatrix gradient_raw_;
  DenseMatrix activation_start_, gradient_start_;  // where the next step's eigenvectors start from
  std::vector<double> gradient_values_;            // largest eigenvalues of gradient_raw_
  std::vector<Basis> bases_;
};

}  // namespace nascent
