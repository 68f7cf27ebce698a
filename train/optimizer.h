// AdamW over a model's parameters: one moment pair each, decay by the parameter's own flag.
#pragma once

#include <deque>
#include <functional>

#include "kernels/adamw.h"
#include "model/parameters.h"
#include "probes/probe.h"

namespace nascent {

class Optimizer {
 public:
  // keep_before: hold the weights before each update, for who wants to see what it changed.
  Optimizer(Parameters& parameters, bool keep_before);

  // Norm of the whole gradient, each tied tensor counted once.
  double gradient_norm(Stream& s) const;

  // One update; rule.weight_decay goes to decayed parameters only. on_update (may be empty) sees each parameter after
  // its own.
  void update(Stream& s, const AdamW& rule, const std::function<void(const AppliedUpdate&)>& on_update);

  std::size_t bytes() const { return slab_.bytes(); }

 private:
  struct State {
    Parameter* parameter;
    Tensor first, second, before;
  };
  Slab slab_{"optimizer"};
  std::deque<State> states_;
};

}  // namespace nascent
