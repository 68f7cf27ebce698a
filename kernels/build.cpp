#include "kernels/build.h"

#include <Eigen/Core>
#include <fmt/format.h>
#include <oneapi/dnnl/dnnl.h>

namespace nascent {
namespace {

constexpr const char* kInstructionSet =
#if defined(__AVX512BF16__)
    "AVX-512 with bf16";
#elif defined(__AVX512F__)
    "AVX-512";
#elif defined(__AVX2__)
    "AVX2";
#else
    "the baseline";
#endif

}  // namespace

std::string build_description() {
  const dnnl_version_t* dnnl = dnnl_version();
  return fmt::format("compiler {} for {}, oneDNN {}.{}.{}, Eigen {}.{}.{}", __VERSION__, kInstructionSet, dnnl->major,
                     dnnl->minor, dnnl->patch, EIGEN_WORLD_VERSION, EIGEN_MAJOR_VERSION, EIGEN_MINOR_VERSION);
}

}  // namespace nascent
