// When something happens, counted in optimizer steps. A schedule is a list of rules; it holds where any rule does.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace nascent {

class Schedule {
 public:
  // For the help of keys that hold rules.
  static constexpr const char* kRules =
      "\"every K\", \"log\" or \"pythia\" (0, 1, 2, 4 ... 512, 1000, 2000 ...), \"log+K\" (every step to 512, then "
      "every K), \"step S\", \"never\"";

  // Rules: "K" or "every K" (multiples of K), "log" (0, the powers of two below `log_until`, then its multiples: what
  // Pythia saves; "pythia" is the same word), "log+K" (every step to 512, then multiples of K), "step S" (that one),
  // "never". Throws (input) and names the key and the rule it does not know.
  static Schedule parse(const std::vector<std::string>& rules, const std::string& key = "schedule",
                        std::int64_t log_until = 1000);

  bool at(std::int64_t step) const;

 private:
  struct Rule {
    enum class Kind { kEvery, kLog, kDense, kStep } kind;
    std::int64_t number;
  };
  std::vector<Rule> rules_;
};

}  // namespace nascent
