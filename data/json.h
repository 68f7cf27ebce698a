// A flat JSON object, as a model's config.json is: keys with text, numbers, booleans, null, or lists of text or whole
// numbers. Of an object within it "rope_parameters.rope_theta" asks for a key; lists can be read but not asked for.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace nascent {

// A text in quotes, as JSON writes it.
std::string json_quoted(const std::string& text);

class JsonObject {
 public:
  using Value = std::variant<std::nullptr_t, bool, std::int64_t, double, std::string, std::vector<std::string>,
                             std::vector<std::int64_t>>;

  // where: what errors call it, a file's path.
  static JsonObject parse(const std::string& text, const std::string& where);
  std::string dump() const;  // indented, keys in the order they were set

  void set(std::string key, Value value);
  void set(std::string key, const char* value) { set(std::move(key), Value(std::string(value))); }

  // The value, or `absent` where the key is missing or null; throws an input error when it is of another kind.
  std::int64_t integer(const std::string& key, std::int64_t absent) const;
  double number(const std::string& key, double absent) const;
  bool boolean(const std::string& key, bool absent) const;
  std::string text(const std::string& key, const std::string& absent) const;

  const Value* find(const std::string& key) const;  // null when there is none

  const std::string& where() const { return where_; }
  std::vector<std::string> keys() const;  // in the order of the text

 private:
  template <class T>
  const T* typed(const std::string& key, const char* expected) const;

  std::string where_ = "config.json";
  std::vector<std::pair<std::string, Value>> values_;
};

}  // namespace nascent
