#include "probes/bases.h"

#include <algorithm>
#include <cmath>

#include "data/safetensors.h"
#include "kernels/error.h"

namespace nascent {
namespace {

constexpr std::int64_t kPrincipal = 64;   // directions whose energies are kept as an array
constexpr double kBasisTolerance = 1e-4;  // sine of the angle to the true subspace
constexpr double kOrthonormal = 1e-4;     // of an imported basis

// Subspace iteration carries half as many directions again beyond the 2r that are kept: its error shrinks by the ratio
// of the eigenvalue behind the last one carried to the last one wanted.
std::int64_t carried(std::int64_t rank, std::int64_t d) { return std::min(d, 3 * rank); }

// The fewest of the largest eigenvalues that hold this share of the trace.
std::int64_t rank_explaining(double share, const std::vector<double>& values, double trace) {
  double sum = 0;
  std::int64_t r = 0;
  while (r < static_cast<std::int64_t>(values.size()) && sum < share * trace * (1 - 1e-12))
    sum += values[static_cast<std::size_t>(r++)];
  return r;
}

const DenseMatrix& stored(const ProbeState& state, const std::string& name) {
  const auto found = state.find(name);
  if (found == state.end()) throw input_error("the probes' state has no {}", name);
  return found->second;
}

}  // namespace

void Bases::import(const std::string& name, DenseMatrix directions) { put({name, std::move(directions), {}, {}}); }

void Bases::put(Basis basis) {
  const auto place = std::ranges::lower_bound(bases_, basis.name, {}, &Basis::name);
  if (place != bases_.end() && place->name == basis.name) {
    *place = std::move(basis);
  } else {
    bases_.insert(place, std::move(basis));
  }
}

const Basis* Bases::find(const std::string& name) const {
  const auto found = std::ranges::find(bases_, name, &Basis::name);
  return found == bases_.end() ? nullptr : &*found;
}

// Without spread a basis has no directions: those of another step would not be this one's.
Basis Bases::fitted(const std::string& name, const Moments& m, DenseMatrix& start, bool full) {
  Basis basis{name, DenseMatrix(width_, 0), DenseMatrix(width_, 0), {}};
  const std::int64_t wanted = std::min(choice_.rank, width_ - 1);
  if (wanted < 1 || !spectrum_of(m)) return basis;
  const std::int64_t keep = carried(wanted, width_);
  const Eigenpairs pairs = full || choice_.explained > 0 ? symmetric_eigen(m.scatter)
                                                         : top_eigen(m.scatter, keep, wanted, start, kBasisTolerance);
  start = columns(pairs.vectors, 0, keep);
  const std::int64_t there = non_zero(pairs.values, m);
  const std::int64_t asked =
      choice_.explained > 0 ? rank_explaining(choice_.explained, pairs.values, trace(m.scatter)) : wanted;
  const std::int64_t r = std::min({asked, width_ - 1, there});
  basis.directions = columns(pairs.vectors, 0, r);
  basis.next = columns(pairs.vectors, r, std::clamp<std::int64_t>(there - r, 0, std::min(r, pairs.vectors.cols - r)));
  if (full && name == "current") principal_ = columns(pairs.vectors, 0, std::min(kPrincipal, there));
  return basis;
}

void Bases::fit(const Sample& activation, const FitRequest& request) {
  DenseMatrix none;
  principal_ = DenseMatrix(width_, 0);
  Basis current = fitted("current", activation.all, start_, request.full);
  if (request.full && activation.sequences() > 1) {
    for (int half = 0; half < 2; ++half)
      current.halves[half] = fitted("half", activation.halves[half], none, true).directions;
  }
  if (request.birth && !find("init")) {
    Basis init = current;
    init.name = "init";
    put(std::move(init));
  }
  put(std::move(current));

  if (request.pool && spectrum_of(activation.all)) {
    add_to_pool(activation);
    put(fitted("early_so_far", pooled_[0], none, true));
  }
  if (request.close && has_pool()) {
    Basis early = fitted("early", pooled_[0], none, true);
    for (int half = 0; half < 2; ++half) early.halves[half] = fitted("half", pooled_[1 + half], none, true).directions;
    put(std::move(early));
    std::erase_if(bases_, [](const Basis& b) { return b.name == "early_so_far"; });
    for (Moments& m : pooled_) m = Moments();
  }
}

// Each step's C over its trace, so that no step counts for more because activations have grown; or all positions as they
// are.
void Bases::add_to_pool(const Sample& activation) {
  const Moments* parts[] = {&activation.all, &activation.halves[0], &activation.halves[1]};
  for (int i = 0; i < 3; ++i) {
    if (pooled_[i].d == 0) pooled_[i] = Moments(width_);
    if (!spectrum_of(*parts[i])) continue;
    if (choice_.pool_raw) {
      pooled_[i].add(*parts[i]);
      continue;
    }
    const double total = trace(parts[i]->scatter);
    for (std::size_t k = 0; k < pooled_[i].scatter.data.size(); ++k)
      pooled_[i].scatter.data[k] += parts[i]->scatter.data[k] / total;
    pooled_[i].n_centred += parts[i]->n_centred;
    pooled_[i].sum_squares += 1;
    pooled_[i].rounding = std::max(pooled_[i].rounding, parts[i]->rounding);
  }
}

namespace {

constexpr const char* kPools[] = {"pool/all", "pool/even", "pool/odd"};

}  // namespace

void Bases::save(ProbeState& state, const std::string& prefix) const {
  state[prefix + "start/activation"] = start_;
  for (const Basis& basis : bases_) {
    if (basis.name == "current") continue;  // refitted before it is used
    const std::string at = prefix + "basis/" + basis.name + "/";
    state[at + "directions"] = basis.directions;
    state[at + "next"] = basis.next;
    state[at + "even"] = basis.halves[0];
    state[at + "odd"] = basis.halves[1];
  }
  for (int i = 0; has_pool() && i < 3; ++i) {
    const Moments& m = pooled_[i];
    DenseMatrix mean(1, width_), scalars(1, 3);
    mean.data = m.mean;
    scalars.data = {static_cast<double>(m.n_centred), m.sum_squares, m.rounding};
    state[prefix + kPools[i] + "/scatter"] = m.scatter;
    state[prefix + kPools[i] + "/mean"] = mean;
    state[prefix + kPools[i] + "/scalars"] = scalars;
  }
}

void Bases::load(const ProbeState& state, const std::string& prefix) {
  start_ = stored(state, prefix + "start/activation");
  const std::string bases = prefix + "basis/", end = "/directions";
  for (auto at = state.lower_bound(bases); at != state.end() && at->first.starts_with(bases); ++at) {
    if (!at->first.ends_with(end)) continue;
    const std::string name = at->first.substr(bases.size(), at->first.size() - bases.size() - end.size());
    const std::string place = bases + name + "/";
    put({name,
         at->second,
         stored(state, place + "next"),
         {stored(state, place + "even"), stored(state, place + "odd")}});
  }
  for (int i = 0; i < 3; ++i) {
    pooled_[i] = Moments();
    if (!state.contains(prefix + kPools[i] + "/scatter")) continue;
    Moments& m = pooled_[i] = Moments(width_);
    m.scatter = stored(state, prefix + kPools[i] + "/scatter");
    m.mean = stored(state, prefix + kPools[i] + "/mean").data;
    const DenseMatrix scalars = stored(state, prefix + kPools[i] + "/scalars");
    m.n_centred = static_cast<std::int64_t>(scalars.data.at(0));
    m.sum_squares = scalars.data.at(1);
    m.rounding = scalars.data.at(2);
  }
}

void check_basis(const DenseMatrix& basis, std::int64_t width, const std::string& where) {
  if (basis.rows != width || basis.cols < 1 || basis.cols >= width)
    throw input_error("{}: shape ({}, {}), expected ({}, r) with r from 1 to {}", where, basis.rows, basis.cols, width,
                      width - 1);
  const DenseMatrix gram = multiply_transposed(basis, basis);
  for (std::int64_t i = 0; i < gram.rows; ++i) {
    for (std::int64_t j = 0; j < gram.cols; ++j) {
      if (std::abs(gram(i, j) - (i == j ? 1 : 0)) <= kOrthonormal) continue;
      throw input_error("{}: columns {} and {} have product {:.3g}, expected orthonormal columns (to {:g})", where, i,
                        j, gram(i, j), kOrthonormal);
    }
  }
}

std::map<std::string, DenseMatrix> read_bases(const std::string& path) {
  SafetensorsFile file(path);
  std::map<std::string, DenseMatrix> bases;
  for (const std::string& name : file.names()) {
    const std::size_t colon = name.find(':', 6);
    if (!name.starts_with("basis:") || colon == std::string::npos) continue;
    const View view = file.floats(name);
    if (view.shape().rank() != 2)
      throw input_error("{}: {} has shape {}, expected [width, rank]", path, name, view.shape().text());
    DenseMatrix q(view.rows(), view.cols());
    dispatch(view.dtype(), [&]<class T>() { std::copy_n(view.data<T>(), view.size(), q.data.begin()); });
    if (!bases.emplace(name.substr(colon + 1), std::move(q)).second)
      throw input_error("{}: {} is the second basis of its tap, expected one a tap", path, name);
  }
  if (bases.empty()) throw input_error("{}: no tensor basis:NAME:TAP [width, rank]", path);
  return bases;
}

}  // namespace nascent
