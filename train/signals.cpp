#include "train/signals.h"

namespace nascent {
namespace {

// All that a handler may do is to write one of these.
volatile std::sig_atomic_t stop_asked = 0;  // NOLINT(cppcoreguidelines-avoid-non-const-global-variables): see above
volatile std::sig_atomic_t save_asked = 0;  // NOLINT(cppcoreguidelines-avoid-non-const-global-variables): see above

void ask_to_stop(int signal) { stop_asked = signal; }
void ask_to_save(int) { save_asked = 1; }

void take_over(int signal, void (*handler)(int), int flags, struct sigaction& before) {
  struct sigaction action = {};
  action.sa_handler = handler;
  action.sa_flags = flags;
  sigemptyset(&action.sa_mask);
  sigaction(signal, &action, &before);
}

}  // namespace

Signals::Signals() {
  stop_asked = 0;
  save_asked = 0;
  const int restart = static_cast<int>(SA_RESTART), once = static_cast<int>(SA_RESTART | SA_RESETHAND);
  take_over(SIGINT, ask_to_stop, once, interrupt_before_);
  take_over(SIGTERM, ask_to_stop, once, terminate_before_);
  take_over(SIGUSR1, ask_to_save, restart, user_before_);
}

Signals::~Signals() {
  sigaction(SIGINT, &interrupt_before_, nullptr);
  sigaction(SIGTERM, &terminate_before_, nullptr);
  sigaction(SIGUSR1, &user_before_, nullptr);
}

int Signals::stop() const { return stop_asked; }

bool Signals::take_save() {
  const bool asked = save_asked != 0;
  save_asked = 0;
  return asked;
}

}  // namespace nascent
