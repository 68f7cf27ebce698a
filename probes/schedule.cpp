#include "probes/schedule.h"

#include <bit>
#include <charconv>

#include "kernels/error.h"

namespace nascent {
namespace {

constexpr std::int64_t kDenseUntil = 512;  // "log+K": every step until then

bool read_number(const std::string& text, std::int64_t& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size() && number >= 0;
}

}  // namespace

Schedule Schedule::parse(const std::vector<std::string>& rules, const std::string& key, std::int64_t log_until) {
  Schedule schedule;
  for (const std::string& text : rules) {
    const auto after = [&](const char* word) {
      const std::string prefix(word);
      return text.starts_with(prefix) ? text.substr(prefix.size()) : std::string();
    };
    std::int64_t number = 0;
    if (text == "never") continue;
    if (text == "log" || text == "pythia") {
      schedule.rules_.push_back({Rule::Kind::kLog, log_until});
    } else if (read_number(after("log+"), number) && number > 0) {
      schedule.rules_.push_back({Rule::Kind::kDense, number});
    } else if (read_number(after("step "), number)) {
      schedule.rules_.push_back({Rule::Kind::kStep, number});
    } else if ((read_number(after("every "), number) || read_number(text, number)) && number > 0) {
      schedule.rules_.push_back({Rule::Kind::kEvery, number});
    } else {
      throw input_error(
          "{}: \"{}\" is no schedule, expected \"every K\", \"log\", \"pythia\", \"log+K\", \"step S\" or "
          "\"never\"",
          key, text);
    }
  }
  return schedule;
}

bool Schedule::at(std::int64_t step) const {
  for (const Rule& rule : rules_) {
    switch (rule.kind) {
      case Rule::Kind::kEvery:
        if (step % rule.number == 0) return true;
        break;
      case Rule::Kind::kStep:
        if (step == rule.number) return true;
        break;
      case Rule::Kind::kDense:
        if (step <= kDenseUntil || step % rule.number == 0) return true;
        break;
      case Rule::Kind::kLog:
        if (step % rule.number == 0 || (step < rule.number && std::has_single_bit(static_cast<std::uint64_t>(step))))
          return true;
        break;
    }
  }
  return false;
}

}  // namespace nascent
