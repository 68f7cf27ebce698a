// What a person or a batch system asks of a running program: SIGINT and SIGTERM to save and end after the step, SIGUSR1 to save and
// go on. A second SIGINT or SIGTERM ends the program at once.
#pragma once

#include <csignal>

namespace nascent {

class Signals {
 public:
  Signals();   // takes the three signals over
  ~Signals();  // gives them back
  Signals(const Signals&) = delete;
  Signals& operator=(const Signals&) = delete;

  int stop() const;  // the signal that asked to end, 0 when none did
  bool take_save();  // whether a save was asked for since the last call

 private:
  struct sigaction interrupt_before_ = {}, terminate_before_ = {}, user_before_ = {};
};

}  // namespace nascent
