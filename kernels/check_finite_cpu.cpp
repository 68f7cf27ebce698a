#include <algorithm>
#include <cmath>
#include <string>

#include "kernels/check_finite.h"
#include "kernels/error.h"
#include "kernels/stream.h"

namespace nascent {
namespace {

// Whether all are finite. x - x is 0, but NaN where x is NaN or infinite: a sum, which the compiler makes vector code of.
template <class T>
bool all_finite(const T* x, std::int64_t n) {
  T sum = 0;
#pragma omp simd reduction(+ : sum)
  for (std::int64_t i = 0; i < n; ++i) sum += x[i] - x[i];
  return sum == 0;
}

// "(2, 0, 5)"
std::string place_in(const Shape& shape, std::int64_t index) {
  std::string text;
  for (int i = shape.rank(); i-- > 0; index /= shape[i]) {
    text = fmt::format("{}{}{}", index % shape[i], text.empty() ? "" : ", ", text);
  }
  return "(" + text + ")";
}

double value_at(const View& x, std::int64_t index) {
  const auto value = dispatch(x.dtype(), [&]<class T>() { return static_cast<double>(x.data<T>()[index]); });
  return std::isnan(value) ? std::abs(value) : value;  // not "-nan"
}

}  // namespace

std::string argument_name(const std::string& arguments, int number) {
  std::size_t begin = 0;
  for (int i = 0; i < number; ++i) begin = arguments.find(',', begin) + 1;
  const std::string one = arguments.substr(begin, arguments.find(',', begin) - begin);
  return one.substr(one.rfind(' ') + 1);
}

std::int64_t first_not_finite(const View& x) {
  if (!x || x.dtype() == DType::kI32) return -1;
  return dispatch(x.dtype(), [&]<class T>() -> std::int64_t {
    constexpr std::int64_t kRun = 4096;
    const T* p = x.data<T>();
    for (std::int64_t begin = 0; begin < x.size(); begin += kRun) {
      const std::int64_t n = std::min(kRun, x.size() - begin);
      if (all_finite(p + begin, n)) continue;
      return std::find_if(p + begin, p + begin + n, [](T value) { return !std::isfinite(value); }) - p;
    }
    return -1;
  });
}

void require_finite(const Stream& s, const char* kernel, const char* verb, const char* arguments, int number,
                    const View& x) {
  const std::int64_t index = first_not_finite(x);
  if (index < 0) return;
  const std::string place = s.place();
  throw machine_error("{}{}{} {} {} in {} at {} of shape {}", place, place.empty() ? "" : ": ", kernel, verb,
                      value_at(x, index), argument_name(arguments, number), place_in(x.shape(), index),
                      x.shape().text());
}

}  // namespace nascent
