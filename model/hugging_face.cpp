#include "model/hugging_face.h"

#include <algorithm>
#include <cstring>
#include <deque>
#include <vector>

#include "data/file.h"
#include "data/json.h"
#include "data/safetensors.h"
#include "kernels/error.h"

namespace nascent {
namespace {

// to [n, m] = from [m, n] transposed
void transpose(const Tensor& to, const View& from) {
  const std::int64_t rows = to.shape()[0], cols = to.shape()[1];
  dispatch(to.dtype(), [&]<class T>() {
    T* out = to.data<T>();
    const T* in = from.data<T>();
    for (std::int64_t i = 0; i < rows; ++i) {
      for (std::int64_t j = 0; j < cols; ++j) out[i * cols + j] = in[j * rows + i];
    }
  });
}

Shape shape_in_file(const Parameter& p) {
  const Shape& s = p.value.shape();
  return p.transposed ? Shape{s[1], s[0]} : s;
}

// A name with or without the prefix that some files leave out: "transformer.h.0..." and "h.0...".
std::string name_in(const SafetensorsFile& file, const std::string& name) {
  const std::string bare = name.substr(name.find('.') + 1);
  return !file.has(name) && file.has(bare) ? bare : name;
}

void load(const Parameter& p, SafetensorsFile& file, const std::string& path) {
  const std::string name = name_in(file, p.name);
  if (!file.has(name))
    throw input_error("{}: no tensor {}, expected one of shape {}", path, p.name, shape_in_file(p).text());
  const View stored = file.at(name);
  if (stored.shape() != shape_in_file(p)) {
    throw input_error("{}: {} has shape {}, expected {}", path, name, stored.shape().text(), shape_in_file(p).text());
  }
  if (stored.dtype() != p.value.dtype()) {
    throw input_error("{}: {} is {}, expected {} as the other tensors", path, name, name_of(stored.dtype()),
                      name_of(p.value.dtype()));
  }
  if (p.transposed) {
    transpose(p.value, stored);
  } else {
    std::memcpy(p.value.address(), stored.address(), stored.bytes());
  }
}

}  // namespace

void save_pretrained(const std::filesystem::path& folder, const Transformer& model) {
  const Family& family = family_of(model.spec().family);
  write_file(folder / "config.json", family.to_config(model.spec()).dump());
  std::vector<NamedView> tensors;
  Slab turned("transposed weights");
  std::deque<std::pair<Tensor, const Parameter*>> to_turn;
  for (const Parameter& p : model.parameters()) {
    if (!p.transposed) {
      tensors.push_back({p.name, p.value});
      continue;
    }
    to_turn.emplace_back(Tensor(), &p);
    turned.place(to_turn.back().first, p.name, p.value.dtype(), shape_in_file(p));
  }
  turned.allocate();
  for (const auto& [tensor, parameter] : to_turn) {
    transpose(tensor, parameter->value);
    tensors.push_back({parameter->name, tensor});
  }
  write_safetensors(folder / "model.safetensors", std::move(tensors));
}

std::unique_ptr<Transformer> load_pretrained(const std::filesystem::path& folder) {
  const std::string config_path = folder / "config.json";
  const JsonObject config = JsonObject::parse(read_file(config_path), config_path);
  const std::string type = config.text("model_type", "");
  const auto names = family_names();
  if (std::find(names.begin(), names.end(), type) == names.end()) {
    throw input_error("{}: model_type is \"{}\", expected one of: {}", config_path, type, fmt::join(names, ", "));
  }
  const Family& family = family_of(type);
  TransformerSpec spec = family.from_config(config);
  spec.family = type;
  family.complete(spec);
  try {
    spec.check();
  } catch (const Error& e) {
    throw input_error("{}: {}", config_path, e.what());
  }

  const std::filesystem::path path = folder / "model.safetensors";
  SafetensorsFile file(path);
  if (file.names().empty()) throw input_error("{}: holds no tensor", path.string());
  const bool twice = file.entry(file.names().front()).dtype == "F64";
  auto model = std::make_unique<Transformer>(spec, twice ? DType::kF64 : DType::kF32);
  std::vector<std::string> known;
  for (const Parameter& p : model->parameters()) {
    load(p, file, path);
    known.push_back(name_in(file, p.name));
  }
  for (const std::string& name : file.names()) {
    const auto meaningless = [&](const std::string& suffix) { return name.ends_with(suffix); };
    if (std::find(known.begin(), known.end(), name) != known.end()) continue;
    if (std::any_of(family.ignored.begin(), family.ignored.end(), meaningless)) continue;
    throw input_error("{}: tensor {} belongs to no part of family {}", path.string(), name, type);
  }
  return model;
}

}  // namespace nascent
