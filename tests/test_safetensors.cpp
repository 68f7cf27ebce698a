#include <csignal>
#include <cstring>
#include <fstream>
#include <string>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

#include "data/safetensors.h"
#include "kernels/error.h"
#include "tests/catch.h"
#include "tests/temporary.h"

using namespace nascent;

namespace {

void write_bytes(const std::filesystem::path& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

std::string read_bytes(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::string with_length(const std::string& header, const std::string& data) {
  const std::uint64_t length = header.size();
  std::string bytes(8, '\0');
  std::memcpy(bytes.data(), &length, 8);
  return bytes + header + data;
}

// What opening a file of these bytes says; empty when it opens.
std::string refusal(const std::filesystem::path& path, const std::string& bytes) {
  write_bytes(path, bytes);
  try {
    SafetensorsFile file(path);
    for (const std::string& name : file.names()) file.entry(name);
    return "";
  } catch (const Error& e) {
    CHECK(e.exit_code() == 2);
    CHECK(std::string(e.what()).find(path.filename()) != std::string::npos);
    return e.what();
  }
}

}  // namespace

TEST_CASE("safetensors: what is written is read back, aligned, sorted, without holes and with the format named") {
  const TemporaryFolder folder;
  const auto path = folder.path / "model.safetensors";
  const std::vector<float> odd = {1, -2, 3};
  const std::vector<double> wide(33, 0.1);
  const std::vector<std::int32_t> ids = {7};
  write_safetensors(path,
                    {{"z.odd", View(odd.data(), DType::kF32, {3, 1})},
                     {"a.ids", View(ids.data(), DType::kI32, {})},
                     {"m.wide", View(wide.data(), DType::kF64, {3, 11})},
                     {"none", View(odd.data(), DType::kF32, {0, 5})}},
                    {{"step", "512"}});

  const std::string bytes = read_bytes(path);
  std::uint64_t header = 0;
  std::memcpy(&header, bytes.data(), 8);
  CHECK(header % 8 == 0);
  CHECK(bytes.size() == 8 + header + 3 * 4 + 33 * 8 + 4);
  CHECK_FALSE(std::filesystem::exists(path.string() + ".partial"));

  SafetensorsFile file(path);
  CHECK(file.names() == std::vector<std::string>{"a.ids", "m.wide", "none", "z.odd"});
  CHECK(file.metadata() == std::map<std::string, std::string>{{"format", "pt"}, {"step", "512"}});
  CHECK(file.at("z.odd").shape() == Shape{3, 1});
  CHECK(std::vector<float>(file.at("z.odd").data<float>(), file.at("z.odd").data<float>() + 3) == odd);
  CHECK(std::vector<double>(file.at("m.wide").data<double>(), file.at("m.wide").data<double>() + 33) == wide);
  CHECK(file.at("a.ids").shape() == Shape{});
  CHECK(*file.at("a.ids").data<std::int32_t>() == 7);
  CHECK(file.at("none").size() == 0);
  for (const std::string& name : file.names()) {
    const View view = file.at(name);
    CHECK(reinterpret_cast<std::uintptr_t>(view.address()) % size_of(view.dtype()) == 0);
    // Aligned as it lies, so not copied.
    CHECK(view.address() == file.entry(name).bytes.data());
  }
  CHECK_FALSE(file.has("absent"));
  CHECK_THROWS_AS(file.at("absent"), Error);
}

TEST_CASE("safetensors: a file cut at any byte is refused as the user's input") {
  const TemporaryFolder folder;
  const auto path = folder.path / "whole.safetensors";
  const std::vector<float> x(5, 1.5f);
  write_safetensors(path, {{"x", View(x.data(), DType::kF32, {5})}, {"y", View(x.data(), DType::kF32, {1, 3})}});
  const std::string whole = read_bytes(path);
  CHECK(refusal(folder.path / "cut", whole).empty());
  for (std::size_t n = 0; n < whole.size(); ++n) {
    INFO("cut to " << n << " bytes");
    CHECK_FALSE(refusal(folder.path / "cut", whole.substr(0, n)).empty());
  }
  CHECK_FALSE(refusal(folder.path / "cut", whole + "x").empty());
}

TEST_CASE("safetensors: no change of one byte of the header crashes, and none reaches past the data") {
  const TemporaryFolder folder;
  const auto path = folder.path / "whole.safetensors";
  const std::vector<float> x(5, 1.5f);
  write_safetensors(path, {{"x", View(x.data(), DType::kF32, {5})}, {"y", View(x.data(), DType::kF32, {1, 3})}});
  const std::string whole = read_bytes(path);
  std::uint64_t header = 0;
  std::memcpy(&header, whole.data(), 8);
  for (std::size_t at = 0; at < 8 + header; ++at) {
    for (const char c : {'\0', '9', '"', '[', '}', '-', '\xff'}) {
      std::string bytes = whole;
      bytes[at] = c;
      write_bytes(folder.path / "flipped", bytes);
      try {
        SafetensorsFile file(folder.path / "flipped");
        std::size_t total = 0;
        for (const std::string& name : file.names()) total += file.entry(name).bytes.size();
        CHECK(total == whole.size() - 8 - header);
      } catch (const Error& e) {
        CHECK(e.exit_code() == 2);
      }
    }
  }
}

TEST_CASE("safetensors: a hostile header is refused and the message names what was expected") {
  const TemporaryFolder folder;
  const auto path = folder.path / "hostile";
  const std::string data(8, 'd');
  const auto refused = [&](const std::string& header) { return refusal(path, with_length(header, data)); };
  const auto contains = [](const std::string& text, const std::string& part) {
    INFO(text);
    CHECK(text.find(part) != std::string::npos);
  };
  CHECK(refused(R"({"x":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})").empty());

  contains(refused("not json"), "not JSON");
  contains(refused("[]"), "not a JSON object");
  contains(refused("{}"), "the tensors end at byte 0");
  contains(refused(R"({"x":3})"), "expected dtype, shape and data_offsets");
  contains(refused(R"({"__metadata__":{"a":1}})"), "not a string");
  contains(refused(R"({"x":{"dtype":"F12","shape":[2],"data_offsets":[0,8]}})"), "dtype is \"F12\"");
  contains(refused(R"({"x":{"shape":[2],"data_offsets":[0,8]}})"), "dtype is missing");
  contains(refused(R"({"x":{"dtype":"F32","shape":[-2],"data_offsets":[0,8]}})"), "not a list of sizes");
  contains(refused(R"({"x":{"dtype":"F32","shape":[2.0],"data_offsets":[0,8]}})"), "not a list of sizes");
  contains(refused(R"({"x":{"dtype":"F32","shape":[1,1,1,1,2],"data_offsets":[0,8]}})"), "5 dimensions, at most 4");
  contains(refused(R"({"x":{"dtype":"F32","shape":[3],"data_offsets":[0,8]}})"), "takes 12 bytes, data_offsets hold 8");
  contains(refused(R"({"x":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,8]}})"), "too large");
  contains(refused(R"({"x":{"dtype":"F32","shape":[2],"data_offsets":[8,0]}})"), "not [begin, end]");
  contains(refused(R"({"x":{"dtype":"F32","shape":[2],"data_offsets":[0]}})"), "not [begin, end]");
  contains(refused(R"({"x":{"dtype":"F32","shape":[3],"data_offsets":[0,12]}})"), "the file has 8");
  contains(refused(R"({"x":{"dtype":"F32","shape":[2],"data_offsets":[18446744073709551612,4]}})"), "[begin, end]");
  contains(refused(R"({"x":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})"),
           "begins at byte 4 of the data, expected 0");
  contains(refused(R"({"x":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},)"
                   R"("y":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})"),
           "begins at byte 4 of the data, expected 8");
  contains(refused(R"({"x":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},)"
                   R"("x":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})"),
           "twice");
  contains(refused(std::string(100000, '[')), "nests deeper");

  std::string huge = with_length("{}", "");
  huge.replace(0, 8, 8, '\xff');
  contains(refusal(path, huge), "the header claims");
  contains(refusal(path, ""), "empty");
  CHECK_THROWS_AS(SafetensorsFile(folder.path), Error);
  CHECK_THROWS_AS(SafetensorsFile(folder.path / "absent"), Error);
}

TEST_CASE(
    "safetensors: foreign files may list tensors in any order, misalign them, and hold types that views do "
    "not") {
  const TemporaryFolder folder;
  const auto path = folder.path / "foreign";
  const float one = 1.0f;
  std::string data(6, '\0');
  std::memcpy(data.data() + 2, &one, 4);
  std::string header = R"({"x":{"dtype":"F32","shape":[1],"data_offsets":[2,6]},)"
                       R"("b":{"dtype":"BF16","shape":[1],"data_offsets":[0,2]}})";
  while (header.size() % 8 != 0) header += ' ';
  write_bytes(path, with_length(header, data));
  SafetensorsFile file(path);
  CHECK(*file.at("x").data<float>() == 1.0f);
  CHECK(reinterpret_cast<std::uintptr_t>(file.at("x").address()) % 4 == 0);
  CHECK(file.entry("b").dtype == "BF16");
  try {
    file.at("b");
    FAIL("a BF16 tensor was seen as a View");
  } catch (const Error& e) {
    CHECK(e.exit_code() == 2);
    CHECK(std::string(e.what()).find("b: dtype is BF16, expected F32, F64 or I32") != std::string::npos);
  }
}

TEST_CASE("safetensors: a full disk is blamed on the machine and leaves the earlier file whole") {
  const TemporaryFolder folder;
  const auto path = folder.path / "model.safetensors";
  const std::vector<float> x(100000, 2.0f);
  const auto size = static_cast<std::int64_t>(x.size());
  write_safetensors(path, {{"x", View(x.data(), DType::kF32, {3})}});
  const std::string before = read_bytes(path);

  // A limit on file size fails the write as a full disk does. In a child, as the limit cannot be raised
  // again.
  const pid_t child = ::fork();
  if (child == 0) {
    std::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{4096, 4096};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    try {
      write_safetensors(path, {{"x", View(x.data(), DType::kF32, {size})}});
    } catch (const Error& e) {
      ::_exit(e.exit_code());
    }
    ::_exit(0);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 1);
  CHECK(read_bytes(path) == before);
  CHECK_FALSE(std::filesystem::exists(path.string() + ".partial"));
}
