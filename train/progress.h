// How far a run is. On a terminal one live line; elsewhere a full line at the first and the last step and now
// and then between.
#pragma once

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <string>

namespace nascent {

struct StepProgress {
  std::int64_t step = 0;     // updates applied
  double loss = 0;           // nats per target
  std::int64_t tokens = 0;   // seen in this step
  double seconds = 0;        // this step took, probes included
  double probe_seconds = 0;  // of these in probes
};

class Progress {
 public:
  // `steps`: updates when the run is complete. Writes to `out`, which stays the caller's.
  explicit Progress(std::int64_t steps, std::FILE* out = stderr);
  ~Progress();  // leaves the last live line standing
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void update(const StepProgress& now);

  // Takes the live line away, before anything else is printed to the terminal; the next update draws it
  // again.
  void clear();

  // "step 512/1000  loss 3.4567  12.3k tokens/s  ETA 1:02:03  probes 4.2%"; rates are means over about the
  // last 20 steps.
  std::string text() const;

 private:
  using Clock = std::chrono::steady_clock;

  std::int64_t steps_;
  std::FILE* out_;
  bool terminal_;
  StepProgress now_;
  double mean_tokens_ = 0, mean_seconds_ = 0, mean_probe_seconds_ = 0;  // per step
  std::int64_t seen_ = 0;                                               // updates of this object
  Clock::time_point drawn_;
  bool live_ = false;  // a line without its end stands on the terminal
};

}  // namespace nascent
