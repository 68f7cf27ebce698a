// oneDNN 2.6 and 3.x build the same primitive in different words; this is all of the difference.
#pragma once

#include <oneapi/dnnl/dnnl.hpp>

namespace nascent {

inline dnnl::matmul::primitive_desc matmul_desc(const dnnl::engine& engine, const dnnl::memory::desc& a,
                                                const dnnl::memory::desc& b, const dnnl::memory::desc& bias,
                                                const dnnl::memory::desc& c, const dnnl::primitive_attr& attr) {
#if DNNL_VERSION_MAJOR >= 3
  return {engine, a, b, bias, c, attr};
#else
  return {dnnl::matmul::desc(a, b, bias, c), attr, engine};
#endif
}

}  // namespace nascent
