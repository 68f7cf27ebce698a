#include "train/optimizer.h"

#include <cmath>
#include <cstring>

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
