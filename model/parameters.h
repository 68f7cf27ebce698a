// The parameters of a model: one value and one gradient each, by Hugging Face name. Tied tensors are one parameter.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "kernels/slab.h"
#include "kernels/view.h"
#include "model/layout.h"

namespace nascent {

struct Weight {
  Tensor value, grad;  // linear weights are [out, in] here, whatever the file's layout
};

struct Parameter : Weight {
  std::string name;              // Hugging Face's: "transformer.h.0.attn.c_attn.weight"
  double std = 0, constant = 0;  // drawn from N(0, std^2), or `constant` where std is 0
  bool decay = false;            // weight decay applies
  Layout layout;                 // in Hugging Face's files
  std::string alias;             // another name that such files give it, or empty
};

class Parameters {
 public:
  Parameter& add(Parameter description, DType dtype, Shape shape);  // a place that stays valid
  // Parameters that one product uses: rows[i] rows each of `cols` numbers, one after the other in memory, and all of
  // them as one weight [sum of rows, cols], which stays valid. They are parameters of their own in all else.
  const Weight& add_stack(std::vector<Parameter> descriptions, DType dtype, const std::vector<std::int64_t>& rows,
                          std::int64_t cols);
  void allocate();

  // Draws every value by (seed, "init", name): the order of parameters and what else there is change nothing.
  void initialize(std::uint64_t seed);
  void zero_gradients();

  std::int64_t count() const;  // of numbers
  std::size_t bytes() const { return values_.bytes() + gradients_.bytes(); }
  const Parameter* find(const std::string& name) const;  // null when there is none
  auto begin() { return all_.begin(); }
  auto end() { return all_.end(); }
  auto begin() const { return all_.begin(); }
  auto end() const { return all_.end(); }

 private:
  struct Stack {
    Weight whole;
    std::vector<Parameter*> parts;
  };
  std::deque<Parameter> all_;
  std::deque<Stack> stacks_;
  Slab values_{"parameters"}, gradients_{"gradients"};
};

}  // namespace nascent
