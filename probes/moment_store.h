// Second moments of activations and gradients on file, one file a detailed step: what any basis, also one that is born
// later or elsewhere, needs to be measured at that step.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "probes/panel.h"
#include "probes/record.h"

namespace nascent {

class MomentStore {
 public:
  // Files FOLDER/PREFIX_00000512.safetensors; the folder is made with the first.
  MomentStore(std::filesystem::path folder, std::string prefix)
      : folder_(std::move(folder)), prefix_(std::move(prefix)) {}

  // For every tap of a panel, in f32 and in units of their traces (f64):
  //   h:TAP:covariance [d, d], h:TAP:trace [1] = tr C, h:TAP:mean [d]
  //   g:TAP:second_moment [d, d], g:TAP:trace [1] = sum ||g||^2, g:TAP:mean [d], g:TAP:n [1]
  //   basis:current:TAP [d, r] and energy:TAP [64], the gradient's energy along each of the first principal directions of
  //   the activations
  void write(const Panel& panel) const;

  // Steps before `before` that are on file, ascending.
  std::vector<std::int64_t> steps(std::int64_t before) const;

  // What a basis of a tap reads at a step on file: the keys of tangent and gradient_energy that moments alone tell, each
  // marked "retrospective". Nothing for a tap that the file does not hold.
  Records measure(std::int64_t step, const std::string& tap, const Basis& basis) const;

 private:
  std::string path(std::int64_t step) const;

  std::filesystem::path folder_;
  std::string prefix_;
};

}  // namespace nascent
