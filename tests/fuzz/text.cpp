// A text file, cut into documents in each way there is.
#include "data/text.h"

#include <cstdlib>

#include "kernels/error.h"
#include "tests/fuzz/fuzz.h"

namespace nascent::fuzz {

std::vector<std::string> seeds() { return {"one\ntwo\n\n \nthree\r\n", "\xC3\xA9\xE2\x96\x81\xF0\x9F\x98\x80", "\n"}; }

void try_input(std::string_view input) {
  const std::string path = file_of("x.txt", input);
  for (const char* separator : {"file", "line", "blank-line"}) {
    std::size_t total = 0;
    const TextFile file(path, separator);
    for (const std::string_view document : file.documents()) {
      if (document.empty()) std::abort();
      total += document.size();
    }
    if (total > input.size()) std::abort();  // documents do not overlap
  }
}

}  // namespace nascent::fuzz
