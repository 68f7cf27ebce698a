// KERNEL(name, arguments...) declares an op on each device and the callable `name` that picks by the stream's device:
//
//   KERNEL(add_forward, Tensor y, View a, View b);     // declares cpu::add_forward, cuda::add_forward, add_forward
//   add_forward(stream, y, a, b);
//
// Outputs come first, then inputs, then scalars. The rule of all backward ops: gradients of parameters are added to
// (+=), gradients of activations are assigned (=).
#pragma once

#include "kernels/stream.h"
#include "kernels/view.h"

namespace nascent {

[[noreturn]] void throw_no_twin(const char* kernel, Device device);

template <class... Args>
class Kernel {
 public:
  using Function = void (*)(Stream&, Args...);
  constexpr Kernel(const char* name, Function cpu, Function cuda) : name_(name), cpu_(cpu), cuda_(cuda) {}

  void operator()(Stream& stream, Args... args) const {
    const Function function = stream.device() == Device::kCpu ? cpu_ : cuda_;
    if (!function) throw_no_twin(name_, stream.device());
    function(stream, args...);
  }
  constexpr const char* name() const { return name_; }

 private:
  const char* name_;
  Function cpu_, cuda_;
};

template <class... Args>
constexpr Kernel<Args...> make_kernel(const char* name, void (*cpu)(Stream&, Args...), void (*cuda)(Stream&, Args...)) {
  return {name, cpu, cuda};
}

}  // namespace nascent

#ifdef NASCENT_CUDA
#define NASCENT_CUDA_TWIN(name) &cuda::name
#else
#define NASCENT_CUDA_TWIN(name) static_cast<decltype(&cpu::name)>(nullptr)
#endif

#define KERNEL(name, ...)            \
  namespace cpu {                    \
  void name(Stream& s, __VA_ARGS__); \
  }                                  \
  namespace cuda {                   \
  void name(Stream& s, __VA_ARGS__); \
  }                                  \
  inline constexpr auto name = make_kernel(#name, &cpu::name, NASCENT_CUDA_TWIN(name))
