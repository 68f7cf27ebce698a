// Named settings: a part of the program declares its keys once, with meaning, unit and range; the same declaration
// reads them from a config file, writes them back, explains them, and refuses the ones nobody declared.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <vector>

namespace nascent {

class Settings {
 public:
  virtual ~Settings() = default;

  // Each call declares one key; the variable holds the default before and the value in force after. `help` says what
  // the key is and its unit, on one line. Out-of-range or wrongly typed values throw and name the key, its place and
  // what is expected.
  virtual void key(const char* name, std::int64_t& value, std::int64_t least, std::int64_t most, const char* help) = 0;
  virtual void key(const char* name, double& value, double least, double most, const char* help) = 0;
  virtual void key(const char* name, bool& value, const char* help) = 0;
  virtual void key(const char* name, std::string& value, const char* help) = 0;
  virtual void key(const char* name, std::vector<std::string>& value, const char* help) = 0;
  virtual void key(const char* name, std::vector<std::int64_t>& value, std::int64_t least, std::int64_t most,
                   const char* help) = 0;
  // A table of texts whose names the user chooses: [name] NAME = "text".
  virtual void key(const char* name, std::map<std::string, std::string>& value, const char* help) = 0;
  // One of the listed words.
  virtual void choice(const char* name, std::string& value, const std::vector<std::string>& among,
                      const char* help) = 0;
  // A table [name] of keys; end() closes it.
  virtual void begin(const char* name) = 0;
  virtual void end() = 0;
};

inline constexpr std::int64_t kNoLimit = std::numeric_limits<std::int64_t>::max();

}  // namespace nascent
