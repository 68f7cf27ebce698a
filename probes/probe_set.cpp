#include "probes/probe_set.h"

#include <algorithm>
#include <chrono>
#include <exception>
#include <fmt/format.h>
#include <fnmatch.h>

#include "kernels/error.h"
#include "kernels/parallel.h"

namespace nascent {
namespace {

// Adds the time until its end to a count of seconds.
class Timer {
 public:
  explicit Timer(double& seconds) : seconds_(seconds) {}
  ~Timer() { seconds_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count(); }
  Timer(const Timer&) = delete;
  Timer& operator=(const Timer&) = delete;

 private:
  double& seconds_;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

bool matches(const std::string& pattern, const std::string& name) {
  return fnmatch(pattern.c_str(), name.c_str(), 0) == 0;
}

}  // namespace

ProbeSet::ProbeSet() {
  for (const ProbeKind& kind : probe_kinds()) {
    Member member;
    member.name = kind.name;
    member.probe = kind.make();
    members_.push_back(std::move(member));
  }
}

void ProbeSet::settings(Settings& s) {
  s.begin("probes");
  s.key("on", on_, "measure anything at all");
  s.key("taps", patterns_,
        "places in the network (TransformerLens names, * fits any text) whose activations and gradients are measured");
  s.key("rank", rank_, 1, 4096, "directions r of the tangent bases");
  for (Member& m : members_) {
    s.begin(m.name.c_str());
    s.key("on", m.on, "run this probe");
    s.key("at", m.at, fmt::format("steps it runs at: {}", Schedule::kRules).c_str());
    m.probe->settings(s);
    s.end();
  }
  s.end();
}

void ProbeSet::plan(const std::vector<Tap*>& taps, std::int64_t sequence) {
  for (Member& m : members_) m.schedule = Schedule::parse(m.at, "probes." + m.name + ".at");
  if (!on_) members_.clear();
  std::erase_if(members_, [](const Member& m) { return !m.on; });

  ProbePlan plan;
  plan.sequence = sequence;
  bool needed = false;
  for (const Member& m : members_) needed = needed || m.probe->needs_statistics();
  for (const std::string& pattern : patterns_) {
    bool fits = false;
    for (const Tap* tap : taps) fits = fits || matches(pattern, tap->name);
    if (!fits)
      throw input_error("probes.taps: \"{}\" fits no tap of this model; expected a name like {} or {}", pattern,
                        taps.front()->name, taps.back()->name);
  }
  for (const Tap* tap : taps) {
    for (const std::string& pattern : patterns_) {
      if (needed && !statistics_.contains(tap->name) && matches(pattern, tap->name)) {
        plan.taps.push_back((statistics_[tap->name] = std::make_unique<TapStatistics>(*tap)).get());
      }
    }
  }
  for (Member& m : members_) m.probe->plan(plan);
}

bool ProbeSet::wants(const std::string& tap) const {
  for (const Member& m : members_) {
    if (m.probe->wants(tap)) return true;
  }
  return statistics_.contains(tap);
}

bool ProbeSet::begin_step(std::int64_t step) {
  step_ = step;
  records_.clear();
  statistics_seconds_ = 0;
  // The first step's statistics are always taken: bases are born there.
  statistics_active_ = step == 0 && !statistics_.empty();
  bool any = statistics_active_;
  for (Member& m : members_) {
    m.active = m.schedule.at(step);
    m.seconds = 0;
    if (!m.active) continue;
    any = true;
    statistics_active_ = statistics_active_ || m.probe->needs_statistics();
    m.probe->begin_step();
  }
  if (statistics_active_) {
    for (auto& [name, statistics] : statistics_) statistics->clear();
  }
  return any;
}

TapStatistics* ProbeSet::statistics_of(const Tap& tap) {
  const auto found = statistics_active_ ? statistics_.find(tap.name) : statistics_.end();
  return found == statistics_.end() ? nullptr : found->second.get();
}

void ProbeSet::on_value(Stream& s, const Tap& tap, View value) {
  if (TapStatistics* statistics = statistics_of(tap)) {
    const Timer timer(statistics_seconds_);
    statistics->add_activation(s, value);
  }
  for (Member& m : members_) {
    if (!m.active || !m.probe->wants(tap.name)) continue;
    const Timer timer(m.seconds);
    m.probe->on_value(s, tap, value);
  }
}

void ProbeSet::on_grad(Stream& s, const Tap& tap, View grad) {
  if (TapStatistics* statistics = statistics_of(tap)) {
    const Timer timer(statistics_seconds_);
    statistics->add_gradient(s, grad);
  }
  for (Member& m : members_) {
    if (!m.active || !m.probe->wants(tap.name)) continue;
    const Timer timer(m.seconds);
    m.probe->on_grad(s, tap, grad);
  }
}

void ProbeSet::on_losses(Stream& s, View losses, View targets) {
  for (Member& m : members_) {
    if (!m.active) continue;
    const Timer timer(m.seconds);
    m.probe->on_losses(s, losses, targets);
  }
}

void ProbeSet::finish(Stream& s, const Parameters& parameters) {
  if (statistics_active_) {
    const Timer timer(statistics_seconds_);
    std::vector<TapStatistics*> taps;
    for (auto& [name, statistics] : statistics_) taps.push_back(statistics.get());
    // Two independent fits a tap: one is of its activations, the other of its gradients.
    std::vector<std::exception_ptr> failures(2 * taps.size());
    parallel_for(s, static_cast<std::int64_t>(failures.size()), 1, [&](std::int64_t begin, std::int64_t end, int) {
      for (auto i = static_cast<std::size_t>(begin); i < static_cast<std::size_t>(end); ++i) {
        try {
          i % 2 == 0 ? taps[i / 2]->fit_activation(step_, rank_) : taps[i / 2]->fit_gradient(rank_);
        } catch (...) {
          failures[i] = std::current_exception();
        }
      }
    });
    for (const std::exception_ptr& failure : failures) {
      if (failure) std::rethrow_exception(failure);
    }
  }
  for (Member& m : members_) {
    if (!m.active) continue;
    const Timer timer(m.seconds);
    Recorder recorder(records_, m.name);
    m.probe->finish(s, parameters, recorder);
  }
}

bool ProbeSet::needs_updates() const {
  return std::any_of(members_.begin(), members_.end(),
                     [](const Member& m) { return m.active && m.probe->needs_updates(); });
}

bool ProbeSet::may_need_updates() const {
  return on_ && std::any_of(members_.begin(), members_.end(),
                            [](const Member& m) { return m.on && m.probe->needs_updates(); });
}

void ProbeSet::on_update(Stream& s, const AppliedUpdate& update) {
  for (Member& m : members_) {
    if (!m.active || !m.probe->needs_updates()) continue;
    const Timer timer(m.seconds);
    Recorder recorder(records_, m.name);
    m.probe->on_update(s, update, recorder);
  }
}

const Records& ProbeSet::records() {
  const auto add = [&](const std::string& probe, double seconds) {
    records_.push_back({probe, "", "seconds", "", seconds, "", {}, {}});
    seconds_ += seconds;
  };
  if (statistics_active_) add("statistics", statistics_seconds_);
  for (const Member& m : members_) {
    if (m.active) add(m.name, m.seconds);
  }
  return records_;
}

ProbeState ProbeSet::state() const {
  ProbeState state;
  for (const auto& [name, statistics] : statistics_) statistics->save(state);
  return state;
}

void ProbeSet::restore(const ProbeState& state) {
  for (const auto& [name, statistics] : statistics_) statistics->load(state);
}

}  // namespace nascent
