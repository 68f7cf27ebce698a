// The one exception type. A message names what was wrong, where, and what was expected.
#pragma once

#include <fmt/format.h>
#include <stdexcept>
#include <string>
#include <utility>

namespace nascent {

// Who must act: the user (a key, a file, a shape asked for) or the machine (disk full, out of memory, a bug of ours).
enum class Blame { kInput, kMachine };

class Error : public std::runtime_error {
 public:
  Error(Blame blame, const std::string& message) : std::runtime_error(message), blame_(blame) {}
  // Exit status of the program: 2 for the user's input, 1 for the machine.
  int exit_code() const { return blame_ == Blame::kInput ? 2 : 1; }

 private:
  Blame blame_;
};

template <class... Args>
Error input_error(fmt::format_string<Args...> format, Args&&... args) {
  return Error(Blame::kInput, fmt::format(format, std::forward<Args>(args)...));
}

template <class... Args>
Error machine_error(fmt::format_string<Args...> format, Args&&... args) {
  return Error(Blame::kMachine, fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace nascent
