#include "probes/early_window.h"

#include <cmath>
#include <sstream>

#include "kernels/error.h"

namespace nascent {

EarlyWindow EarlyWindow::parse(const std::string& rule, const std::string& key) {
  std::istringstream words(rule);
  std::string kind, number, more;
  words >> kind >> number >> more;
  EarlyWindow window;
  const auto refuse = [&] { return input_error("{} = \"{}\": expected {}", key, rule, kRules); };
  if (!more.empty()) throw refuse();
  if (kind == "never" && number.empty()) return window;
  if (kind == "loss" && number == "unigram") {
    window.kind_ = Kind::kLoss;
    return window;
  }
  std::size_t read = 0;
  try {
    window.number_ = std::stod(number, &read);
  } catch (const std::exception&) {
    throw refuse();
  }
  const bool whole = window.number_ == std::floor(window.number_);
  if (read != number.size() || !std::isfinite(window.number_) || window.number_ <= 0) throw refuse();
  if (kind == "fraction" && window.number_ <= 1) {
    window.kind_ = Kind::kFraction;
  } else if (kind == "steps" && whole) {
    window.kind_ = Kind::kSteps;
  } else if (kind == "tokens" && whole) {
    window.kind_ = Kind::kTokens;
  } else {
    throw refuse();
  }
  return window;
}

bool EarlyWindow::closed(const Now& now) const {
  switch (kind_) {
    case Kind::kNever:
      return false;
    case Kind::kFraction:
      return static_cast<double>(now.step) >= number_ * static_cast<double>(now.steps);
    case Kind::kSteps:
      return static_cast<double>(now.step) >= number_;
    case Kind::kTokens:
      return static_cast<double>(now.tokens) >= number_;
    case Kind::kLoss:
      return now.step > 0 && now.loss < now.unigram;
  }
  return false;
}

}  // namespace nascent
