// Pythia (Biderman et al. 2023), which is GPT-NeoX (Black et al. 2022): attention and MLP in parallel, rotary positions on a quarter of
// each head, exact GELU, untied embeddings. Initialized as GPT-NeoX does it: small_init (Nguyen & Salazar 2019) and, for what
// writes to the residual stream, wang_init (Wang & Komatsuzaki 2021).
#include <algorithm>
#include <cmath>

#include "kernels/error.h"
#include "model/family.h"

namespace nascent {
namespace {

TransformerSpec base() {
  TransformerSpec spec;
  spec.activation = Activation::kGeluErf;
  spec.positions = Positions::kRotary;
  spec.rotary_fraction = 0.25;
  spec.parallel = true;
  spec.tied = false;
  return spec;
}

TransformerSpec sizes(std::int64_t width, std::int64_t layers, std::int64_t heads, std::int64_t context = 2048) {
  TransformerSpec spec = base();
  spec.vocab = 50304;
  spec.context = context;
  spec.width = width;
  spec.layers = layers;
  spec.heads = heads;
  return spec;
}

void complete(TransformerSpec& spec) {
  const double width = static_cast<double>(spec.width), layers = static_cast<double>(spec.layers);
  if (spec.hidden == 0) spec.hidden = 4 * std::clamp<std::int64_t>(spec.width, 0, TransformerSpec::kMostWidth);
  if (spec.init_std == 0) spec.init_std = std::sqrt(2 / (5 * width));
  if (spec.init_residual_std == 0) spec.init_residual_std = 2 / (layers * std::sqrt(width));
}

JsonObject to_config(const TransformerSpec& spec) {
  JsonObject c;
  c.set("architectures", std::vector<std::string>{"GPTNeoXForCausalLM"});
  c.set("model_type", "gpt_neox");
  c.set("vocab_size", spec.vocab);
  c.set("max_position_embeddings", spec.context);
  c.set("hidden_size", spec.width);
  c.set("num_hidden_layers", spec.layers);
  c.set("num_attention_heads", spec.heads);
  c.set("intermediate_size", spec.hidden);
  c.set("hidden_act", spec.activation == Activation::kGeluErf ? "gelu" : "gelu_new");
  c.set("layer_norm_eps", spec.norm_eps);
  c.set("rotary_pct", spec.rotary_fraction);
  c.set("rotary_emb_base", spec.rotary_base);
  c.set("use_parallel_residual", spec.parallel);
  c.set("attention_bias", true);
  for (const char* dropout : {"attention_dropout", "hidden_dropout"}) c.set(dropout, 0.0);
  c.set("initializer_range", 0.02);
  c.set("tie_word_embeddings", spec.tied);
  c.set("use_cache", true);
  if (spec.bos_id >= 0) c.set("bos_token_id", spec.bos_id);
  if (spec.eos_id >= 0) c.set("eos_token_id", spec.eos_id);
  c.set("torch_dtype", "float32");
  return c;
}

TransformerSpec from_config(const JsonObject& c) {
  TransformerSpec spec = base();
  spec.vocab = c.integer("vocab_size", 50432);
  spec.context = c.integer("max_position_embeddings", 2048);
  spec.width = c.integer("hidden_size", 6144);
  spec.layers = c.integer("num_hidden_layers", 44);
  spec.heads = c.integer("num_attention_heads", 64);
  spec.hidden = c.integer("intermediate_size", 0);
  spec.norm_eps = c.number("layer_norm_eps", 1e-5);
  spec.rotary_fraction = c.number("rotary_pct", 0.25);
  spec.rotary_base = c.number("rotary_emb_base", 10000);
  spec.parallel = c.boolean("use_parallel_residual", true);
  spec.tied = c.boolean("tie_word_embeddings", false);
  spec.bos_id = c.integer("bos_token_id", -1);
  spec.eos_id = c.integer("eos_token_id", -1);
  const std::string activation = c.text("hidden_act", "gelu");
  if (activation != "gelu" && activation != "gelu_new") {
    throw input_error("{}: hidden_act is \"{}\", expected \"gelu\" or \"gelu_new\"", c.where(), activation);
  }
  spec.activation = activation == "gelu" ? Activation::kGeluErf : Activation::kGeluTanh;
  if (!c.boolean("attention_bias", true)) {
    throw input_error("{}: attention_bias = false is not supported, expected true", c.where());
  }
  return spec;
}

const RegisterFamily registered{Family{
    .name = "pythia",
    .model_type = "gpt_neox",
    .base = base(),
    .presets = {{"14m", sizes(128, 6, 4, 512)},
                {"31m", sizes(256, 6, 8, 1024)},
                {"70m", sizes(512, 6, 8)},
                {"160m", sizes(768, 12, 12)},
                {"410m", sizes(1024, 24, 16)},
                {"1b", sizes(2048, 16, 8)}},
    .complete = complete,
    .tensors = {{"embed.weight", "gpt_neox.embed_in.weight"},
                {"blocks.{}.ln1.weight", "gpt_neox.layers.{}.input_layernorm.weight"},
                {"blocks.{}.ln1.bias", "gpt_neox.layers.{}.input_layernorm.bias"},
                {"blocks.{}.attn.qkv.weight", "gpt_neox.layers.{}.attention.query_key_value.weight", Layout::kHeadwise},
                {"blocks.{}.attn.qkv.bias", "gpt_neox.layers.{}.attention.query_key_value.bias", Layout::kHeadwise},
                {"blocks.{}.attn.out.weight", "gpt_neox.layers.{}.attention.dense.weight"},
                {"blocks.{}.attn.out.bias", "gpt_neox.layers.{}.attention.dense.bias"},
                {"blocks.{}.ln2.weight", "gpt_neox.layers.{}.post_attention_layernorm.weight"},
                {"blocks.{}.ln2.bias", "gpt_neox.layers.{}.post_attention_layernorm.bias"},
                {"blocks.{}.mlp.in.weight", "gpt_neox.layers.{}.mlp.dense_h_to_4h.weight"},
                {"blocks.{}.mlp.in.bias", "gpt_neox.layers.{}.mlp.dense_h_to_4h.bias"},
                {"blocks.{}.mlp.out.weight", "gpt_neox.layers.{}.mlp.dense_4h_to_h.weight"},
                {"blocks.{}.mlp.out.bias", "gpt_neox.layers.{}.mlp.dense_4h_to_h.bias"},
                {"ln_final.weight", "gpt_neox.final_layer_norm.weight"},
                {"ln_final.bias", "gpt_neox.final_layer_norm.bias"},
                {"unembed.weight", "embed_out.weight", Layout::kPlain, "lm_head.weight"}},
    .ignored = {".attention.bias", ".attention.masked_bias", ".rotary_emb.inv_freq"},
    .to_config = to_config,
    .from_config = from_config,
}};

}  // namespace
}  // namespace nascent
