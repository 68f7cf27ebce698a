#include "model/config_keys.h"

#include "kernels/error.h"

namespace nascent {
namespace {

using Null = std::nullptr_t;

template <class... F>
struct Overloaded : F... {
  using F::operator()...;
};

struct ActivationName {
  const char* name;
  Activation activation;
};
constexpr ActivationName kActivations[] = {
    {"gelu_new", Activation::kGeluTanh}, {"gelu", Activation::kGeluErf}, {"silu", Activation::kSwiGlu}};

bool gates(Activation a) { return a == Activation::kSwiGlu; }

// A family's MLP has a gate or not; its activation is one of those that fit.
Activation read_activation(const JsonObject& c, const std::string& key, const std::string& text, Activation usual) {
  std::vector<std::string> expected;
  for (const ActivationName& a : kActivations) {
    if (gates(a.activation) != gates(usual)) continue;
    if (text == a.name) return a.activation;
    expected.push_back(fmt::format("\"{}\"", a.name));
  }
  throw input_error("{}: {} is \"{}\", expected {}", c.where(), key, text, fmt::join(expected, " or "));
}

std::string name_of(Activation activation) {
  for (const ActivationName& a : kActivations) {
    if (a.activation == activation) return a.name;
  }
  throw machine_error("an activation without a name");
}

std::string text_of(const JsonObject::Value& value) {
  return std::visit(
      Overloaded{[](Null) -> std::string { return "null"; }, [](bool b) -> std::string { return b ? "true" : "false"; },
                 [](std::int64_t n) { return fmt::format("{}", n); }, [](double x) { return fmt::format("{}", x); },
                 [](const std::string& s) { return json_quoted(s); },
                 [](const auto&) -> std::string { return "a list"; }},
      value);
}

// As JSON has one kind of number.
bool same(const JsonObject::Value& a, const JsonObject::Value& b) {
  const auto number = [](const JsonObject::Value& v) {
    return std::holds_alternative<std::int64_t>(v) ? JsonObject::Value(static_cast<double>(std::get<std::int64_t>(v)))
                                                   : v;
  };
  return number(a) == number(b);
}

void require_fixed(const JsonObject& c, const ConfigKey& k) {
  const JsonObject::Value* found = c.find(k.key);
  if (!found || std::holds_alternative<Null>(*found) || same(*found, k.absent)) return;
  throw input_error("{}: {} = {} is not supported, expected {}", c.where(), k.key, text_of(*found), text_of(k.absent));
}

double number_or_zero(const JsonObject::Value& v) {
  if (const auto* whole = std::get_if<std::int64_t>(&v)) return static_cast<double>(*whole);
  const auto* number = std::get_if<double>(&v);
  return number ? *number : 0;
}

}  // namespace

JsonObject write_config(const TransformerSpec& spec, const std::string& architecture, const std::string& model_type,
                        const ConfigKeys& keys) {
  JsonObject c;
  c.set("architectures", std::vector<std::string>{architecture});
  c.set("model_type", model_type);
  for (const ConfigKey& k : keys) {
    const bool null_is_zero = std::holds_alternative<Null>(k.absent);
    std::visit(Overloaded{[&](ConfigKey::Integer field) { c.set(k.key, spec.*field); },
                          [&](ConfigKey::Number field) {
                            c.set(k.key, null_is_zero && spec.*field == 0 ? JsonObject::Value(nullptr) : spec.*field);
                          },
                          [&](ConfigKey::Flag field) { c.set(k.key, spec.*field); },
                          [&](ConfigKey::Choice field) { c.set(k.key, name_of(spec.*field)); },
                          [&](ConfigKey::Fixed) { c.set(k.key, k.absent); }, [](ConfigKey::Checked) {},
                          [&](ConfigKey::Written) { c.set(k.key, k.absent); }},
               k.what);
  }
  c.set("use_cache", true);
  // Null where there is none: a missing key would mean the family's usual one, which may be no token of this vocabulary.
  const auto id_or_null = [](std::int64_t id) { return id >= 0 ? JsonObject::Value(id) : JsonObject::Value(nullptr); };
  c.set("bos_token_id", id_or_null(spec.bos_id));
  c.set("eos_token_id", id_or_null(spec.eos_id));
  c.set("torch_dtype", "float32");
  return c;
}

TransformerSpec read_config(const JsonObject& c, TransformerSpec spec, const ConfigKeys& keys) {
  for (const ConfigKey& k : keys) {
    const std::string& key = c.find(k.key) || k.also.empty() ? k.key : k.also;
    const auto absent = number_or_zero(k.absent);
    std::visit(
        Overloaded{[&](ConfigKey::Integer field) { spec.*field = c.integer(key, static_cast<std::int64_t>(absent)); },
                   [&](ConfigKey::Number field) { spec.*field = c.number(key, absent); },
                   [&](ConfigKey::Flag field) { spec.*field = c.boolean(key, std::get<bool>(k.absent)); },
                   [&](ConfigKey::Choice field) {
                     const std::string text = c.text(key, std::get<std::string>(k.absent));
                     spec.*field = read_activation(c, key, text, spec.*field);
                   },
                   [&](ConfigKey::Fixed) { require_fixed(c, k); }, [&](ConfigKey::Checked) { require_fixed(c, k); },
                   [](ConfigKey::Written) {}},
        k.what);
  }
  spec.bos_id = c.integer("bos_token_id", -1);
  spec.eos_id = c.integer("eos_token_id", -1);
  return spec;
}

}  // namespace nascent
