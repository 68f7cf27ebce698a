// What a failing call says, and whom it blames.
#pragma once

#include <string>

#include "kernels/error.h"

struct Failure {
  int exit_code = 0;  // 0 when nothing was thrown
  std::string message;
  bool says(const std::string& words) const { return message.find(words) != std::string::npos; }
};

template <class F>
Failure failure_of(F&& call) {
  try {
    call();
  } catch (const nascent::Error& error) {
    return {error.exit_code(), error.what()};
  }
  return {};
}
