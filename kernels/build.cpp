#include "kernels/build.h"

#include <Eigen/Core>
#include <fmt/format.h>
#include <fstream>
#include <oneapi/dnnl/dnnl.h>
#include <string>

#include "kernels/threads.h"

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

// As Linux names it; not on every architecture.
std::string processor() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    const std::size_t colon = line.find(": ");
    if (line.starts_with("model name") && colon != std::string::npos) return line.substr(colon + 2);
  }
  return "a processor without a name";
}

}  // namespace

std::string build_description() {
  const dnnl_version_t* dnnl = dnnl_version();
  return fmt::format("compiler {} for {}, oneDNN {}.{}.{}, Eigen {}.{}.{}, threads of {}", __VERSION__, kInstructionSet,
                     dnnl->major, dnnl->minor, dnnl->patch, EIGEN_WORLD_VERSION, EIGEN_MAJOR_VERSION,
                     EIGEN_MINOR_VERSION, kThreads);
}

std::string machine_description() {
  return fmt::format("{}, oneDNN instruction set {:#x}", processor(), static_cast<int>(dnnl_get_effective_cpu_isa()));
}

}  // namespace nascent
