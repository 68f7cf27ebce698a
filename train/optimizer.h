// AdamW over a model's parameters: one moment pair each, decay by the parameter's own flag.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <string>
#include <vector>

#include "data/safetensors.h"
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

  // One update, the number updates() + 1: rule.t is set here. rule.weight_decay goes to decayed parameters only.
  // on_update (may be empty) sees each parameter after its own.
  void update(Stream& s, const AdamW& rule, const std::function<void(const AppliedUpdate&)>& on_update);

  // How many were applied: what corrects the moments' bias, and less than the steps where some had none.
  std::int64_t updates() const { return updates_; }
  void set_updates(std::int64_t updates) { updates_ = updates; }  // with the moments of so many

  // Both moments of every parameter, laid out as here: NAME.first and NAME.second.
  std::vector<NamedView> moments() const;
  // Takes them from a file. Throws (input) for a moment that is missing, of another shape or type, or of no parameter.
  void load(SafetensorsFile& file, const std::string& path);

  std::size_t bytes() const { return slab_.bytes(); }

 private:
  struct State {
    Parameter* parameter = nullptr;
    Tensor first, second, before;
  };
  Slab slab_{"optimizer"};
  std::deque<State> states_;
  std::int64_t updates_ = 0;
};

}  // namespace nascent
