// The probes of a run: which are on, when, at which taps; what the model shows is handed on to those whose step it is.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "probes/early_window.h"
#include "probes/moment_store.h"
#include "probes/probe.h"
#include "probes/schedule.h"

namespace nascent {

// What probes must know of a run beside the model's taps.
struct RunFacts {
  DType dtype = DType::kF32;
  std::int64_t batch = 0, sequence = 0;  // sequences of a step, positions of one
  std::int64_t steps = 0;                // of the run
  std::int64_t fixed_positions = 0;      // of the probe set; 0: there is none
  std::vector<std::int64_t> counts;      // of each type in the training corpus; empty: not known
  std::vector<std::int32_t> special;     // types without a rank
  NormStatistic norm;
  std::uint64_t seed = 0;  // of what probes draw
};

// The keys that say how arrays are looked at, in a run ([probes]) and by `nascent measure`.
struct LookKeys {
  std::int64_t rank = 16, sink = 4, equal_mass = 0;
  double explained = 0;
  std::vector<std::int64_t> edges;

  void settings(Settings& s);
};

class ProbeSet : public Listener {
 public:
  ProbeSet();

  // Keys [probes]: on, taps, detail and more; [probes.NAME]: on, at, and the probe's own.
  void settings(Settings& s);
  bool on() const { return on_; }
  const std::string& set() const { return set_; }  // PREFIX of the probe set, or empty

  // After the settings: resolves the taps' patterns (throws for one that fits no tap).
  void plan(const std::vector<Tap*>& taps, RunFacts facts);
  std::size_t bytes() const;                           // of activations and gradients kept during a step
  void allocate();                                     // takes them, once, before the first step
  void store_in(const std::filesystem::path& folder);  // second moments of detailed steps

  // The step on a fixed batch, the probe set, before the step itself: whether it is due; then as a step, without
  // optimizer. inputs, targets [n, T] i32: all of the set.
  bool fixed_due(std::int64_t step) const;
  void begin_fixed(std::int64_t step, View inputs, View targets);
  void finish_fixed(Stream& s);

  // True when any probe is on at this step; from here the listener's calls go to those. inputs, targets [S, T] i32: the
  // whole step's.
  bool begin_step(std::int64_t step, View inputs, View targets);
  void finish(Stream& s, const Parameters& parameters, double loss);
  bool needs_updates() const;     // in this step
  bool may_need_updates() const;  // in any
  void on_update(Stream& s, const AppliedUpdate& update);
  const Records& records();  // of the step, with each probe's seconds; to be read after its last call, once

  // Records of earlier steps that could only be known at this one: a basis born now, on stored moments.
  std::map<std::int64_t, Records> take_retrospective() { return std::move(retrospective_); }

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
  // A panel and what follows it through the run.
  struct Followed {
    Panel panel;
    Labels labels;  // of its records
    std::optional<MomentStore> store;
    bool active = false;  // in this step
  };
  void plan_panel(Followed& followed, const std::vector<Tap*>& taps, std::int64_t positions);
  void begin(Followed& followed, std::int64_t step, View inputs, View targets);
  void finish(Stream& s, Followed& followed, bool window_closed);
  void report(Stream& s, Followed& followed);
  void look_back(Followed& followed);
  void close_window(std::int64_t step, double loss);
  bool statistics_needed() const;
  bool is_detailed(std::int64_t step) const { return detail_schedule_.at(step); }

  bool on_ = true, save_moments_ = true;
  std::vector<std::string> patterns_ = {"embed", "blocks.*.resid_post"};
  std::vector<std::string> detail_ = {"log"};
  std::string until_ = "fraction 0.3", pool_ = "step", set_;
  std::map<std::string, std::string> basis_files_;
  LookKeys look_;

  RunFacts facts_;
  FrequencyBins bins_;
  double unigram_ = 0;
  Schedule detail_schedule_;
  EarlyWindow window_;
  bool window_closed_ = false;
  std::vector<Member> members_;
  Followed step_, fixed_;
  Followed* shown_ = nullptr;  // which of the two the model is showing
  Records records_;
  std::map<std::int64_t, Records> retrospective_;
  double statistics_seconds_ = 0, fixed_seconds_ = 0, seconds_ = 0;
  std::chrono::steady_clock::time_point fixed_start_;
};

}  // namespace nascent
