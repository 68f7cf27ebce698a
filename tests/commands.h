// The program from outside: runs it in a folder of its own and looks at what it says and leaves.
#pragma once

#include <array>
#include <cstdio>
#include <filesystem>
#include <fmt/format.h>
#include <fstream>
#include <iterator>
#include <string>
#include <sys/wait.h>
#include <vector>

#include "kernels/philox.h"
#include "tests/catch.h"
#include "tests/temporary.h"

namespace nascent::test {

namespace fs = std::filesystem;

struct Outcome {
  int exit_code = -1;
  std::string output;  // stdout and stderr
  bool says(const std::string& words) const { return output.find(words) != std::string::npos; }
};

// Runs a command through the shell.
inline Outcome output_of(const std::string& command) {
  std::FILE* pipe = ::popen((command + " 2>&1").c_str(), "r");
  REQUIRE(pipe != nullptr);
  Outcome outcome;
  std::array<char, 4096> buffer{};
  for (std::size_t n = 0; (n = std::fread(buffer.data(), 1, buffer.size(), pipe)) > 0;)
    outcome.output.append(buffer.data(), n);
  const int status = ::pclose(pipe);
  if (WIFEXITED(status)) outcome.exit_code = WEXITSTATUS(status);
  return outcome;
}

// Runs `nascent ARGUMENTS` in a folder.
inline Outcome nascent_in(const fs::path& folder, const std::string& arguments) {
  return output_of(fmt::format("cd '{}' && '{}' {}", folder.string(), NASCENT_PROGRAM, arguments));
}

inline void write(const fs::path& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
  REQUIRE(fs::file_size(path) == text.size());
}

inline std::string read(const fs::path& path) {
  std::ifstream stream(path, std::ios::binary);
  REQUIRE(stream);
  return {std::istreambuf_iterator<char>(stream), {}};
}

// 60 documents of four lines each, words drawn from a few.
inline std::string small_text() {
  const std::vector<std::string> words = {"the", "king", "went", "up",  "to",    "house", "and",  "said",
                                          "in",  "days", "of",   "old", "light", "over",  "deep", "water"};
  const Random random(7, "test", "text");
  std::string text;
  std::uint64_t drawn = 0;
  for (int line = 0; line < 240; ++line) {
    for (int word = 0; word < 9; ++word) text += words[random.bits(drawn++) % words.size()] + (word == 8 ? "\n" : " ");
    if (line % 4 == 3) text += "\n";
  }
  return text;
}

inline constexpr const char* kConfig = R"(name = "tiny"
[model]
width = 16
layers = 1
heads = 2
[data]
tokens = "tiny"
tokenizer = "tiny.model"
heldout = 0.1
sequence = 16
[train]
steps = 3
batch = 4
)";

// A folder with text, tokenizer, token file and tiny.toml.
struct Workplace : TemporaryFolder {
  Workplace() {
    write(path / "tiny.txt", small_text());
    write(path / "tiny.toml", kConfig);
    const Outcome fitted = run("corpus train-tokenizer tiny.txt --vocab 300 --out tiny.model");
    INFO(fitted.output);
    REQUIRE(fitted.exit_code == 0);
    const Outcome tokenized = run("corpus tokenize tiny.txt --tokenizer tiny.model --out tiny --append-eos");
    INFO(tokenized.output);
    REQUIRE(tokenized.exit_code == 0);
    REQUIRE(tokenized.says("60 documents"));
  }
  Outcome run(const std::string& arguments) const { return nascent_in(path, arguments); }
  fs::path weights(const std::string& run, int step) const {
    return path / "runs" / run / "checkpoints" / fmt::format("step_{:08}", step) / "model.safetensors";
  }
};

// Arguments after which the program stops, and the one line it says; "..." in it stands for any text.
struct Refused {
  std::string arguments, line;
};

inline bool fits(const std::string& output, const std::string& line) {
  const std::size_t gap = line.find("...");
  if (gap == std::string::npos) return output == line + "\n";
  const std::string begin = line.substr(0, gap), end = line.substr(gap + 3) + "\n";
  return output.size() >= begin.size() + end.size() && output.starts_with(begin) && output.ends_with(end) &&
         output.find('\n') == output.size() - 1;
}

inline void check_refused(const TemporaryFolder& folder, const std::vector<Refused>& all) {
  for (const Refused& r : all) {
    const Outcome outcome = nascent_in(folder.path, r.arguments);
    INFO("nascent " << r.arguments << "\nsays " << outcome.output << "not " << r.line);
    CHECK(fits(outcome.output, r.line));
    CHECK(outcome.exit_code == 2);
  }
}

}  // namespace nascent::test
