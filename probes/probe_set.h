// The probes of a run: which are on, when, at which taps; what the model shows is handed on to those whose step it is.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "probes/probe.h"
#include "probes/schedule.h"

namespace nascent {

class ProbeSet : public Listener {
 public:
  ProbeSet();

  // Keys [probes]: on, taps, rank; [probes.NAME]: on, at, and the probe's own.
  void settings(Settings& s);
  // After the settings: resolves the taps' patterns (throws for one that fits no tap). sequence: positions of a
  // sequence.
  void plan(const std::vector<Tap*>& taps, std::int64_t sequence);

  // True when any probe is on at this step; from here the listener's calls go to those.
  bool begin_step(std::int64_t step);
  void finish(Stream& s, const Parameters& parameters);
  bool needs_updates() const;     // in this step
  bool may_need_updates() const;  // in any
  void on_update(Stream& s, const AppliedUpdate& update);
  const Records& records();  // of the step, with each probe's seconds; to be read after its last call

  // Between steps. The state is that of a set with the same taps and rank, else restore throws (input).
  ProbeState state() const;
  void restore(const ProbeState& state);

  double seconds() const { return seconds_; }  // all that probes have taken so far

  bool wants(const std::string& tap) const override;
  void on_value(Stream& s, const Tap& tap, View value) override;
  void on_grad(Stream& s, const Tap& tap, View grad) override;
  void on_losses(Stream& s, View losses, View targets) override;

 private:
  struct Member {
    std::string name;
    std::unique_ptr<Probe> probe;
    bool on = true;
    std::vector<std::string> at = {"every 1"};
    Schedule schedule;
    bool active = false;  // in this step
    double seconds = 0;   // in this step
  };
  TapStatistics* statistics_of(const Tap& tap);

  bool on_ = true;
  std::vector<std::string> patterns_ = {"embed", "blocks.*.resid_post"};
  std::int64_t rank_ = 16;

  std::vector<Member> members_;
  std::map<std::string, std::unique_ptr<TapStatistics>> statistics_;  // by tap
  bool statistics_active_ = false;
  std::int64_t step_ = 0;
  Records records_;
  double statistics_seconds_ = 0, seconds_ = 0;
};

}  // namespace nascent
