// `nascent measure` from outside: what it refuses and how it says so, what it leaves, and what becomes of NaN.
#include <cmath>
#include <cstring>
#include <fmt/ranges.h>
#include <limits>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "data/safetensors.h"
#include "kernels/philox.h"
#include "tests/catch.h"
#include "tests/commands.h"
#include "train/measure.h"

using namespace nascent;
using namespace nascent::test;

namespace {

// A tensor of a safetensors file, of any type the format knows.
struct Stored {
  std::string dtype;
  std::vector<std::int64_t> shape;
  std::string bytes;
};
using File = std::map<std::string, Stored>;

template <class T>
Stored stored(const std::string& dtype, std::vector<std::int64_t> shape, const std::vector<T>& values) {
  std::string bytes(values.size() * sizeof(T), '\0');
  if (!values.empty()) std::memcpy(bytes.data(), values.data(), bytes.size());
  return {dtype, std::move(shape), std::move(bytes)};
}

Stored ids(const std::vector<std::int64_t>& values) {
  return stored("I64", {static_cast<std::int64_t>(values.size())}, values);
}

Stored doubles(std::vector<std::int64_t> shape, const std::vector<double>& values) {
  return stored("F64", std::move(shape), values);
}

Stored normal(const std::string& name, std::int64_t rows, std::int64_t columns) {
  const Random random(3, "test", name);
  std::vector<float> values(static_cast<std::size_t>(rows * columns));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(random.normal(i));
  return stored("F32", {rows, columns}, values);
}

void write_stored(const std::string& path, const File& file) {
  std::string header, data;
  for (const auto& [name, tensor] : file) {
    header +=
        fmt::format(R"({}"{}":{{"dtype":"{}","shape":[{}],"data_offsets":[{},{}]}})", header.empty() ? "{" : ",", name,
                    tensor.dtype, fmt::join(tensor.shape, ","), data.size(), data.size() + tensor.bytes.size());
    data += tensor.bytes;
  }
  header += "}";
  const std::uint64_t length = header.size();
  std::string text(sizeof length, '\0');
  std::memcpy(text.data(), &length, sizeof length);
  write(path, text + header + data);
}

// Nine positions in R^4 at two taps, of five types.
File small_file() {
  return {{"h:embed", normal("a", 9, 4)},
          {"g:embed", normal("b", 9, 4)},
          {"h:blocks.0.resid_post", normal("c", 9, 4)},
          {"g:blocks.0.resid_post", normal("d", 9, 4)},
          {"token", ids({0, 1, 2, 0, 1, 2, 0, 1, 2})},
          {"counts", ids({5, 4, 3, 2, 1})}};
}

File with(File changes) {
  changes.merge(small_file());
  return changes;
}

struct RefusedFile {
  File file;
  std::string message;  // behind the file's name
};

const Record* find(const Records& records, const std::string& tap, const std::string& key, const std::string& labels) {
  for (const Record& r : records) {
    if (r.tap == tap && r.key == key && r.labels == labels) return &r;
  }
  return nullptr;
}

}  // namespace

TEST_CASE("measure refuses arrays that do not fit, naming file, tensor, what it is and what was expected") {
  const TemporaryFolder folder;
  const std::string integer = ", expected an integer from ";
  const std::vector<double> two_axes = {1, 0, 0, 1, 0, 0, 0, 0};
  std::vector<double> with_nan = two_axes;
  with_nan[0] = std::nan("");
  const std::vector<RefusedFile> all = {
      {{{"token", ids({0})}}, "no tensor h:TAP or g:TAP [N, d]"},
      {with({{"h:", normal("e", 9, 4)}}), "h: names no tap, expected h:TAP or g:TAP"},
      {with({{"h:embed", doubles({9}, std::vector<double>(9))}}),
       "h:embed has shape (9), expected [N, d], neither of them 0"},
      {with({{"h:embed", normal("e", 0, 4)}}), "h:embed has shape (0, 4), expected [N, d], neither of them 0"},
      {with({{"h:embed", normal("e", 9, 0)}}), "h:embed has shape (9, 0), expected [N, d], neither of them 0"},
      {with({{"g:embed", normal("e", 8, 4)}}), "g:embed has shape (8, 4), expected 9 rows as h:embed"},
      {with({{"g:embed", normal("e", 9, 5)}}), "g:embed has shape (9, 5), expected (9, 4) as h:embed"},
      {with({{"h:blocks.0.resid_post", normal("e", 8, 4)}}),
       "h:blocks.0.resid_post has shape (8, 4), expected 9 rows as h:embed"},
      {with({{"h:embed", stored("F16", {9, 4}, std::vector<std::uint16_t>(36))}}),
       "h:embed is of type F16, expected F32, F64 or BF16"},
      {with({{"h:embed", stored("I8", {9, 4}, std::vector<std::int8_t>(36))}}),
       "h:embed is of type I8, expected F32, F64 or BF16"},

      {with({{"token", ids({0, 1, 2, 0, 1, 2, 0, 1})}}), "token has 8 elements, expected 9, one a position"},
      {with({{"token", ids({})}}), "token has 0 elements, expected 9, one a position"},
      {with({{"token", stored("I64", {9, 1}, std::vector<std::int64_t>(9))}}),
       "token has shape (9, 1), expected one dimension"},
      {with({{"token", stored("F32", {9}, std::vector<float>(9))}}), "token is of type F32, expected I64, I32 or U16"},
      {with({{"token", ids({0, -1, 2, 0, 1, 2, 0, 1, 2})}}), "token[1] is -1" + integer + "0 to 4"},
      {with({{"token", ids({0, 1, 2, 0, 5, 2, 0, 1, 2})}}), "token[4] is 5" + integer + "0 to 4"},
      {with({{"sequence", ids({0, 0, 0, 0, -1, 1, 1, 1, 1})}}), "sequence[4] is -1" + integer + "0 to 2147483647"},
      {with({{"target", ids({0, -1, -2, 0, 1, 2, 0, 1, 2})}}), "target[2] is -2" + integer + "-1 to 4"},
      {with({{"target", ids({0, -1, 2, 0, 1, 2, 0, 1, 5})}}), "target[8] is 5" + integer + "-1 to 4"},
      {with({{"special", ids({2, 5})}}), "special[1] is 5" + integer + "0 to 4"},
      {with({{"counts", ids({5, 4, -3, 2, 1})}}), "counts[2] is -3" + integer + "0 to 9223372036854775807"},
      {with({{"counts", ids({})}}), "counts is empty, expected a count for each type"},

      {with({{"basis:sae", doubles({4, 2}, two_axes)}}), "basis:sae names no tap, expected basis:NAME:TAP"},
      {with({{"basis:sae:ln", doubles({4, 2}, two_axes)}}),
       "basis:sae:ln is of a tap without h:ln and g:ln, expected one that is here"},
      {with({{"basis::embed", doubles({4, 2}, two_axes)}}),
       "basis::embed calls the basis \"\", expected a name without , and ="},
      {with({{"basis:a,b:embed", doubles({4, 2}, two_axes)}}),
       "basis:a,b:embed calls the basis \"a,b\", expected a name without , and ="},
      {with({{"basis:sae:embed", doubles({8}, two_axes)}}),
       "basis:sae:embed has shape (8), expected [d, r], neither of them 0"},
      {with({{"basis:sae:embed", doubles({2, 4}, two_axes)}}),
       "basis:sae:embed: shape (2, 4), expected (4, r) with r from 1 to 3"},
      {with({{"basis:sae:embed", normal("e", 4, 4)}}),
       "basis:sae:embed: shape (4, 4), expected (4, r) with r from 1 to 3"},
      {with({{"basis:sae:embed", doubles({4, 2}, {1, 0.5, 0, 1, 0, 0, 0, 0})}}),
       "basis:sae:embed: columns 0 and 1 have product 0.5, expected orthonormal columns (to 0.0001)"},
      {with({{"basis:sae:embed", doubles({4, 2}, with_nan)}}),
       "basis:sae:embed: columns 0 and 0 have product nan, expected orthonormal columns (to 0.0001)"},
      {with({{"basis:sae:embed", stored("I32", {4, 1}, std::vector<std::int32_t>(4))}}),
       "basis:sae:embed is of type I32, expected F32, F64 or BF16"},
  };
  for (const RefusedFile& one : all) {
    write_stored(folder.file("x.st"), one.file);
    check_refused(folder, {{"measure x.st --probe tangent --json out.json", "nascent: x.st: " + one.message}});
  }
  CHECK(folder.names() == std::vector<std::string>{"x.st"});
}

TEST_CASE("measure refuses files and choices that it cannot use in one line, and leaves no output") {
  const TemporaryFolder folder;
  write_stored(folder.file("x.st"), small_file());
  write_stored(folder.file("bare.st"), {{"h:embed", normal("a", 9, 4)}});
  write(folder.path / "text.st", "The quick brown fox jumps over the lazy dog.");
  write(folder.path / "empty.st", "");
  write_stored(folder.file("h.st"), {{"h:embed", normal("a", 4, 4)}});
  write_stored(folder.file("narrow.st"), {{"h:embed", normal("a", 4, 3)}});
  write_stored(folder.file("integers.st"), {{"h:embed", stored("I32", {4, 4}, std::vector<std::int32_t>(16))}});
  write_stored(folder.file("nan.st"), {{"h:embed", doubles({4, 4}, std::vector<double>(16, std::nan("")))}});
  write_stored(folder.file("token.st"), with({{"basis:token:embed", doubles({4, 1}, {1, 0, 0, 0})}}));
  const std::size_t before = folder.names().size();
  const auto set = [](const std::string& assignment) {
    return "measure x.st --probe moments --json out.json --set " + assignment;
  };
  const std::string list = " given by --set: expected a list, each element an integer, 1 or more",
                    rank = " given by --set: expected an integer from 1 to 4096";
  check_refused(
      folder,
      {{"measure absent.st --probe moments --json out.json",
        "nascent: absent.st: cannot open the file: No such file or directory"},
       {"measure text.st --probe moments --json out.json", "nascent: text.st: the header claims ...safetensors file?)"},
       {"measure empty.st --probe moments --json out.json", "nascent: empty.st: empty, expected a safetensors file"},
       {"measure . --probe moments --json out.json", "nascent: .: is a directory, expected a file"},
       {"measure x.st --json out.json", "nascent measure: --probe is required; see nascent measure --help"},
       {"measure x.st --probe tangnt --json out.json",
        "nascent: --probe tangnt: expected one of gradient_energy, moments, tangent"},
       {"measure x.st --probe norms --json out.json",
        "nascent: --probe norms: expected one of gradient_energy, moments, tangent"},
       {"measure x.st --probe tangent --json absent/out.json",
        "nascent: absent/out.json.partial: cannot create the file: No such file or directory"},
       {"measure x.st --probe tangent --json .",
        "nascent: .: is a directory or a device, expected a file or nothing there"},

       {set("rnak=3"), "nascent: --set rnak=3: unknown key rnak; did you mean rank?"},
       {set("controls=3"), "nascent: --set controls=3: unknown key controls; did you mean ...?"},
       {set("rank"), "nascent: --set rank: expected KEY=VALUE"},
       {set("rank=few"), "nascent: rank = \"few\"" + rank},
       {set("rank=2.5"), "nascent: rank = 2.5" + rank},
       {set("rank=0"), "nascent: rank = 0" + rank},
       {set("z=1.5"), "nascent: z = 1.5 given by --set: expected a number from 0 to 1"},
       {set("local=near"), "nascent: local = \"near\" given by --set: expected one of \"off\", \"token\", \"knn\""},
       {set("edges=1,x"), "nascent: edges = \"1,x\"" + list},
       {set("edges=0,3"), "nascent: edges = \"0,3\"" + list},
       {set("edges=1,8,3"), "nascent: edges: edge 3 behind edge 8, expected ascending ranks"},
       {set("edges=2,8"), "nascent: edges: the first edge is rank 2, expected 1"},
       {"measure bare.st --probe tangent --json out.json --set edges=2",
        "nascent: edges: the first edge is rank 2, expected 1"},
       {set("special=1,5"), "nascent: x.st: special is 5 by --set, expected ids from 0 to 4"},
       {set("special=-1"), "nascent: special = -1 given by --set: ...an integer from 0 to 2147483647"},

       {"measure bare.st --probe tangent --json out.json --set local=token",
        "nascent: bare.st: local = token needs the tensor token [N]"},
       {"measure token.st --probe tangent --json out.json --set local=token",
        "nascent: token.st: basis:token:embed is called as the bases of neighbourhoods are, expected another name with "
        "local = token"},
       {set("c0=absent.st"), "nascent: absent.st: cannot open the file: No such file or directory"},
       {set("c0=h.st"), "nascent: h.st: holds no tensor g:embed"},
       {set("c0=narrow.st"), "nascent: narrow.st: h:embed has shape (4, 3), expected (4, 4)"},
       {set("c0=integers.st"), "nascent: integers.st: h:embed is of type I32, expected F32, F64 or BF16"},
       {set("c0=nan.st"), "nascent: nan.st: h:embed holds NaN or infinity, expected a covariance"}});
  CHECK(folder.names().size() == before);
}

TEST_CASE("a failed measure leaves the output of an earlier one as it was") {
  const TemporaryFolder folder;
  write_stored(folder.file("x.st"), with({{"token", ids({0})}}));
  write(folder.path / "out.json", "earlier");
  CHECK(nascent_in(folder.path, "measure x.st --probe moments --json out.json").exit_code == 2);
  CHECK(read(folder.path / "out.json") == "earlier");
  write_stored(folder.file("x.st"), small_file());
  CHECK(nascent_in(folder.path, "measure x.st --probe moments --json out.json").exit_code == 0);
  CHECK(read(folder.path / "out.json").starts_with("[{\"probe\": \"moments\""));
}

TEST_CASE("NaN or infinity in an array makes what is computed of it missing, and nothing else") {
  const TemporaryFolder folder;
  const float bad = GENERATE(std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(),
                             -std::numeric_limits<float>::infinity());
  const std::string array = GENERATE("h:embed", "g:embed", "h:blocks.0.resid_post", "g:blocks.0.resid_post");
  const std::string local = GENERATE("off", "token", "knn");
  const auto is_size = [](const Record& r) {  // these always have a value, which may be another
    return r.key == "n" || r.key == "zero_rows" || r.key == "rank" || r.key == "chance";
  };
  const auto is_of = [&](const Record& r) {
    const bool gradient = array[0] == 'g', here = r.tap == array.substr(2);
    const bool neighbourhoods = r.labels == "basis=token" || r.labels == "basis=knn";
    // The mean of each neighbourhood's own chance, where there are any.
    if (r.key == "chance" && r.probe == "tangent" && neighbourhoods) return here && !gradient;
    if (is_size(r)) return false;
    if (r.key == "cos_next") return gradient;  // of both taps
    if (!here) return false;
    if (r.probe == "moments") return (labels_of(r.labels).at("of") == "gradient") == gradient;
    if (r.probe == "tangent") return !gradient;
    return gradient || neighbourhoods || r.labels.empty() || r.labels.find("basis=current") != std::string::npos;
  };
  for (const char* probe : {"moments", "tangent", "gradient_energy"}) {
    File file = with({{"sequence", ids({0, 0, 0, 1, 1, 1, 2, 2, 2})},
                      {"target", ids({1, 2, 0, 1, 2, 0, 1, 2, -1})},
                      {"basis:sae:embed", doubles({4, 1}, {0, 1, 0, 0})},
                      {"basis:sae:blocks.0.resid_post", doubles({4, 1}, {0, 1, 0, 0})}});
    const MeasureOptions options{folder.file("x.st"), probe, {"rank=1", "local=" + local, "min_count=3"}, {}};
    write_stored(options.file, file);
    const Records clean = measure(options);
    std::memcpy(file[array].bytes.data() + 4 * sizeof bad, &bad, sizeof bad);
    write_stored(options.file, file);
    const Records records = measure(options);
    for (const Record& r : records) {
      INFO(bad << " in " << array << ": " << r.probe << " " << r.tap << " " << r.key << " " << r.labels);
      if (is_of(r)) {
        CHECK_FALSE(r.value.has_value());
        CHECK((r.reason == "NaN or infinity" || r.reason == "the basis has no directions"));
        continue;
      }
      const Record* as_before = find(clean, r.tap, r.key, r.labels);
      REQUIRE(as_before != nullptr);
      CHECK(r.value.has_value() == as_before->value.has_value());
      if (r.value && !is_size(r)) CHECK(*r.value == *as_before->value);
    }
    CHECK(records.size() > 8);
  }
}

TEST_CASE("taps are taken in the order of the network, whatever their names sort as") {
  const TemporaryFolder folder;
  File file;
  for (const char* tap : {"ln_final.normalized", "blocks.10.resid_post", "blocks.2.resid_post", "blocks.2.resid_pre",
                          "blocks.2.attn_out", "blocks.2.resid_mid", "blocks.2.mlp_out", "embed"})
    file[std::string("h:") + tap] = normal(tap, 5, 3);
  write_stored(folder.file("x.st"), file);
  std::vector<std::string> taps;
  for (const Record& r : measure({folder.file("x.st"), "moments", {}, {}})) {
    if (taps.empty() || taps.back() != r.tap) taps.push_back(r.tap);
  }
  CHECK(taps == std::vector<std::string>{"embed", "blocks.2.resid_pre", "blocks.2.attn_out", "blocks.2.resid_mid",
                                         "blocks.2.mlp_out", "blocks.2.resid_post", "blocks.10.resid_post",
                                         "ln_final.normalized"});
}

TEST_CASE("bf16 arrays are measured as the floats they are, aligned or not") {
  const TemporaryFolder folder;
  const std::vector<std::uint16_t> halves = {0x3f80, 0xbf80, 0x4000, 0x3e99, 0xc0a0, 0x0001, 0x3f81, 0x4120};
  std::vector<float> floats;
  for (const std::uint16_t half : halves) {
    const std::uint32_t bits = static_cast<std::uint32_t>(half) << 16;
    float value = 0;
    std::memcpy(&value, &bits, sizeof value);
    floats.push_back(value);
  }
  write_stored(folder.file("x.st"), {{"h:embed", stored("F32", {4, 2}, floats)}});
  const Records expected = measure({folder.file("x.st"), "moments", {}, {}});
  write_stored(folder.file("x.st"),
               {{"a", stored("U8", {1}, std::vector<std::uint8_t>(1))}, {"h:embed", stored("BF16", {4, 2}, halves)}});
  const Records records = measure({folder.file("x.st"), "moments", {}, {}});
  REQUIRE(records.size() == expected.size());
  for (std::size_t i = 0; i < records.size(); ++i) CHECK(records[i].value == expected[i].value);
}

TEST_CASE("the table has a line for each record, its columns one below the other, however long a label is") {
  const TemporaryFolder folder;
  const std::string name(90, 'x');
  File file = {{"g:embed", normal("a", 9, 4)}, {"basis:" + name + ":embed", doubles({4, 1}, {0, 1, 0, 0})}};
  file["basis:y:embed"] = file.at("basis:" + name + ":embed");
  write_stored(folder.file("x.st"), file);
  const Outcome outcome = nascent_in(folder.path, "measure x.st --probe gradient_energy");
  CHECK(outcome.exit_code == 0);
  std::istringstream text(outcome.output);
  std::string line;
  std::getline(text, line);
  const std::size_t labels = line.find("labels"), value_end = line.find("value") + 5;
  const Records records = measure({folder.file("x.st"), "gradient_energy", {}, {}});
  for (const Record& r : records) {
    std::getline(text, line);
    INFO(line);
    CHECK(line.starts_with("embed  " + r.key));
    CHECK(line.substr(labels).starts_with(r.labels + " "));
    CHECK(line.at(value_end - 1) != ' ');
    CHECK(line.at(value_end) == ' ');
    CHECK((r.value || line.ends_with("  " + r.reason)));
  }
  CHECK_FALSE(std::getline(text, line));
}

TEST_CASE("numbers whose squares overflow count as infinite") {
  const TemporaryFolder folder;
  std::vector<double> values(36, 1);
  for (std::size_t i = 0; i < values.size(); i += 5) values[i] = -1e200;
  for (const char* probe : {"moments", "tangent", "gradient_energy"}) {
    for (const char* array : {"h:embed", "g:embed"}) {
      write_stored(folder.file("x.st"), with({{array, doubles({9, 4}, values)}}));
      const Records records = measure({folder.file("x.st"), probe, {"rank=1", "local=knn"}, {}});
      std::size_t missing = 0;
      for (const Record& r : records) missing += r.reason == "NaN or infinity";
      CHECK((missing > 0 || (std::string(probe) == "tangent" && array[0] == 'g')));
    }
  }
}

TEST_CASE("gradients of neighbouring taps may be of different types") {
  const TemporaryFolder folder;
  File file = small_file();
  write_stored(folder.file("x.st"), file);
  const MeasureOptions options{folder.file("x.st"), "moments", {}, {}};
  const Records floats = measure(options);
  std::vector<float> values(36);
  std::memcpy(values.data(), file.at("g:embed").bytes.data(), file.at("g:embed").bytes.size());
  file["g:embed"] = doubles({9, 4}, {values.begin(), values.end()});
  write_stored(folder.file("x.st"), file);
  const Records mixed = measure(options);
  const auto cosine = [](const Records& records) {
    const Record* record = find(records, "embed", "cos_next", "of=gradient");
    REQUIRE(record != nullptr);
    return record->value.value();
  };
  CHECK(cosine(mixed) == Approx(cosine(floats)).epsilon(1e-12));
}
