// A token file, packed as PREFIX.bin and PREFIX.idx.
#include "data/token_file.h"

#include <algorithm>
#include <cstdlib>

#include "kernels/error.h"
#include "tests/fuzz/fuzz.h"

namespace nascent::fuzz {
namespace {

// Of documents with one sequence each, but for a last one without any.
std::string token_file(TokenType type, const std::vector<std::int32_t>& lengths) {
  const std::uint64_t size = type == TokenType::kU16 ? 2 : 4, n = lengths.size();
  std::string index =
      std::string("MMIDIDX\0\0", 9) + bytes_of(std::uint64_t{1}) + bytes_of(type) + bytes_of(n) + bytes_of(n + 2);
  for (const std::int32_t length : lengths) index += bytes_of(length);
  std::uint64_t end = 0;
  for (const std::int32_t length : lengths) {
    index += bytes_of(end);
    end += static_cast<std::uint64_t>(length) * size;
  }
  for (std::uint64_t i = 0; i <= n + 1; ++i) index += bytes_of(std::min(i, n));
  return pack({std::string(end, '\1'), index});
}

}  // namespace

std::vector<std::string> seeds() {
  return {token_file(TokenType::kU16, {3, 0, 1}), token_file(TokenType::kI32, {2, 5}), token_file(TokenType::kU16, {})};
}

void try_input(std::string_view input) {
  const std::string bin = file_of("x.bin", unpack(input));
  file_of("x.idx", input);
  const TokenFile file(bin.substr(0, bin.rfind('.')));
  std::uint64_t total = 0;
  for (std::uint64_t d = 0; d < file.documents(); ++d) {
    std::vector<std::int32_t> ids(file.document_tokens(d));
    file.read(d, 0, ids);
    total += ids.size();
  }
  if (total != file.tokens()) std::abort();  // every token is some document's
  file.check_vocabulary(1 << 16);
}

}  // namespace nascent::fuzz
