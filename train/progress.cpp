#include "train/progress.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fmt/format.h>
#include <string_view>
#include <sys/ioctl.h>
#include <unistd.h>

namespace nascent {
namespace {

using namespace std::chrono_literals;

constexpr auto kRedraw = 100ms;    // of the live line
constexpr auto kNextLine = 10s;    // elsewhere
constexpr double kMeanOver = 20;   // steps
constexpr int kDefaultWidth = 80;  // where the terminal does not say

bool is_terminal(std::FILE* out) {
  const char* kind = std::getenv("TERM");
  return ::isatty(::fileno(out)) && kind && std::string_view(kind) != "dumb";
}

int width_of(std::FILE* out) {
  winsize size{};
  return ::ioctl(::fileno(out), TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : kDefaultWidth;
}

std::string duration_text(double seconds) {
  const auto s = static_cast<std::int64_t>(std::round(seconds));
  return s < 3600 ? fmt::format("{}:{:02}", s / 60, s % 60)
                  : fmt::format("{}:{:02}:{:02}", s / 3600, s / 60 % 60, s % 60);
}

std::string rate_text(double per_second) {
  if (per_second < 1e3) return fmt::format("{:.0f}", per_second);
  if (per_second < 1e6) return fmt::format("{:.1f}k", per_second / 1e3);
  return fmt::format("{:.1f}M", per_second / 1e6);
}

// Not fmt::print, which throws when nobody reads any more: that must not end a run.
void print(std::FILE* out, const std::string& text) {
  std::fputs(text.c_str(), out);
  std::fflush(out);
}

}  // namespace

Progress::Progress(std::int64_t steps, std::FILE* out) : steps_(steps), out_(out), terminal_(is_terminal(out)) {}

Progress::~Progress() {
  if (live_) print(out_, "\n");
}

void Progress::update(const StepProgress& now) {
  now_ = now;
  ++seen_;
  // A plain mean at first, then an exponential one.
  const double weight = 1 / std::min(static_cast<double>(seen_), kMeanOver);
  mean_tokens_ += weight * (static_cast<double>(now.tokens) - mean_tokens_);
  mean_seconds_ += weight * (now.seconds - mean_seconds_);
  mean_probe_seconds_ += weight * (now.probe_seconds - mean_probe_seconds_);

  const Clock::time_point time = Clock::now();
  const bool due = time - drawn_ >= (terminal_ ? Clock::duration(kRedraw) : Clock::duration(kNextLine));
  if (!due && seen_ > 1 && now.step < steps_) return;
  drawn_ = time;
  if (terminal_) {
    // One column stays free: a full line makes some terminals wrap. ESC [K clears what a longer line left.
    const auto width = static_cast<std::size_t>(std::max(width_of(out_) - 1, 0));
    print(out_, fmt::format("\r{}\x1b[K", text().substr(0, width)));
    live_ = true;
  } else {
    print(out_, text() + "\n");
  }
}

void Progress::clear() {
  if (!live_) return;
  print(out_, "\r\x1b[K");
  live_ = false;
  drawn_ = {};
}

std::string Progress::text() const {
  const double left = static_cast<double>(std::max<std::int64_t>(steps_ - now_.step, 0)) * mean_seconds_;
  const double seconds = std::max(mean_seconds_, 1e-9);
  return fmt::format("step {}/{}  loss {:.4f}  {} tokens/s  ETA {}  probes {:.1f}%", now_.step, steps_, now_.loss,
                     rate_text(mean_tokens_ / seconds), duration_text(left), 100 * mean_probe_seconds_ / seconds);
}

}  // namespace nascent
