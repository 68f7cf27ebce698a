#include "tests/fuzz/fuzz.h"

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "kernels/error.h"
#include "tests/temporary.h"

namespace nascent::fuzz {
namespace {

void write(const std::filesystem::path& path, std::string_view bytes) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  if (!file.flush()) {
    std::fprintf(stderr, "fuzz: cannot write %s\n", path.c_str());
    std::exit(1);
  }
}

}  // namespace

std::string file_of(const std::string& name, std::string_view bytes) {
  static const TemporaryFolder folder;
  write(folder.path / name, bytes);
  return folder.file(name);
}

std::string pack(const std::vector<std::string>& files) {
  std::string input;
  for (std::size_t i = 0; i < files.size(); ++i) {
    if (i + 1 < files.size()) input += bytes_of(static_cast<std::uint16_t>(files[i].size()));
    input += files[i];
  }
  return input;
}

std::string_view unpack(std::string_view& input) {
  std::size_t length = 0;
  for (std::size_t i = 0; i < 2 && !input.empty(); ++i) {
    length |= std::size_t{static_cast<std::uint8_t>(input.front())} << (8 * i);
    input.remove_prefix(1);
  }
  const std::string_view file = input.substr(0, length);
  input.remove_prefix(file.size());
  return file;
}

}  // namespace nascent::fuzz

// Writes the seeds into the first folder named on the command line, where libFuzzer looks for them.
extern "C" int LLVMFuzzerInitialize(int* argc, char*** argv) {
  for (int i = 1; i < *argc; ++i) {
    const std::filesystem::path folder = (*argv)[i];
    if (!std::filesystem::is_directory(folder)) continue;
    const std::vector<std::string> seeds = nascent::fuzz::seeds();
    for (std::size_t k = 0; k < seeds.size(); ++k)
      nascent::fuzz::write(folder / ("seed_" + std::to_string(k)), seeds[k]);
    break;
  }
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    nascent::fuzz::try_input({reinterpret_cast<const char*>(data), size});
  } catch (const nascent::Error& error) {
    if (error.exit_code() == 2) return 0;
    std::fprintf(stderr, "fuzz: the machine is blamed for an input: %s\n", error.what());
    std::abort();
  }
  return 0;
}
