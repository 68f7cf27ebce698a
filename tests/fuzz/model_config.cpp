// A model's config.json, as every family reads it.
#include "data/json.h"
#include "kernels/error.h"
#include "model/family.h"
#include "tests/fuzz/fuzz.h"

namespace nascent::fuzz {

std::vector<std::string> seeds() {
  std::vector<std::string> seeds;
  for (const std::string& name : family_names()) {
    const Family& family = family_of(name);
    for (const Preset& preset : family.presets) {
      TransformerSpec spec = preset.spec;
      family.complete(spec);
      seeds.push_back(family.to_config(spec).dump());
    }
  }
  return seeds;
}

void try_input(std::string_view input) {
  const JsonObject config = JsonObject::parse(std::string(input), "config.json");
  const Family& family = family_of_model_type(config.text("model_type", ""), config.where());
  TransformerSpec spec = family.from_config(config);
  family.complete(spec);
  spec.check();
  family.to_config(spec).dump();
}

}  // namespace nascent::fuzz
