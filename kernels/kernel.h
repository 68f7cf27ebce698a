// KERNEL(name, arguments...) declares an op on each device and the callable `name` that picks by the stream's device:
//
//   KERNEL(add_forward, Tensor y, View a, View b);     // declares cpu::add_forward, cuda::add_forward, add_forward
//   add_forward(stream, y, a, b);
//
// The CUDA twin is weak: where none is linked (a build without CUDA, an op that has none yet) calling the op on such a
// stream throws and names it. COMPOSED_KERNEL is for an op made of others, which is one function for all devices.
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
[[noreturn]] void throw_wrong_device(const Stream& stream, const char* kernel, const char* arguments, int number,
                                     Device device);

template <class... Args>
class Kernel {
 public:
  using Function = void (*)(Stream&, Args...);
  constexpr Kernel(const char* name, const char* arguments, Function cpu, Function cuda)
      : name_(name), arguments_(arguments), cpu_(cpu), cuda_(cuda) {}

  void operator()(Stream& stream, Args... args) const {
    const Function function = stream.device() == Device::kCpu ? cpu_ : cuda_;
    if (!function) throw_no_twin(name_, stream.device());
    require_device(stream, args...);
    if (stream.checks_finite()) check<View>(stream, "was given", args...);
    function(stream, args...);
    if (stream.checks_finite()) check<Tensor>(stream, "made", args...);
  }
  constexpr const char* name() const { return name_; }

 private:
  void require_device(const Stream& stream, const Args&... args) const {
    int number = 0;
    const auto one = [&]<class Arg>(const Arg& arg) {
      if constexpr (std::is_base_of_v<View, Arg>) {
        if (arg && arg.device() != stream.device()) throw_wrong_device(stream, name_, arguments_, number, arg.device());
      }
      ++number;
    };
    (one(args), ...);
  }

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

#define KERNEL(name, ...)                          \
  namespace cpu {                                  \
  void name(Stream& s, __VA_ARGS__);               \
  }                                                \
  namespace cuda {                                 \
  [[gnu::weak]] void name(Stream& s, __VA_ARGS__); \
  }                                                \
  inline const auto name = make_kernel(#name, #__VA_ARGS__, &cpu::name, &cuda::name)

#define COMPOSED_KERNEL(name, ...)   \
  namespace composed {               \
  void name(Stream& s, __VA_ARGS__); \
  }                                  \
  inline const auto name = make_kernel(#name, #__VA_ARGS__, &composed::name, &composed::name)
