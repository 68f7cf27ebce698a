// What families' config.json have in common: one table says how a family's is written and read.
#pragma once

#include <string>
#include <variant>
#include <vector>

#include "data/json.h"
#include "model/family.h"

namespace nascent {

// A key and what it means. `absent`: what transformers takes where a file has no such key; of a number null, which stands
// for 0.
struct ConfigKey {
  using Integer = std::int64_t TransformerSpec::*;
  using Number = double TransformerSpec::*;
  using Flag = bool TransformerSpec::*;
  using Choice = Activation TransformerSpec::*;
  struct Fixed {};    // the model can be no other: a file with another value than `absent` is refused
  struct Checked {};  // likewise, and not written
  struct Written {};  // for readers of our files; says nothing about the model

  std::string key;
  std::variant<Integer, Number, Flag, Choice, Fixed, Checked, Written> what;
  JsonObject::Value absent;
  std::string also = {};  // another key for it in others' files, read where this one is missing
};

using ConfigKeys = std::vector<ConfigKey>;

// config.json of a model: architecture ("GPT2LMHeadModel"), model_type, the keys in order, and what all have.
JsonObject write_config(const TransformerSpec& spec, const std::string& architecture, const std::string& model_type,
                        const ConfigKeys& keys);

// Reads the keys into the spec, which holds what the family's models have in common. Throws (input) for what cannot be.
TransformerSpec read_config(const JsonObject& config, TransformerSpec spec, const ConfigKeys& keys);

}  // namespace nascent
