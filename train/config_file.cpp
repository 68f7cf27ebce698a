#include "train/config_file.h"

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <fmt/ranges.h>
#include <fstream>
#include <iterator>
#include <limits>
#include <map>
#include <numeric>
#include <optional>
#include <sstream>
#include <string_view>
#include <toml++/toml.h>
#include <utility>

#include "kernels/error.h"

namespace nascent {
namespace {

// ---- Values as TOML

std::string toml_text(std::int64_t value) { return fmt::format("{}", value); }

// The shortest digits that read back as the same double.
std::string toml_text(double value) {
  const std::string digits = fmt::format("{}", value);
  return digits.find_first_of(".en") == std::string::npos ? digits + ".0" : digits;  // n: nan, inf
}

std::string toml_text(bool value) { return value ? "true" : "false"; }

std::string toml_text(const std::string& value) {
  std::string text = "\"";
  for (const char c : value) {
    switch (c) {
      case '"':
        text += "\\\"";
        break;
      case '\\':
        text += "\\\\";
        break;
      case '\n':
        text += "\\n";
        break;
      case '\t':
        text += "\\t";
        break;
      default:
        if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
          text += fmt::format("\\u{:04X}", static_cast<int>(c));
        } else {
          text += c;
        }
    }
  }
  return text + "\"";
}

std::string toml_text(const std::vector<std::string>& values) {
  std::vector<std::string> quoted;
  for (const std::string& value : values) quoted.push_back(toml_text(value));
  return fmt::format("[{}]", fmt::join(quoted, ", "));
}

std::string toml_text(const std::vector<std::int64_t>& values) { return fmt::format("[{}]", fmt::join(values, ", ")); }

std::string toml_text(const std::map<std::string, std::string>& values) {
  std::vector<std::string> pairs;
  for (const auto& [name, value] : values) pairs.push_back(fmt::format("{} = {}", name, toml_text(value)));
  return fmt::format("{{{}}}", fmt::join(pairs, ", "));
}

std::string toml_text(const toml::node& node) {
  if (const auto text = node.value_exact<std::string>()) return toml_text(*text);
  if (node.is_table()) return "a table";
  std::stringstream out;
  node.visit([&](const auto& value) { out << value; });
  // A long list comes in several lines, an error is one.
  std::string text;
  for (std::string line; std::getline(out >> std::ws, line);) text += (text.empty() ? "" : " ") + line;
  return text;
}

// ---- What a key accepts, in words

template <class T>
std::string range_text(const char* what, T least, T most, bool from, bool to) {
  if (from && to) return fmt::format("{} from {} to {}", what, least, most);
  if (from) return fmt::format("{}, {} or more", what, least);
  if (to) return fmt::format("{}, {} or less", what, most);
  return what;
}

std::string expected_integer(std::int64_t least, std::int64_t most) {
  return range_text("an integer", least, most, least > -kNoLimit, most < kNoLimit);
}

std::string expected_number(double least, double most) {
  const double limit = std::numeric_limits<double>::max();
  return range_text("a number", least, most, least > -limit, most < limit);
}

std::string expected_choice(const std::vector<std::string>& among) {
  std::vector<std::string> quoted;
  for (const std::string& word : among) quoted.push_back(toml_text(word));
  return fmt::format("one of {}", fmt::join(quoted, ", "));
}

constexpr const char* kBool = "true or false";
constexpr const char* kString = "a string in quotes";
constexpr const char* kStrings = "a list of strings, [\"a\", \"b\"]";
constexpr const char* kTable = "a table of strings, {name = \"a\"}, names of letters, digits, - and _";
constexpr const char* kPlainName = "a name of letters, digits, - and _";

std::string expected_integers(std::int64_t least, std::int64_t most) {
  return "a list, each element " + expected_integer(least, most);
}

// What TOML takes as a key without quotes.
bool is_plain_name(std::string_view name) {
  const auto plain = [](unsigned char c) { return std::isalnum(c) || c == '-' || c == '_'; };
  return !name.empty() && std::all_of(name.begin(), name.end(), plain);
}

// ---- Names

std::string dotted(const std::vector<std::string>& tables, const std::string& name) {
  std::string key;
  for (const std::string& table : tables) key += table + ".";
  return key + name;
}

std::string last_part(const std::string& key) { return key.substr(key.rfind('.') + 1); }

// Levenshtein's distance: how many letters to insert, delete or replace.
std::size_t edit_distance(const std::string& a, const std::string& b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), 0u);
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t diagonal = std::exchange(row[0], i + 1);
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::size_t replaced = diagonal + (a[i] != b[j]);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replaced, row[j] + 1, diagonal + 1});
    }
  }
  return row.back();
}

// "; did you mean train.steps?" A key in the wrong table is as near as one wrong letter.
std::string nearest(const std::string& key, const std::vector<std::string>& known) {
  const auto distance = [&](const std::string& other) {
    return std::min(edit_distance(key, other), 1 + edit_distance(last_part(key), last_part(other)));
  };
  const auto best = std::min_element(known.begin(), known.end(), [&](const std::string& a, const std::string& b) {
    return distance(a) < distance(b);
  });
  return best == known.end() ? "" : fmt::format("; did you mean {}?", *best);
}

}  // namespace

// ---- ConfigReader

struct ConfigReader::Parsed {
  std::string file;
  toml::table root;
  std::map<std::string, std::string> overridden;  // key -> what --set was given
  std::vector<std::string> tables;                // those begun and not ended, outermost first
  std::vector<std::string> known;                 // every key declared so far

  void read(const std::filesystem::path& path);
  void parse(const std::string& text);
  void set(const std::string& assignment);

  // Declares a key; its node, or nothing where the default stays in force.
  const toml::node* declare(const char* name);
  Error refusal(const std::string& name, const toml::node& node, const std::string& expected) const;
  // value = [...] of a key given by --set as 1,10,100; nothing for what is no such list.
  std::optional<toml::table> as_list(const char* name, const toml::node& node) const;

  struct Unknown {
    std::size_t line;  // 0: from --set
    std::string key;
  };
  void collect_unknown(const std::string& prefix, const toml::table& table, std::vector<Unknown>& unknown) const;
};

void ConfigReader::Parsed::read(const std::filesystem::path& path) {
  file = path.string();
  std::ifstream stream(path, std::ios::binary);
  const bool is_folder = stream && std::filesystem::is_directory(path);
  if (!stream || is_folder) {
    throw input_error("{}: cannot read this configuration: {}", file, std::strerror(is_folder ? EISDIR : errno));
  }
  parse({std::istreambuf_iterator<char>(stream), {}});
}

void ConfigReader::Parsed::parse(const std::string& text) {
  try {
    root = toml::parse(text, file);
  } catch (const toml::parse_error& e) {
    const auto [line, column] = e.source().begin;
    throw input_error("{}:{}:{}: {}", file, line, column, e.description());
  }
}

void ConfigReader::Parsed::set(const std::string& assignment) {
  const std::size_t equals = assignment.find('=');
  if (equals == std::string::npos || equals == 0) {
    throw input_error("--set {}: expected KEY=VALUE", assignment);
  }
  const std::string key = assignment.substr(0, equals), value = assignment.substr(equals + 1);

  const auto parse = [](const std::string& text) -> std::optional<toml::table> {
    try {
      toml::table table = toml::parse("value = " + text);
      if (table.size() != 1 || !table.contains("value")) return std::nullopt;
      return table;
    } catch (const toml::parse_error&) {
      return std::nullopt;
    }
  };
  std::optional<toml::table> parsed = parse(value);
  if (!parsed) parsed = parse(toml_text(value));
  if (!parsed) throw input_error("--set {}: the value is not UTF-8 text", assignment);
  toml::node& node = *parsed->get("value");
  if (node.is_table()) throw input_error("--set {}: expected one key's value, not a table", assignment);

  toml::table* table = &root;
  std::size_t begin = 0;
  for (std::size_t dot = 0; (dot = key.find('.', begin)) != std::string::npos; begin = dot + 1) {
    const std::string name = key.substr(begin, dot - begin);
    toml::node& inner = table->insert(name, toml::table()).first->second;
    if (!inner.is_table()) throw input_error("--set {}: {} is not a table", assignment, key.substr(0, dot));
    table = inner.as_table();
  }
  node.visit([&](auto& typed) { table->insert_or_assign(key.substr(begin), std::move(typed)); });
  overridden[key] = assignment;
}

const toml::node* ConfigReader::Parsed::declare(const char* name) {
  const std::string key = dotted(tables, name);
  if (std::find(known.begin(), known.end(), key) != known.end()) {
    throw machine_error("{}: declared twice", key);
  }
  known.push_back(key);
  const toml::table* table = &root;
  for (const std::string& part : tables) {
    const toml::node* inner = table->get(part);
    if (!inner) return nullptr;
    table = inner->as_table();
  }
  return table->get(name);
}

Error ConfigReader::Parsed::refusal(const std::string& name, const toml::node& node,
                                    const std::string& expected) const {
  const std::string key = dotted(tables, name);
  const std::size_t line =
      overridden.contains(key) ? 0 : node.source().begin.line;  // 0 also: a table made by --set a.b=c
  const std::string place = line == 0 ? "given by --set" : fmt::format("at {}:{}", file, line);
  return input_error("{} = {} {}: expected {}", key, toml_text(node), place, expected);
}

std::optional<toml::table> ConfigReader::Parsed::as_list(const char* name, const toml::node& node) const {
  const auto given = overridden.find(dotted(tables, name));
  if (given == overridden.end() || node.is_array()) return std::nullopt;
  try {
    return toml::parse("value = [" + given->second.substr(given->second.find('=') + 1) + "]");
  } catch (const toml::parse_error&) {
    return std::nullopt;
  }
}

void ConfigReader::Parsed::collect_unknown(const std::string& prefix, const toml::table& table,
                                           std::vector<Unknown>& unknown) const {
  for (const auto& [name, node] : table) {
    const std::string key = prefix + std::string(name.str());
    const bool plain = name.str().find('.') == std::string_view::npos;  // not "train.steps" in quotes
    const bool is_known = plain && std::any_of(known.begin(), known.end(), [&](const std::string& k) {
                            return k == key || (node.is_table() && k.starts_with(key + "."));
                          });
    if (const toml::table* inner = node.as_table(); inner && (is_known || !inner->empty())) {
      collect_unknown(key + ".", *inner, unknown);
    } else if (!is_known) {
      unknown.push_back({overridden.contains(key) ? 0 : name.source().begin.line, key});
    }
  }
}

ConfigReader::ConfigReader(const std::filesystem::path& file, const std::vector<std::string>& overrides)
    : parsed_(std::make_unique<Parsed>()) {
  parsed_->read(file);
  for (const std::string& assignment : overrides) parsed_->set(assignment);
}

ConfigReader::ConfigReader(const std::vector<std::string>& overrides) : parsed_(std::make_unique<Parsed>()) {
  for (const std::string& assignment : overrides) parsed_->set(assignment);
}

ConfigReader::ConfigReader(ConfigReader&&) noexcept = default;
ConfigReader::~ConfigReader() = default;

ConfigReader ConfigReader::of_text(const std::string& text, const std::string& called,
                                   const std::vector<std::string>& overrides) {
  ConfigReader reader(std::vector<std::string>{});
  reader.parsed_->file = called;
  reader.parsed_->parse(text);
  for (const std::string& assignment : overrides) reader.parsed_->set(assignment);
  return reader;
}

void ConfigReader::key(const char* name, std::int64_t& value, std::int64_t least, std::int64_t most, const char*) {
  const toml::node* node = parsed_->declare(name);
  if (!node) return;
  const auto found = node->value_exact<std::int64_t>();
  if (!found || *found < least || *found > most) {
    throw parsed_->refusal(name, *node, expected_integer(least, most));
  }
  value = *found;
}

void ConfigReader::key(const char* name, double& value, double least, double most, const char*) {
  const toml::node* node = parsed_->declare(name);
  if (!node) return;
  const auto found = node->is_number() ? node->value<double>() : std::nullopt;
  if (!found || !std::isfinite(*found) || *found < least || *found > most) {
    throw parsed_->refusal(name, *node, expected_number(least, most));
  }
  value = *found;
}

void ConfigReader::key(const char* name, bool& value, const char*) {
  const toml::node* node = parsed_->declare(name);
  if (!node) return;
  const auto found = node->value_exact<bool>();
  if (!found) throw parsed_->refusal(name, *node, kBool);
  value = *found;
}

void ConfigReader::key(const char* name, std::string& value, const char*) {
  const toml::node* node = parsed_->declare(name);
  if (!node) return;
  const auto found = node->value_exact<std::string>();
  if (!found) throw parsed_->refusal(name, *node, kString);
  value = *found;
}

void ConfigReader::key(const char* name, std::vector<std::string>& value, const char*) {
  const toml::node* node = parsed_->declare(name);
  if (!node) return;
  if (!node->is_array()) throw parsed_->refusal(name, *node, kStrings);
  std::vector<std::string> found;
  for (const toml::node& element : *node->as_array()) {
    const auto text = element.value_exact<std::string>();
    if (!text) throw parsed_->refusal(name, *node, kStrings);
    found.push_back(*text);
  }
  value = std::move(found);
}

void ConfigReader::key(const char* name, std::vector<std::int64_t>& value, std::int64_t least, std::int64_t most,
                       const char*) {
  const toml::node* node = parsed_->declare(name);
  if (!node) return;
  std::vector<std::int64_t> found;
  // On the command line also 1,10,100 and a single number.
  const std::optional<toml::table> listed = parsed_->as_list(name, *node);
  const toml::array* list = listed ? listed->get_as<toml::array>("value") : node->as_array();
  if (!list) throw parsed_->refusal(name, *node, expected_integers(least, most));
  for (const toml::node& element : *list) {
    const auto number = element.value_exact<std::int64_t>();
    if (!number || *number < least || *number > most)
      throw parsed_->refusal(name, *node, expected_integers(least, most));
    found.push_back(*number);
  }
  value = std::move(found);
}

void ConfigReader::key(const char* name, std::map<std::string, std::string>& value, const char*) {
  const toml::node* node = parsed_->declare(name);
  if (!node) return;
  if (!node->is_table()) throw parsed_->refusal(name, *node, kTable);
  std::map<std::string, std::string> found;
  for (const auto& [inner, element] : *node->as_table()) {
    const std::string own(inner.str()), full = fmt::format("{}.{}", name, own);
    const auto text = element.value_exact<std::string>();
    if (!is_plain_name(own)) throw parsed_->refusal(full, element, kPlainName);
    if (!text) throw parsed_->refusal(full, element, kString);
    parsed_->known.push_back(dotted(parsed_->tables, full));
    found[own] = *text;
  }
  value = std::move(found);
}

void ConfigReader::choice(const char* name, std::string& value, const std::vector<std::string>& among, const char*) {
  const toml::node* node = parsed_->declare(name);
  if (!node) return;
  const auto found = node->value_exact<std::string>();
  if (!found || std::find(among.begin(), among.end(), *found) == among.end()) {
    throw parsed_->refusal(name, *node, expected_choice(among));
  }
  value = *found;
}

void ConfigReader::begin(const char* name) {
  const toml::table* table = &parsed_->root;
  for (const std::string& part : parsed_->tables) {
    if (table) table = table->get_as<toml::table>(part);
  }
  const toml::node* node = table ? table->get(name) : nullptr;
  if (node && !node->is_table()) throw parsed_->refusal(name, *node, fmt::format("a table [{}]", name));
  parsed_->tables.push_back(name);
}

void ConfigReader::end() { parsed_->tables.pop_back(); }

void ConfigReader::refuse_unknown() const {
  std::vector<Parsed::Unknown> unknown;
  parsed_->collect_unknown("", parsed_->root, unknown);
  std::stable_sort(unknown.begin(), unknown.end(),
                   [](const Parsed::Unknown& a, const Parsed::Unknown& b) { return a.line < b.line; });
  std::vector<std::string> lines;
  for (const auto& [line, key] : unknown) {
    const std::string place =
        line == 0 ? "--set " + parsed_->overridden.at(key) : fmt::format("{}:{}", parsed_->file, line);
    lines.push_back(fmt::format("{}: unknown key {}{}", place, key, nearest(key, parsed_->known)));
  }
  if (!lines.empty()) throw input_error("{}", fmt::join(lines, "\n"));
}

// ---- ConfigWriter

void ConfigWriter::declare(const char* name, std::string value, std::string expected, const char* help) {
  std::string table = dotted(tables_, "");
  if (!table.empty()) table.pop_back();
  declared_.push_back({std::move(table), name, std::move(value), std::move(expected), help});
}

void ConfigWriter::key(const char* name, std::int64_t& value, std::int64_t least, std::int64_t most, const char* help) {
  declare(name, toml_text(value), expected_integer(least, most), help);
}

void ConfigWriter::key(const char* name, double& value, double least, double most, const char* help) {
  declare(name, toml_text(value), expected_number(least, most), help);
}

void ConfigWriter::key(const char* name, bool& value, const char* help) {
  declare(name, toml_text(value), kBool, help);
}

void ConfigWriter::key(const char* name, std::string& value, const char* help) {
  declare(name, toml_text(value), kString, help);
}

void ConfigWriter::key(const char* name, std::vector<std::string>& value, const char* help) {
  declare(name, toml_text(value), kStrings, help);
}

void ConfigWriter::key(const char* name, std::vector<std::int64_t>& value, std::int64_t least, std::int64_t most,
                       const char* help) {
  declare(name, toml_text(value), expected_integers(least, most), help);
}

void ConfigWriter::key(const char* name, std::map<std::string, std::string>& value, const char* help) {
  declare(name, toml_text(value), kTable, help);
}

void ConfigWriter::choice(const char* name, std::string& value, const std::vector<std::string>& among,
                          const char* help) {
  declare(name, toml_text(value), expected_choice(among), help);
}

void ConfigWriter::begin(const char* name) { tables_.push_back(name); }

void ConfigWriter::end() { tables_.pop_back(); }

std::string ConfigWriter::text() const {
  // A table stands once in TOML, its own keys before those of inner tables; keys of no table come first of
  // all.
  std::vector<std::string> tables = {""};
  for (const Declared& d : declared_) {
    if (std::find(tables.begin(), tables.end(), d.table) == tables.end()) tables.push_back(d.table);
  }
  std::string text;
  for (const std::string& table : tables) {
    if (!table.empty()) text += fmt::format("{}[{}]\n", text.empty() ? "" : "\n", table);
    for (const Declared& d : declared_) {
      if (d.table == table) text += fmt::format("{} = {}  # {}\n", d.name, d.value, d.help);
    }
  }
  return text;
}

std::vector<std::pair<std::string, std::string>> ConfigWriter::values() const {
  std::vector<std::pair<std::string, std::string>> values;
  for (const Declared& d : declared_) values.emplace_back(d.key(), d.value);
  return values;
}

std::string ConfigWriter::explain(const std::string& key) const {
  std::string text;
  std::vector<std::string> known;
  for (const Declared& d : declared_) {
    known.push_back(d.key());
    if (key.empty() || d.key() == key || d.key().starts_with(key + ".")) {
      text += fmt::format("{} = {}\n    {}\n    {}\n", d.key(), d.value, d.help, d.expected);
    }
  }
  if (text.empty()) throw input_error("unknown key {}{}", key, nearest(key, known));
  return text;
}

}  // namespace nascent
