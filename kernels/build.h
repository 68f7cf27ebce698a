// What decides bits beside the source: compiler, instruction set, libraries.
#pragma once

#include <string>

namespace nascent {

std::string build_description();  // "g++ 12.2.0 for AVX-512 with bf16, oneDNN 2.6.3, Eigen 3.4.0"

}  // namespace nascent
