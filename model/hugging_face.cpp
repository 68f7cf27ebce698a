#include "model/hugging_face.h"

#include <algorithm>
#include <deque>
#include <vector>

#include "data/file.h"
#include "data/json.h"
#include "data/safetensors.h"
#include "kernels/error.h"

namespace nascent {
namespace {

// The name a file has for a parameter: its own, the same without the prefix that some files leave out ("transformer.h.0..."
// and "h.0..."), or its alias.
std::string name_in(const SafetensorsFile& file, const Parameter& p) {
  const std::string bare = p.name.substr(p.name.find('.') + 1);
  for (const std::string& name : {p.name, bare, p.alias}) {
    if (file.has(name)) return name;
  }
  return p.name;
}

void load(const Parameter& p, SafetensorsFile& file, const std::string& path) {
  const std::string name = name_in(file, p);
  if (!file.has(name))
    throw input_error("{}: no tensor {}, expected one of shape {}", path, p.name,
                      shape_in_file(p.layout, p.value.shape()).text());
  const View stored = file.at(name);
  if (stored.shape() != shape_in_file(p.layout, p.value.shape())) {
    throw input_error("{}: {} has shape {}, expected {}", path, name, stored.shape().text(),
                      shape_in_file(p.layout, p.value.shape()).text());
  }
  if (stored.dtype() != p.value.dtype()) {
    throw input_error("{}: {} is {}, expected {} as the other tensors", path, name, name_of(stored.dtype()),
                      name_of(p.value.dtype()));
  }
  from_file(p.value, stored, p.layout);
}

}  // namespace

void save_pretrained(const std::filesystem::path& folder, const Transformer& model) {
  const Family& family = family_of(model.spec().family);
  write_file(folder / "config.json", family.to_config(model.spec()).dump());
  std::vector<NamedView> tensors;
  Slab laid_out("tensors in the file's layout");
  std::deque<std::pair<Tensor, const Parameter*>> others;
  for (const Parameter& p : model.parameters()) {
    if (p.layout.kind == Layout::kPlain) {
      tensors.push_back({p.name, p.value});
      continue;
    }
    others.emplace_back(Tensor(), &p);
    laid_out.place(others.back().first, p.name, p.value.dtype(), shape_in_file(p.layout, p.value.shape()));
  }
  laid_out.allocate();
  for (const auto& [tensor, parameter] : others) {
    to_file(tensor, parameter->value, parameter->layout);
    tensors.push_back({parameter->name, tensor});
  }
  write_safetensors(folder / "model.safetensors", std::move(tensors));
}

TransformerSpec load_spec(const std::filesystem::path& folder) {
  const std::string config_path = folder / "config.json";
  const JsonObject config = JsonObject::parse(read_file(config_path), config_path);
  const std::string type = config.text("model_type", "");
  const Family& family = family_of_model_type(type, config_path);
  TransformerSpec spec = family.from_config(config);
  spec.family = family.name;
  family.complete(spec);
  try {
    spec.check();
  } catch (const Error& e) {
    throw input_error("{}: {}", config_path, e.what());
  }
  return spec;
}

void load_weights(const std::filesystem::path& folder, Transformer& model) {
  const std::filesystem::path path = folder / "model.safetensors";
  SafetensorsFile file(path);
  const Family& family = family_of(model.spec().family);
  std::vector<std::string> known;
  for (const Parameter& p : model.parameters()) {
    load(p, file, path);
    known.push_back(name_in(file, p));
  }
  for (const std::string& name : file.names()) {
    const auto meaningless = [&](const std::string& suffix) { return name.ends_with(suffix); };
    if (std::find(known.begin(), known.end(), name) != known.end()) continue;
    if (std::any_of(family.ignored.begin(), family.ignored.end(), meaningless)) continue;
    throw input_error("{}: tensor {} belongs to no part of family {}", path.string(), name, family.name);
  }
}

std::unique_ptr<Transformer> load_pretrained(const std::filesystem::path& folder) {
  const TransformerSpec spec = load_spec(folder);
  const std::filesystem::path path = folder / "model.safetensors";
  const SafetensorsFile file(path);
  if (file.names().empty()) throw input_error("{}: holds no tensor", path.string());
  const bool twice = file.entry(file.names().front()).dtype == "F64";
  auto model = std::make_unique<Transformer>(spec, twice ? DType::kF64 : DType::kF32);
  load_weights(folder, *model);
  return model;
}

}  // namespace nascent
