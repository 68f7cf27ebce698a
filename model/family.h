// A family: its sizes and presets, how it is initialized, and how Hugging Face names its tensors and config keys. One
// file in families/ fills one of these and registers it.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "data/json.h"
#include "kernels/rotary.h"
#include "model/layout.h"

namespace nascent {

enum class Activation { kGeluTanh, kGeluErf, kSwiGlu };

enum class NormKind { kLayer, kLayerPlain, kRms };  // kLayerPlain: without weight and bias

// Before attention and MLP, on what they read; or after, on what they add to the stream.
enum class NormPlace { kPre, kPost };

enum class Positions { kLearned, kRotary };

// A decoder's sizes and choices.
struct TransformerSpec {
  std::string family;
  std::int64_t vocab = 0, context = 0;                        // tokens; positions at most
  std::int64_t width = 0, layers = 0, heads = 0, hidden = 0;  // hidden: of the MLP
  std::int64_t key_value_heads = 0;                           // a divisor of heads; 0: as many as heads
  Activation activation = Activation::kGeluTanh;
  NormKind norm = NormKind::kLayer;
  NormPlace norm_place = NormPlace::kPre;
  bool biases = true;    // of linears
  bool qk_norm = false;  // a norm over all queries of a position, and one over all its keys, before they are turned
  double clip_qkv = 0;   // queries, keys and values are clipped to [-clip_qkv, clip_qkv]; 0: they are not
  Positions positions = Positions::kLearned;
  double rotary_fraction = 1, rotary_base = 10000;  // of kRotary: the share of a head that turns
  bool parallel = false;  // attention and MLP both read the block's input and are added to it together
  bool tied = true;       // the output matrix is the embedding
  double norm_eps = 1e-5;
  std::int64_t bos_id = -1, eos_id = -1;  // the tokenizer's, for config.json; -1: none
  double init_std = 0.02;                 // of every weight but the two that write to the residual stream
  double init_residual_std = 0.02;        // of those two

  // The largest sizes: beyond any such model, and small enough that no product of them overflows.
  static constexpr std::int64_t kMostVocab = 1 << 21, kMostContext = 1 << 20, kMostWidth = 1 << 16, kMostLayers = 1024,
                                kMostHeads = 1024, kMostHidden = 1 << 18;

  std::int64_t head_size() const { return width / heads; }
  std::int64_t groups() const { return key_value_heads > 0 ? key_value_heads : heads; }
  std::int64_t key_width() const { return groups() * head_size(); }  // of the keys of a position, and of its values
  bool gated() const { return activation == Activation::kSwiGlu; }
  Rotary rotary() const {
    return {static_cast<std::int64_t>(static_cast<double>(head_size()) * rotary_fraction), rotary_base};
  }
  void check() const;  // throws and names the size that is wrong
};

// Hugging Face's name of a tensor, and its layout there; {} stands for the layer.
struct TensorName {
  std::string role;  // "blocks.{}.attn.qkv.weight", by TransformerLens's places
  std::string file;  // "transformer.h.{}.attn.c_attn.weight"
  Layout::Kind layout = Layout::kPlain;
  std::string alias = {};  // another name that files give it
};

struct Preset {
  std::string name;
  TransformerSpec spec;
};

struct Family {
  std::string name;
  std::string model_type;  // Hugging Face's name of the architecture, in config.json
  TransformerSpec base;    // what the family's models have in common, without sizes
  std::vector<Preset> presets;
  std::function<void(TransformerSpec&)> complete;  // fills in what follows from the sizes, before they are checked
  std::vector<TensorName> tensors;
  std::vector<std::string> ignored;  // suffixes of tensors that files may hold and that mean nothing
  std::function<JsonObject(const TransformerSpec&)> to_config;  // config.json
  std::function<TransformerSpec(const JsonObject&)> from_config;

  const TensorName& tensor(const std::string& role) const;
  bool has(const std::string& role) const;
};

// Registered families by name. Throws an input error that lists them when there is none of that name.
const Family& family_of(const std::string& name);
std::vector<std::string> family_names();
// By Hugging Face's model_type; throws an input error that begins with `where` and lists those there are.
const Family& family_of_model_type(const std::string& type, const std::string& where);

// In a family's file: const RegisterFamily registered{...};
struct RegisterFamily {
  explicit RegisterFamily(Family family);
};

}  // namespace nascent
