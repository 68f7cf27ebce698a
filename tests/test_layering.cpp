#include <algorithm>
#include <array>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "tests/catch.h"

namespace {

namespace fs = std::filesystem;

// A file includes only from its own folder or one to its left.
constexpr std::array<std::string_view, 6> kFolders = {"kernels", "data", "model", "probes", "train", "tests"};

constexpr std::array<std::string_view, 14> kCudaHeaders = {
    "cuda",   "cublas",     "cudnn", "cusolver", "cusparse",           "curand", "cufft", "nccl",
    "nvtx3/", "nvToolsExt", "cub/",  "thrust/",  "cooperative_groups", "mma.h"};

std::size_t rank(std::string_view folder) {
  return static_cast<std::size_t>(std::find(kFolders.begin(), kFolders.end(), folder) - kFolders.begin());
}

std::string_view first_part(std::string_view path) { return path.substr(0, path.find('/')); }

std::string_view without_leading_blanks(std::string_view s) {
  const std::size_t start = s.find_first_not_of(" \t");
  return start == std::string_view::npos ? std::string_view() : s.substr(start);
}

struct Include {
  bool quoted;
  std::string_view name;
};

std::vector<Include> includes(std::string_view text) {
  std::vector<Include> found;
  while (!text.empty()) {
    std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    line = without_leading_blanks(line);
    if (!line.starts_with('#')) continue;
    line = without_leading_blanks(line.substr(1));
    if (!line.starts_with("include")) continue;
    line = without_leading_blanks(line.substr(7));
    if (!line.starts_with('"') && !line.starts_with('<')) continue;
    const bool quoted = line.front() == '"';
    line.remove_prefix(1);
    found.push_back({quoted, line.substr(0, line.find(quoted ? '"' : '>'))});
  }
  return found;
}

// What is wrong with the includes of the file at `path` (from the root, such as "data/order.cpp") holding
// `text`.
std::vector<std::string> violations(std::string_view path, std::string_view text) {
  std::vector<std::string> wrong;
  const auto complain = [&](std::string_view name, std::string_view why) {
    wrong.push_back(std::string(path) + " includes " + std::string(name) + ": " + std::string(why));
  };
  for (const auto& [quoted, name] : includes(text)) {
    const std::size_t from = name.find('/') == std::string_view::npos ? kFolders.size() : rank(first_part(name));
    if (from == kFolders.size()) {
      if (quoted) complain(name, "a quoted name starts with one of our folders");
    } else if (from > rank(first_part(path))) {
      complain(name, "that folder is to the right of this one");
    }
    const bool cuda = std::any_of(kCudaHeaders.begin(), kCudaHeaders.end(),
                                  [name = name](std::string_view header) { return name.starts_with(header); });
    const bool stands_in = path.starts_with("tests/emulation/");  // for those headers
    const bool may = path.ends_with("_cuda.cu") || path.ends_with(".cuh") || stands_in;
    if (cuda && !may) complain(name, "only *_cuda.cu and *.cuh include CUDA headers");
    if (name.ends_with(".cuh") && !may) complain(name, "only *_cuda.cu and *.cuh include it");
  }
  return wrong;
}

std::string read(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace

TEST_CASE("the include checker sees what points right and lets through what does not") {
  CHECK(violations("data/a.cpp", "#include \"kernels/view.h\"\n#include \"data/a.h\"\n#include <string>\n").empty());
  CHECK(violations("model/families/gpt2.cpp", "#include \"model/plan.h\"\n#include \"data/order.h\"").empty());
  CHECK(violations("tests/test_a.cpp", "#include \"train/config.h\"\n").empty());
  CHECK(violations("kernels/a.h", "// #include \"train/config.h\"\nint include;\n").empty());

  // Planted, in every pair of folders.
  for (const std::string_view folder : kFolders) {
    for (const std::string_view other : kFolders) {
      const std::string text = "#pragma once\n  #  include \"" + std::string(other) + "/x.h\"\n";
      CAPTURE(folder, other);
      CHECK(violations(std::string(folder) + "/a.h", text).size() == (rank(other) > rank(folder) ? 1u : 0u));
    }
  }
  CHECK(violations("data/a.cpp", "#include <model/plan.h>").size() == 1);
  CHECK(violations("model/families/gpt2.cpp", "\r\n#include\"probes/probe.h\"\r\n").size() == 1);
  CHECK(violations("data/a.cpp", "#include \"a.h\"").size() == 1);
  CHECK(violations("data/a.cpp", "#include \"../train/config.h\"").size() == 1);

  CHECK(violations("kernels/norm_cuda.cu", "#include <cuda_runtime.h>\n#include <cublasLt.h>").empty());
  CHECK(violations("kernels/norm.cuh", "#include <cuda_runtime.h>\n#include \"kernels/cuda.cuh\"").empty());
  CHECK(violations("kernels/norm.h", "#include \"kernels/cuda.cuh\"").size() == 1);
  CHECK(violations("kernels/norm_cpu.cpp", "#include <cuda_runtime.h>\n#include <cublasLt.h>").size() == 2);
  CHECK(violations("kernels/norm.h", "#include <nccl.h>").size() == 1);
}

TEST_CASE("a file includes only from its own folder or one to its left and CUDA headers only in CUDA files") {
  const fs::path root = NASCENT_SOURCE_DIR;
  std::map<std::string, int, std::less<>> files;
  for (const std::string_view folder : kFolders) {
    for (const auto& entry : fs::recursive_directory_iterator(root / folder)) {
      const std::string extension = entry.path().extension().string();
      if (extension != ".h" && extension != ".cpp" && extension != ".cu" && extension != ".cuh") continue;
      ++files[std::string(folder)];
      const std::string path = entry.path().lexically_relative(root).generic_string();
      for (const std::string& wrong : violations(path, read(entry.path()))) FAIL_CHECK(wrong);
    }
  }
  // Nothing found wrong says nothing where nothing was read.
  CHECK(files.size() == kFolders.size());
  CHECK(files["kernels"] > 5);
}
