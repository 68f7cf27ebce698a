#include "model/parameters.h"

#include <cstring>
#include <utility>

#include "kernels/philox.h"

namespace nascent {

Parameter& Parameters::add(Parameter description, DType dtype, Shape shape) {
  Parameter& p = all_.emplace_back(std::move(description));
  values_.place(p.value, p.name, dtype, shape);
  gradients_.place(p.grad, p.name, dtype, shape);
  return p;
}

const Weight& Parameters::add_stack(std::vector<Parameter> descriptions, DType dtype,
                                    const std::vector<std::int64_t>& rows, std::int64_t cols) {
  Stack& stack = stacks_.emplace_back();
  std::int64_t all_rows = 0;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    Parameter& p = all_.emplace_back(std::move(descriptions[i]));
    p.value = p.grad = Tensor(nullptr, dtype, {rows[i], cols});
    stack.parts.push_back(&p);
    all_rows += rows[i];
  }
  const std::string name = stack.parts.front()->name + " and what follows";
  values_.place(stack.whole.value, name, dtype, {all_rows, cols});
  gradients_.place(stack.whole.grad, name, dtype, {all_rows, cols});
  return stack.whole;
}

void Parameters::allocate() {
  values_.allocate();
  gradients_.allocate();
  for (const Stack& stack : stacks_) {
    std::int64_t row = 0;
    for (Parameter* p : stack.parts) {
      const std::int64_t rows = p->value.rows();
      p->value = stack.whole.value.slice(row, rows);
      p->grad = stack.whole.grad.slice(row, rows);
      row += rows;
    }
  }
}

void Parameters::initialize(std::uint64_t seed) {
  for (Parameter& p : all_) {
    const Random random(seed, "init", p.name);
    dispatch(p.value.dtype(), [&]<class T>() {
      T* w = p.value.data<T>();
      for (std::int64_t i = 0; i < p.value.size(); ++i) {
        w[i] = static_cast<T>(p.std > 0 ? p.std * random.normal(static_cast<std::uint64_t>(i)) : p.constant);
      }
    });
  }
}

void Parameters::zero_gradients() {
  for (Parameter& p : all_) std::memset(p.grad.address(), 0, p.grad.bytes());
}

std::int64_t Parameters::count() const {
  std::int64_t n = 0;
  for (const Parameter& p : all_) n += p.value.size();
  return n;
}

const Parameter* Parameters::find(const std::string& name) const {
  for (const Parameter& p : all_) {
    if (p.name == name) return &p;
  }
  return nullptr;
}

}  // namespace nascent
