// Tangent bases of a tap: named subspaces, each with a birth. `init` is fitted at the first step and kept, `current` at
// every step, `early` when its window closes and kept (until then `early_so_far`); others are imported.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "kernels/linalg.h"
#include "probes/probe_state.h"
#include "probes/sample.h"

namespace nascent {

// A named basis of a tap: global PCA of its activations, or one from a file.
struct Basis {
  std::string name;
  DenseMatrix directions;  // [d, r], orthonormal
  DenseMatrix next;        // [d, up to r]: the principal directions r + 1 ... 2r of the same fit
  DenseMatrix halves[2];   // the same fit on even and odd sequences alone, where it was asked for
};

// How bases are fitted.
struct BasisChoice {
  std::int64_t rank = 16;  // directions, at most d - 1 and the non-zero eigenvalues
  double explained = 0;    // above 0: instead, as few directions as explain this share of the variance
  bool pool_raw = false;   // early: pool positions about one common mean, not each step's C/tr C
};

// What a step asks of a fit.
struct FitRequest {
  bool birth = true;   // `init` is fitted where there is none yet
  bool full = false;   // every eigenvector; halves too
  bool pool = false;   // this step's covariance enters early's pool
  bool close = false;  // early's window is closed: fit it, if that is not done yet
};

class Bases {
 public:
  static constexpr const char* kOwnNames[] = {"current", "early", "early_so_far", "init"};

  Bases(std::int64_t width, BasisChoice choice) : width_(width), choice_(choice) {}

  void import(const std::string& name, DenseMatrix directions);
  void fit(const Sample& activation, const FitRequest& request);

  const std::vector<Basis>& all() const { return bases_; }  // those that exist so far, by name
  const Basis* find(const std::string& name) const;
  bool has_pool() const { return pooled_[0].n_centred > 0; }
  // The first 64 principal directions of this step's activations (full fits only) [d, up to 64].
  const DenseMatrix& principal() const { return principal_; }

  void save(ProbeState& state, const std::string& prefix) const;
  void load(const ProbeState& state, const std::string& prefix);  // beside bases imported since

 private:
  Basis fitted(const std::string& name, const Moments& m, DenseMatrix& start, bool full);
  void put(Basis basis);
  void add_to_pool(const Sample& activation);

  std::int64_t width_;
  BasisChoice choice_;
  std::vector<Basis> bases_;
  DenseMatrix start_;  // where the next fit's eigenvectors start from
  DenseMatrix principal_;
  Moments pooled_[3];  // early's window so far: all, even, odd sequences
};

// An orthonormal basis [d, r] to 1e-4 with 1 <= r < d, else throws (input) and names `where`.
void check_basis(const DenseMatrix& basis, std::int64_t width, const std::string& where);

// The bases of a file, by tap: tensors basis:NAME:TAP [d, r], f32, f64 or bf16, of any NAME.
std::map<std::string, DenseMatrix> read_bases(const std::string& path);

}  // namespace nascent
