#include "data/json.h"

#include <cstdint>
#include <nlohmann/json.hpp>

#include "kernels/error.h"

namespace nascent {

using Json = nlohmann::ordered_json;

namespace {

void set_from(JsonObject& object, const std::string& key, const Json& value) {
  if (value.is_boolean()) {
    object.set(key, value.get<bool>());
  } else if (value.is_number_integer() && !(value.is_number_unsigned() && value.get<std::uint64_t>() > INT64_MAX)) {
    object.set(key, value.get<std::int64_t>());
  } else if (value.is_number()) {
    object.set(key, value.get<double>());
  } else if (value.is_string()) {
    object.set(key, value.get<std::string>());
  } else if (value.is_null()) {
    object.set(key, JsonObject::Value(nullptr));
  }
}

}  // namespace

JsonObject JsonObject::parse(const std::string& text, const std::string& where) {
  JsonObject object;
  object.where_ = where;
  Json json;
  try {
    json = Json::parse(text);
  } catch (const Json::parse_error& e) {
    throw input_error("{}: not JSON at byte {}", where, e.byte);
  } catch (const Json::out_of_range&) {
    throw input_error("{}: holds a number beyond a double's range", where);
  }
  if (!json.is_object()) throw input_error("{}: expected a JSON object", where);
  for (const auto& [key, value] : json.items()) {
    set_from(object, key, value);
    if (!value.is_object()) continue;
    for (const auto& [inner, inner_value] : value.items()) set_from(object, key + "." + inner, inner_value);
  }
  return object;
}

std::string JsonObject::dump() const {
  Json json = Json::object();
  for (const auto& [key, value] : values_) std::visit([&, &k = key](const auto& v) { json[k] = v; }, value);
  return json.dump(2) + "\n";
}

void JsonObject::set(std::string key, Value value) { values_.emplace_back(std::move(key), std::move(value)); }

std::vector<std::string> JsonObject::keys() const {
  std::vector<std::string> keys;
  for (const auto& [key, value] : values_) keys.push_back(key);
  return keys;
}

const JsonObject::Value* JsonObject::find(const std::string& key) const {
  for (const auto& [name, value] : values_) {
    if (name == key) return &value;
  }
  return nullptr;
}

template <class T>
const T* JsonObject::typed(const std::string& key, const char* expected) const {
  const Value* value = find(key);
  if (!value || std::holds_alternative<std::nullptr_t>(*value)) return nullptr;
  if (const T* typed = std::get_if<T>(value)) return typed;
  throw input_error("{}: {} is of the wrong kind, expected {}", where_, key, expected);
}

std::int64_t JsonObject::integer(const std::string& key, std::int64_t absent) const {
  const auto* value = typed<std::int64_t>(key, "an integer");
  return value ? *value : absent;
}

double JsonObject::number(const std::string& key, double absent) const {
  const Value* value = find(key);
  if (value && std::holds_alternative<std::int64_t>(*value)) return static_cast<double>(std::get<std::int64_t>(*value));
  const auto* number = typed<double>(key, "a number");
  return number ? *number : absent;
}

bool JsonObject::boolean(const std::string& key, bool absent) const {
  const auto* value = typed<bool>(key, "true or false");
  return value ? *value : absent;
}

std::string JsonObject::text(const std::string& key, const std::string& absent) const {
  const auto* value = typed<std::string>(key, "text");
  return value ? *value : absent;
}

std::string json_quoted(const std::string& text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace nascent
