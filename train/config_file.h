// Settings as TOML: ConfigReader reads a run's configuration, ConfigWriter writes every key in force and
// explains keys. Declaring the same settings to a writer and then to a reader of its text gives exactly the
// same values.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "kernels/settings.h"

namespace nascent {

class ConfigReader final : public Settings {
 public:
  // `overrides` are what --set takes: "train.steps=100". The right side is a TOML value or, failing that, a
  // bare string. Throws (input) when the file cannot be read, or with file:line:column where it is not TOML.
  explicit ConfigReader(const std::filesystem::path& file, const std::vector<std::string>& overrides = {});
  // Of overrides alone.
  explicit ConfigReader(const std::vector<std::string>& overrides);
  // The same of a text; `called` stands for the file's name in errors.
  static ConfigReader of_text(const std::string& text, const std::string& called,
                              const std::vector<std::string>& overrides = {});
  ConfigReader(ConfigReader&&) noexcept;
  ~ConfigReader() override;

  // Each replaces `value` when the file or an override holds the key. A number without a decimal point counts
  // as a double too; NaN and infinities are refused. Throws (input): `train.steps = -3 at run.toml:4:
  // expected an integer from 1 to 1000`.
  void key(const char* name, std::int64_t& value, std::int64_t least, std::int64_t most, const char* help) override;
  void key(const char* name, double& value, double least, double most, const char* help) override;
  void key(const char* name, bool& value, const char* help) override;
  void key(const char* name, std::string& value, const char* help) override;
  void key(const char* name, std::vector<std::string>& value, const char* help) override;
  void key(const char* name, std::vector<std::int64_t>& value, std::int64_t least, std::int64_t most,
           const char* help) override;
  void key(const char* name, std::map<std::string, std::string>& value, const char* help) override;
  void choice(const char* name, std::string& value, const std::vector<std::string>& among, const char* help) override;
  void begin(const char* name) override;
  void end() override;

  // After all declarations. Throws (input) for the keys nobody declared, one line each:
  // `run.toml:12: unknown key train.setps; did you mean train.steps?`
  void refuse_unknown() const;

 private:
  struct Parsed;
  std::unique_ptr<Parsed> parsed_;
};

class ConfigWriter final : public Settings {
 public:
  void key(const char* name, std::int64_t& value, std::int64_t least, std::int64_t most, const char* help) override;
  void key(const char* name, double& value, double least, double most, const char* help) override;
  void key(const char* name, bool& value, const char* help) override;
  void key(const char* name, std::string& value, const char* help) override;
  void key(const char* name, std::vector<std::string>& value, const char* help) override;
  void key(const char* name, std::vector<std::int64_t>& value, std::int64_t least, std::int64_t most,
           const char* help) override;
  void key(const char* name, std::map<std::string, std::string>& value, const char* help) override;
  void choice(const char* name, std::string& value, const std::vector<std::string>& among, const char* help) override;
  void begin(const char* name) override;
  void end() override;

  // Every declared key with the value it had when declared and its help as a comment, as TOML.
  std::string text() const;

  // Every declared key and its value as TOML, in order.
  std::vector<std::pair<std::string, std::string>> values() const;

  // Value, range and help of a key ("train.steps"), of all keys of a table ("train"), or of all ("").
  // Throws (input) and names the nearest known key when there is none.
  std::string explain(const std::string& key) const;

 private:
  struct Declared {
    std::string table, name;
    std::string value;     // as TOML
    std::string expected;  // "an integer from 1 to 1000"
    std::string help;
    std::string key() const { return table.empty() ? name : table + "." + name; }
  };
  void declare(const char* name, std::string value, std::string expected, const char* help);

  std::vector<std::string> tables_;  // those begun and not ended, outermost first
  std::vector<Declared> declared_;
};

}  // namespace nascent
