#include "data/safetensors.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "kernels/error.h"

namespace nascent {
namespace {

using nlohmann::json;

static_assert(std::endian::native == std::endian::little, "safetensors files are little-endian");

constexpr const char* kMetadata = "__metadata__";
constexpr std::uint64_t kLengthBytes = 8;
constexpr std::uint64_t kMaxHeader = 100'000'000;  // the reference implementation's limit
constexpr int kMaxDepth = 2;                       // of JSON: {name: {shape: [...]}}

// Types the format knows, by bytes per element.
const std::map<std::string, std::uint64_t> kKnownTypes = {
    {"BOOL", 1}, {"U8", 1},  {"I8", 1},  {"F8_E4M3", 1}, {"F8_E5M2", 1}, {"I16", 2}, {"U16", 2}, {"F16", 2},
    {"BF16", 2}, {"I32", 4}, {"U32", 4}, {"F32", 4},     {"I64", 8},     {"U64", 8}, {"F64", 8},
};

const char* file_name_of(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return "F32";
    case DType::kF64:
      return "F64";
    case DType::kI32:
      return "I32";
  }
  return "?";
}

std::optional<DType> dtype_named(const std::string& name) {
  for (DType dtype : {DType::kF32, DType::kF64, DType::kI32}) {
    if (name == file_name_of(dtype)) return dtype;
  }
  return std::nullopt;
}

// The header's text, padded with spaces so that the elements start at a multiple of 8.
std::string header_of(const std::vector<NamedView>& tensors, const std::map<std::string, std::string>& metadata) {
  json header = {{kMetadata, metadata}};
  std::uint64_t offset = 0;
  for (const auto& [name, view] : tensors) {
    if (view.device() != Device::kCpu) {
      throw machine_error("tensor {} is on {}, expected cpu", name, name_of(view.device()));
    }
    if (header.contains(name)) throw machine_error("tensor {} is given twice", name);
    json shape = json::array();
    for (int i = 0; i < view.shape().rank(); ++i) shape.push_back(view.shape()[i]);
    header[name] = {
        {"dtype", file_name_of(view.dtype())}, {"shape", shape}, {"data_offsets", {offset, offset + view.bytes()}}};
    offset += view.bytes();
  }
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');
  return text;
}

Shape shape_from(const std::vector<std::int64_t>& d) {
  switch (d.size()) {
    case 0:
      return {};
    case 1:
      return {d[0]};
    case 2:
      return {d[0], d[1]};
    case 3:
      return {d[0], d[1], d[2]};
    default:
      return {d[0], d[1], d[2], d[3]};
  }
}

// A number from the file that must be 0 or more; nothing for anything else, also for what exceeds 63 bits.
std::optional<std::int64_t> natural(const json& value) {
  if (!value.is_number_unsigned()) return std::nullopt;
  const auto n = value.get<std::uint64_t>();
  if (n > static_cast<std::uint64_t>(INT64_MAX)) return std::nullopt;
  return static_cast<std::int64_t>(n);
}

std::optional<std::vector<std::int64_t>> naturals(const json& object, const char* key) {
  const auto list = object.find(key);
  if (list == object.end() || !list->is_array()) return std::nullopt;
  std::vector<std::int64_t> numbers;
  for (const json& value : *list) {
    const std::optional<std::int64_t> n = natural(value);
    if (!n) return std::nullopt;
    numbers.push_back(*n);
  }
  return numbers;
}

// Parses with a bound on depth (a header of brackets would fill the memory) and without silently dropping
// doubled names.
json parse_header(const std::string& file, std::string_view text) {
  std::size_t names = 0;
  const auto watch = [&](int depth, json::parse_event_t event, json&) {
    const bool opens = event == json::parse_event_t::object_start || event == json::parse_event_t::array_start;
    if (opens && depth > kMaxDepth) {
      throw input_error("{}: the header nests deeper than name, field, list", file);
    }
    names += event == json::parse_event_t::key && depth == 1;
    return true;
  };
  try {
    json header = json::parse(text, watch);
    if (!header.is_object()) throw input_error("{}: the header is not a JSON object of tensors", file);
    if (header.size() != names) throw input_error("{}: the header names a tensor twice", file);
    return header;
  } catch (const json::exception& e) {
    throw input_error("{}: the header is not JSON: {}", file, e.what());
  }
}

std::map<std::string, std::string> read_metadata(const std::string& file, const json& value) {
  std::map<std::string, std::string> metadata;
  if (!value.is_object()) throw input_error("{}: {} is not an object of strings", file, kMetadata);
  for (const auto& [key, text] : value.items()) {
    if (!text.is_string()) throw input_error("{}: {}: {} is not a string", file, kMetadata, key);
    metadata[key] = text;
  }
  return metadata;
}

// What the header says of one tensor.
struct Field {
  std::string name, dtype;
  Shape shape;
  std::size_t begin, end;  // bytes from the start of the data
};

// Checks that the field agrees with itself and lies in the data, which has `data_bytes` bytes.
Field read_field(const std::string& file, const std::string& name, const json& value, std::size_t data_bytes) {
  if (!value.is_object()) throw input_error("{}: {}: expected dtype, shape and data_offsets", file, name);
  const auto dtype = value.find("dtype");
  if (dtype == value.end() || !dtype->is_string() || !kKnownTypes.contains(*dtype)) {
    const std::string found = dtype == value.end() ? "missing" : dtype->dump();
    throw input_error("{}: {}: dtype is {}, expected F32, F64, I32, BF16, ...", file, name, found);
  }
  const auto dims = naturals(value, "shape");
  if (!dims) throw input_error("{}: {}: shape is not a list of sizes", file, name);
  if (dims->size() > Shape::kMaxRank) {
    throw input_error("{}: {}: shape has {} dimensions, at most {}", file, name, dims->size(), Shape::kMaxRank);
  }
  const auto offsets = naturals(value, "data_offsets");
  if (!offsets || offsets->size() != 2 || (*offsets)[0] > (*offsets)[1]) {
    throw input_error("{}: {}: data_offsets is not [begin, end]", file, name);
  }
  const auto begin = static_cast<std::size_t>((*offsets)[0]), end = static_cast<std::size_t>((*offsets)[1]);
  if (end > data_bytes) {
    throw input_error("{}: {}: ends at byte {} of the data, the file has {} (cut short?)", file, name, end, data_bytes);
  }
  const Shape shape = shape_from(*dims);
  std::uint64_t bytes = kKnownTypes.at(*dtype);
  for (std::int64_t n : *dims) {
    if (__builtin_mul_overflow(bytes, static_cast<std::uint64_t>(n), &bytes)) {
      throw input_error("{}: {}: shape {} is too large", file, name, shape.text());
    }
  }
  if (bytes != end - begin) {
    throw input_error("{}: {}: {} of shape {} takes {} bytes, data_offsets hold {}", file, name,
                      dtype->get<std::string>(), shape.text(), bytes, end - begin);
  }
  return {name, *dtype, shape, begin, end};
}

// Without holes and overlaps: each tensor begins where the one before it ends, and the last ends with the
// data.
void require_contiguous(const std::string& file, std::vector<Field> fields, std::size_t data_bytes) {
  std::sort(fields.begin(), fields.end(),
            [](const Field& a, const Field& b) { return std::pair(a.begin, a.end) < std::pair(b.begin, b.end); });
  std::size_t end = 0;
  for (const Field& field : fields) {
    if (field.begin != end) {
      throw input_error("{}: {}: begins at byte {} of the data, expected {}", file, field.name, field.begin, end);
    }
    end = field.end;
  }
  if (end != data_bytes) {
    throw input_error("{}: the tensors end at byte {} of the data, the file has {}", file, end, data_bytes);
  }
}

}  // namespace

void write_safetensors(const std::string& path, std::vector<NamedView> tensors,
                       std::map<std::string, std::string> metadata) {
  std::sort(tensors.begin(), tensors.end(), [](const NamedView& a, const NamedView& b) {
    const auto size_a = size_of(a.view.dtype()), size_b = size_of(b.view.dtype());
    return size_a != size_b ? size_a > size_b : a.name < b.name;
  });
  metadata.emplace("format", "pt");
  std::string header;
  try {
    header = header_of(tensors, metadata);
  } catch (const std::exception& e) {
    throw machine_error("{}: cannot write: {}", path, e.what());
  }
  const std::uint64_t length = header.size();

  AtomicFile file(path);
  file.append(std::as_bytes(std::span(&length, 1)));
  file.append(header);
  for (const auto& [name, view] : tensors) {
    file.append({static_cast<const std::byte*>(view.address()), view.bytes()});
  }
  file.commit();
}

SafetensorsFile::SafetensorsFile(const std::string& path) : file_(path) {
  if (file_.size() == 0) throw input_error("{}: empty, expected a safetensors file", path);
  if (file_.size() < kLengthBytes) {
    throw input_error("{}: {} bytes, expected at least {}", path, file_.size(), kLengthBytes);
  }
  std::uint64_t length = 0;
  std::memcpy(&length, file_.bytes().data(), kLengthBytes);
  if (length > kMaxHeader) {
    throw input_error("{}: the header claims {} bytes, at most {} (is it a safetensors file?)", path, length,
                      kMaxHeader);
  }
  if (length > file_.size() - kLengthBytes) {
    throw input_error("{}: the header claims {} bytes, the file has {} (cut short?)", path, length,
                      file_.size() - kLengthBytes);
  }
  const std::span<const std::byte> data = file_.bytes().subspan(kLengthBytes + length);
  const json header = parse_header(path, file_.text().substr(kLengthBytes, length));

  std::vector<Field> fields;
  for (const auto& [name, value] : header.items()) {
    if (name == kMetadata) {
      metadata_ = read_metadata(path, value);
      continue;
    }
    const Field field = fields.emplace_back(read_field(path, name, value, data.size()));
    names_.push_back(name);
    entries_[name] = {field.dtype, field.shape, data.subspan(field.begin, field.end - field.begin)};
  }
  require_contiguous(path, std::move(fields), data.size());
}

const SafetensorsFile::Entry& SafetensorsFile::entry(const std::string& name) const {
  const auto found = entries_.find(name);
  if (found == entries_.end()) throw input_error("{}: holds no tensor {}", file_.path(), name);
  return found->second;
}

View SafetensorsFile::at(const std::string& name) {
  const Entry& found = entry(name);
  const std::optional<DType> dtype = dtype_named(found.dtype);
  if (!dtype) {
    throw input_error("{}: {}: dtype is {}, expected F32, F64 or I32", file_.path(), name, found.dtype);
  }
  const std::byte* data = found.bytes.data();
  if (reinterpret_cast<std::uintptr_t>(data) % size_of(*dtype) != 0) {
    copies_.push_back(std::make_unique<std::byte[]>(found.bytes.size()));
    std::memcpy(copies_.back().get(), data, found.bytes.size());
    data = copies_.back().get();
  }
  return {data, *dtype, found.shape};
}

View SafetensorsFile::floats(const std::string& name) {
  const Entry& found = entry(name);
  if (found.dtype == "F32" || found.dtype == "F64") return at(name);
  if (found.dtype != "BF16") {
    throw input_error("{}: {} is of type {}, expected F32, F64 or BF16", file_.path(), name, found.dtype);
  }
  const auto n = static_cast<std::size_t>(found.shape.size());
  std::byte* data = copies_.emplace_back(std::make_unique<std::byte[]>(n * sizeof(float))).get();
  for (std::size_t i = 0; i < n; ++i) {
    std::uint16_t upper = 0;
    std::memcpy(&upper, found.bytes.data() + i * sizeof upper, sizeof upper);
    const std::uint32_t bits = static_cast<std::uint32_t>(upper) << 16;
    std::memcpy(data + i * sizeof bits, &bits, sizeof bits);
  }
  return {data, DType::kF32, found.shape};
}

}  // namespace nascent
