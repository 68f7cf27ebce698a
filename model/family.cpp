#include "model/family.h"

#include <algorithm>
#include <map>

#include "kernels/error.h"

namespace nascent {
namespace {

// Filled before main() by the files of families/, then only read.
std::map<std::string, Family>& registry() {
  static std::map<std::string, Family> families;
  return families;
}

}  // namespace

RegisterFamily::RegisterFamily(Family family) {
  const std::string name = family.name;
  if (!registry().emplace(name, std::move(family)).second) throw machine_error("family {} is registered twice", name);
}

const Family& family_of(const std::string& name) {
  const auto found = registry().find(name);
  if (found != registry().end()) return found->second;
  throw input_error("model.family = \"{}\": no such family, expected one of: {}", name,
                    fmt::join(family_names(), ", "));
}

std::vector<std::string> family_names() {
  std::vector<std::string> names;
  for (const auto& [name, family] : registry()) names.push_back(name);
  return names;
}

const Family& family_of_model_type(const std::string& type, const std::string& where) {
  std::vector<std::string> types;
  for (const auto& [name, family] : registry()) {
    if (family.model_type == type) return family;
    types.push_back(family.model_type);
  }
  throw input_error("{}: model_type is \"{}\", expected one of: {}", where, type, fmt::join(types, ", "));
}

bool Family::has(const std::string& role) const {
  return std::ranges::any_of(tensors, [&](const TensorName& t) { return t.role == role; });
}

const TensorName& Family::tensor(const std::string& role) const {
  for (const TensorName& t : tensors) {
    if (t.role == role) return t;
  }
  throw machine_error("family {}: no tensor name for {}", name, role);
}

void TransformerSpec::check() const {
  const auto within = [](const char* what, std::int64_t n, std::int64_t most) {
    if (n < 1 || n > most) throw input_error("model.{} = {}: expected 1 to {}", what, n, most);
  };
  within("vocab", vocab, kMostVocab);
  within("context", context, kMostContext);
  within("width", width, kMostWidth);
  within("layers", layers, kMostLayers);
  within("heads", heads, kMostHeads);
  within("hidden", hidden, kMostHidden);
  if (width % heads != 0) throw input_error("model.heads = {} does not divide model.width = {}", heads, width);
  if (!(rotary_fraction >= 0 && rotary_fraction <= 1))
    throw input_error("rotary positions turn a share of {} of each head, expected 0 to 1", rotary_fraction);
  if (!(rotary_base > 0)) throw input_error("the rotary base is {}, expected a number above 0", rotary_base);
  if (key_value_heads < 0 || heads % groups() != 0) {
    throw input_error("model.key_value_heads = {} does not divide model.heads = {}", key_value_heads, heads);
  }
  if (positions == Positions::kRotary && rotary().dims % 2 != 0) {
    throw input_error("model.heads = {}: rotary positions turn {} of a head's {} numbers, expected an even number",
                      heads, rotary().dims, head_size());
  }
  if (!(clip_qkv >= 0)) throw input_error("queries, keys and values are clipped at {}, expected 0 or more", clip_qkv);
  if (parallel && norm_place == NormPlace::kPost)
    throw machine_error("family {}: norms after attention and MLP in parallel", family);
  if (!(norm_eps > 0)) throw input_error("the norm's epsilon is {}, expected a number above 0", norm_eps);
}

}  // namespace nascent
