#include "train/optimizer.h"

#include <cmath>
#include <cstring>

#include "kernels/error.h"
#include "kernels/reduce.h"

namespace nascent {

Optimizer::Optimizer(Parameters& parameters, bool keep_before) {
  for (Parameter& p : parameters) {
    State& state = states_.emplace_back();
    state.parameter = &p;
    slab_.place(state.first, p.name + ".first", p.value.dtype(), p.value.shape());
    slab_.place(state.second, p.name + ".second", p.value.dtype(), p.value.shape());
    if (keep_before) slab_.place(state.before, p.name + ".before", p.value.dtype(), p.value.shape());
  }
  slab_.allocate();
}

double Optimizer::gradient_norm(Stream& s) const {
  double total = 0;
  for (const State& state : states_) {
    double square = 0;
    sum_squares(s, Tensor(&square, DType::kF64, {1}), state.parameter->grad);
    total += square;
  }
  return std::sqrt(total);
}

std::vector<NamedView> Optimizer::moments() const {
  std::vector<NamedView> moments;
  for (const State& state : states_) {
    moments.push_back({state.parameter->name + ".first", state.first});
    moments.push_back({state.parameter->name + ".second", state.second});
  }
  return moments;
}

void Optimizer::load(SafetensorsFile& file, const std::string& path) {
  for (State& state : states_) {
    for (const auto& [tensor, suffix] : {std::pair(state.first, ".first"), std::pair(state.second, ".second")}) {
      const std::string name = state.parameter->name + suffix;
      if (!file.has(name)) throw input_error("{}: no tensor {}, the optimizer cannot go on without it", path, name);
      const View stored = file.at(name);
      if (stored.shape() != tensor.shape() || stored.dtype() != tensor.dtype()) {
        throw input_error("{}: {} is {} of shape {}, expected {} of shape {}", path, name, name_of(stored.dtype()),
                          stored.shape().text(), name_of(tensor.dtype()), tensor.shape().text());
      }
      std::memcpy(tensor.address(), stored.address(), tensor.bytes());
    }
  }
  if (file.names().size() != 2 * states_.size()) {
    throw input_error("{}: holds {} tensors, expected two for each of {} parameters", path, file.names().size(),
                      states_.size());
  }
}

void Optimizer::update(Stream& s, const AdamW& rule, const std::function<void(const AppliedUpdate&)>& on_update) {
  ++updates_;
  for (State& state : states_) {
    Parameter& p = *state.parameter;
    s.enter(p.name.c_str());
    AdamW own = rule;
    own.t = updates_;
    if (!p.decay) own.weight_decay = 0;
    if (on_update) std::memcpy(state.before.address(), p.value.address(), p.value.bytes());
    adamw_update(s, p.value, state.first, state.second, p.grad, own);
    if (on_update) on_update({p, state.before, state.first, state.second});
  }
}

}  // namespace nascent
