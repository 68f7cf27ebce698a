// What decides bits, said in words: versions, instruction set, threads.
#pragma once

#include <filesystem>
#include <string>

namespace nascent {

std::string version();  // "0.1.0"

// `nascent info`: this program and this machine; with a path also the run or checkpoint there. Throws (input) for what
// is neither.
void print_info(const std::filesystem::path& path);

}  // namespace nascent
