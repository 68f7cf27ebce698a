// A file of tensors: the header's JSON and the offsets it gives.
#include "data/safetensors.h"

#include "kernels/error.h"
#include "tests/fuzz/fuzz.h"

namespace nascent::fuzz {
namespace {

std::string file_with(const std::string& header, std::size_t data) {
  return bytes_of(std::uint64_t{header.size()}) + header + std::string(data, 'd');
}

double sum(const View& view) {
  double total = 0;
  const std::span bytes(static_cast<const std::byte*>(view.address()), view.bytes());
  for (const std::byte b : bytes) total += std::to_integer<int>(b);
  return total;
}

}  // namespace

std::vector<std::string> seeds() {
  return {
      file_with(R"({"a":{"dtype":"F32","shape":[2,1],"data_offsets":[0,8]}})", 8),
      file_with(R"({"__metadata__":{"format":"pt"},"a":{"dtype":"BF16","shape":[3],"data_offsets":[0,6]},)"
                R"("b":{"dtype":"F64","shape":[],"data_offsets":[6,14]}})",
                14),
      file_with(R"({"none":{"dtype":"I32","shape":[0,5],"data_offsets":[0,0]}})", 0),
      file_with("{}", 0),
  };
}

void try_input(std::string_view input) {
  SafetensorsFile file(file_of("x.safetensors", input));
  double total = 0;
  for (const std::string& name : file.names()) {
    for (const std::byte b : file.entry(name).bytes) total += std::to_integer<int>(b);
    for (const auto read : {&SafetensorsFile::at, &SafetensorsFile::floats}) {
      try {
        total += sum((file.*read)(name));
      } catch (const Error& error) {
        if (error.exit_code() != 2) throw;  // a dtype that this reader does not take; the next tensor's may do
      }
    }
  }
  static volatile double kept = 0;  // so that no read is optimized away
  kept = total;
}

}  // namespace nascent::fuzz
