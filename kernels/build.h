// What decides bits beside the source: compiler, instruction set, libraries, and the processor they run on.
#pragma once

#include <string>

namespace nascent {

std::string build_description();  // "g++ 12.2.0 for AVX-512 with bf16, oneDNN 2.6.3, Eigen 3.4.0, threads of OpenMP"

// The processor, and the instruction set that oneDNN found on it and writes its products for: one program gives other
// bits on another machine. "AMD EPYC 9R14, oneDNN instruction set 0x1ef"
std::string machine_description();

}  // namespace nascent
