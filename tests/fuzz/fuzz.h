// What a fuzz target is made of: one .cpp defines these two functions, fuzz.cpp gives them to libFuzzer.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace nascent::fuzz {

// Inputs that the parser takes whole, to start from: the fuzzer finds what is near them, hardly ever a format by itself.
std::vector<std::string> seeds();

// Parses the input and looks at all that was parsed. It may throw an Error that blames the input, and nothing else.
void try_input(std::string_view input);

// Puts bytes into the target's own folder and returns the file's path.
std::string file_of(const std::string& name, std::string_view bytes);

// An input that stands for several files: each but the last is 2 bytes of length (little-endian), then the bytes; of a
// length beyond the input, what there is.
std::string pack(const std::vector<std::string>& files);
std::string_view unpack(std::string_view& input);  // takes the next file from the front

// The bytes of a number as files hold them.
template <class T>
std::string bytes_of(T value) {
  return {reinterpret_cast<const char*>(&value), sizeof value};
}

}  // namespace nascent::fuzz
