// KERNEL(name, arguments...) declares an op on each device and the callable `name` that picks by the stream's device:
//
//   KERNEL(add_forward, Tensor y, View a, View b);     // declares cpu::add_forward, cuda::add_forward, add_forward
//   add_forward(stream, y, a, b);
//
// Outputs come first, then inputs, then scalars. The rule of all backward ops: gradients of parameters are added to
// (+=), gradients of activations are assigned (=).
//
// Where the stream checks (Stream::check_finite), the inputs of every op are looked through before it runs and its
// outputs after it, so the first NaN or infinity is found where it arises.
#pragma once

#include <type_traits>

#include "kernels/check_finite.h"
#include "kernels/stream.h"
#include "kernels/view.h"

namespace nascent {

[[noreturn]] void throw_no_twin(const char* kernel, Device device);

template <class... Args>
class Kernel {
 public:
  using Function = void (*)(Stream&, Args...);
  constexpr Kernel(const char* name, const char* arguments, Function cpu, Function cuda)
      : name_(name), arguments_(arguments), cpu_(cpu), cuda_(cuda) {}

  void operator()(Stream& stream, Args... args) const {
    const Function function = stream.device() == Device::kCpu ? cpu_ : cuda_;
    if (!function) throw_no_twin(name_, stream.device());
    if (stream.checks_finite()) check<View>(stream, "was given", args...);
    function(stream, args...);
    if (stream.checks_finite()) check<Tensor>(stream, "made", args...);
  }
  constexpr const char* name() const { return name_; }

 private:
  // Inputs are the arguments that are a View, outputs those that are a Tensor.
  template <class Kind>
  void check(const Stream& stream, const char* verb, const Args&... args) const {
    int number = 0;
    const auto one = [&]<class Arg>(const Arg& arg) {
      if constexpr (std::is_same_v<Arg, Kind>) require_finite(stream, name_, verb, arguments_, number, arg);
      ++number;
    };
    (one(args), ...);
  }

  const char *name_, *arguments_;
  Function cpu_, cuda_;
};

template <class... Args>
constexpr Kernel<Args...> make_kernel(const char* name, const char* arguments, void (*cpu)(Stream&, Args...),
                                      void (*cuda)(Stream&, Args...)) {
  return {name, arguments, cpu, cuda};
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
  inline constexpr auto name = make_kernel(#name, #__VA_ARGS__, &cpu::name, NASCENT_CUDA_TWIN(name))
