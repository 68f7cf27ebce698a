#include "probes/probe_set.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <fmt/format.h>
#include <fnmatch.h>
#include <limits>
#include <numeric>
#include <utility>

#include "kernels/error.h"

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

// Entropy of the corpus' distribution of types, in nats: the loss of a model that knows only how frequent they are.
double unigram_loss(const std::vector<std::int64_t>& counts) {
  const double total = static_cast<double>(std::accumulate(counts.begin(), counts.end(), std::int64_t{0}));
  double entropy = 0;
  for (const std::int64_t count : counts) {
    const double p = static_cast<double>(count) / total;
    if (count > 0) entropy -= p * std::log(p);
  }
  return entropy;
}

}  // namespace

ProbeSet::ProbeSet() {
  fixed_.labels = {{"batch", "fixed"}};
  for (const ProbeKind& kind : probe_kinds()) {
    Member member;
    member.name = kind.name;
    member.probe = kind.make();
    members_.push_back(std::move(member));
  }
}

void LookKeys::settings(Settings& s) {
  s.key("rank", rank, 1, 4096, "directions r of the tangent bases");
  s.key("explained", explained, 0, 1, "above 0: in place of rank, as few directions as explain this share of variance");
  s.key("sink", sink, 0, kNoLimit, "first positions of each sequence that view=no_sink leaves out");
  s.key("edges", edges, 1, kNoLimit, "lowest rank of each bin of token frequency; empty: 1, 10, 100, ...");
  s.key("equal_mass", equal_mass, 0, 1000000, "above 0: in place of edges, so many bins of equal token counts");
}

void ProbeSet::settings(Settings& s) {
  s.begin("probes");
  s.key("on", on_, "measure anything at all");
  s.key("taps", patterns_,
        "places in the network (TransformerLens names, * fits any text) whose activations and gradients are measured");
  s.key("detail", detail_,
        fmt::format("steps with spectra, drawn controls, frequency bins, views and weights: {}", Schedule::kRules)
            .c_str());
  s.key("save_moments", save_moments_,
        "keep second moments of detailed steps in arrays/, so that later bases can be measured at them");
  s.key("set", set_, "PREFIX of a probe set (nascent corpus probe-set): a fixed batch, measured on detailed steps");
  look_.settings(s);
  s.key("basis", basis_files_, "imported bases: NAME = a safetensors file of basis:NAME:TAP [width, rank]");
  s.begin("early");
  s.key("until", until_, fmt::format("window of the basis `early`: {}", EarlyWindow::kRules).c_str());
  s.choice("pool", pool_, {"step", "raw"},
           "step: the mean of C/tr C over the window's detailed steps; raw: all their positions about one mean");
  s.end();
  for (Member& m : members_) {
    s.begin(m.name.c_str());
    s.key("on", m.on, "run this probe");
    s.key("at", m.at, fmt::format("steps it runs at: {}", Schedule::kRules).c_str());
    m.probe->settings(s);
    s.end();
  }
  s.end();
}

bool ProbeSet::statistics_needed() const {
  return std::ranges::any_of(members_, [](const Member& m) { return m.probe->needs_statistics(); });
}

void ProbeSet::plan(const std::vector<Tap*>& taps, RunFacts facts) {
  facts_ = std::move(facts);
  for (Member& m : members_) m.schedule = Schedule::parse(m.at, "probes." + m.name + ".at");
  detail_schedule_ = Schedule::parse(detail_, "probes.detail");
  window_ = EarlyWindow::parse(until_);
  if (!on_) members_.clear();
  std::erase_if(members_, [](const Member& m) { return !m.on; });
  if (!facts_.counts.empty()) {
    bins_ = frequency_bins(facts_.counts, look_.edges, look_.equal_mass, facts_.special);
    unigram_ = unigram_loss(facts_.counts);
  }
  for (const std::string& pattern : patterns_) {
    if (std::ranges::none_of(taps, [&](const Tap* tap) { return matches(pattern, tap->name); }))
      throw input_error("probes.taps: \"{}\" fits no tap of this model; expected a name like {} or {}", pattern,
                        taps.front()->name, taps.back()->name);
  }
  for (Member& m : members_) m.probe->plan(facts_.sequence);
  if (!statistics_needed()) return;
  plan_panel(step_, taps, facts_.batch * facts_.sequence);
  if (facts_.fixed_positions > 0) plan_panel(fixed_, taps, facts_.fixed_positions);
}

void ProbeSet::plan_panel(Followed& followed, const std::vector<Tap*>& taps, std::int64_t positions) {
  Panel& panel = followed.panel;
  panel.choice.basis = {look_.rank, look_.explained, pool_ == "raw"};
  panel.choice.sink = look_.sink;
  panel.choice.norm = facts_.norm;
  panel.choice.bins = facts_.counts.empty() ? nullptr : &bins_;
  panel.choice.seed = facts_.seed;
  for (const Tap* tap : taps) {
    if (std::ranges::any_of(patterns_, [&](const std::string& pattern) { return matches(pattern, tap->name); }))
      panel.taps.push_back(std::make_unique<TapStatistics>(*tap, facts_.dtype, positions, panel.choice.basis));
  }
  for (const auto& [name, path] : basis_files_) {
    if (std::ranges::count(Bases::kOwnNames, name) > 0)
      throw input_error("probes.basis.{}: a run's own basis has this name, expected another", name);
    bool used = false;
    for (auto& [tap, directions] : read_bases(path)) {
      TapStatistics* statistics = panel.find(tap);
      if (!statistics) continue;
      check_basis(directions, statistics->tap().width, fmt::format("probes.basis.{}: {}: {}", name, path, tap));
      statistics->bases().import(name, std::move(directions));
      used = true;
    }
    if (!used) throw input_error("probes.basis.{}: {}: no basis of a tap in probes.taps", name, path);
  }
}

std::size_t ProbeSet::bytes() const {
  std::size_t bytes = 0;
  for (const Followed* followed : {&step_, &fixed_}) {
    for (const auto& tap : followed->panel.taps) bytes += tap->bytes();
  }
  return bytes;
}

void ProbeSet::allocate() {
  for (Followed* followed : {&step_, &fixed_}) {
    for (const auto& tap : followed->panel.taps) tap->allocate();
  }
}

void ProbeSet::store_in(const std::filesystem::path& folder) {
  if (!save_moments_) return;
  step_.store.emplace(folder, "step");
  fixed_.store.emplace(folder, "fixed");
}

bool ProbeSet::wants(const std::string& tap) const {
  return step_.panel.find(tap) || std::ranges::any_of(members_, [&](const Member& m) { return m.probe->wants(tap); });
}

// ---- A step

void ProbeSet::begin(Followed& followed, std::int64_t step, View inputs, View targets) {
  shown_ = &followed;
  followed.panel.step = step;
  followed.panel.detail = is_detailed(step);
  followed.panel.positions = PositionLabels::of_batch(inputs, targets);
  for (const auto& tap : followed.panel.taps) tap->begin();
}

bool ProbeSet::fixed_due(std::int64_t step) const { return !fixed_.panel.taps.empty() && is_detailed(step); }

void ProbeSet::begin_fixed(std::int64_t step, View inputs, View targets) {
  records_.clear();
  fixed_start_ = std::chrono::steady_clock::now();
  begin(fixed_, step, inputs, targets);
  fixed_.active = true;
  close_window(step, std::numeric_limits<double>::infinity());
}

void ProbeSet::finish_fixed(Stream& s) {
  finish(s, fixed_, window_closed_);
  report(s, fixed_);
  fixed_seconds_ = std::chrono::duration<double>(std::chrono::steady_clock::now() - fixed_start_).count();
}

bool ProbeSet::begin_step(std::int64_t step, View inputs, View targets) {
  if (!fixed_.active) records_.clear();  // those of the probe set belong to this step
  fixed_.active = false;
  statistics_seconds_ = 0;
  bool any = false, statistics = step == 0 || is_detailed(step);  // bases are born, moments pooled and kept
  for (Member& m : members_) {
    m.active = m.schedule.at(step);
    m.seconds = 0;
    if (!m.active) continue;
    any = true;
    statistics = statistics || m.probe->needs_statistics();
    m.probe->begin_step();
  }
  step_.active = statistics && !step_.panel.taps.empty();
  if (step_.active || any) begin(step_, step, inputs, targets);
  return step_.active || any;
}

void ProbeSet::on_value(Stream& s, const Tap& tap, View value) {
  if (TapStatistics* statistics = shown_->active ? shown_->panel.find(tap.name) : nullptr) {
    const Timer timer(statistics_seconds_);
    statistics->add_activation(value);
  }
  for (Member& m : members_) {
    if (shown_ != &step_ || !m.active || !m.probe->wants(tap.name)) continue;
    const Timer timer(m.seconds);
    m.probe->on_value(s, tap, value);
  }
}

void ProbeSet::on_grad(Stream& s, const Tap& tap, View grad) {
  if (TapStatistics* statistics = shown_->active ? shown_->panel.find(tap.name) : nullptr) {
    const Timer timer(statistics_seconds_);
    statistics->add_gradient(grad);
  }
  for (Member& m : members_) {
    if (shown_ != &step_ || !m.active || !m.probe->wants(tap.name)) continue;
    const Timer timer(m.seconds);
    m.probe->on_grad(s, tap, grad);
  }
}

void ProbeSet::on_losses(Stream& s, View losses, View targets) {
  for (Member& m : members_) {
    if (shown_ != &step_ || !m.active) continue;
    const Timer timer(m.seconds);
    m.probe->on_losses(s, losses, targets);
  }
}

void ProbeSet::finish(Stream& s, Followed& followed, bool window_closed) {
  const Timer timer(statistics_seconds_);
  Panel& panel = followed.panel;
  FitRequest request;
  request.full = panel.detail;
  request.pool = panel.detail && window_.exists() && !window_closed;
  request.close = window_closed;
  const bool had_early = !panel.taps.empty() && panel.taps[0]->bases().find("early");
  panel.sum_up(s, request);
  const bool has_early = !panel.taps.empty() && panel.taps[0]->bases().find("early");
  if (has_early && !had_early) look_back(followed);
  if (panel.detail && followed.store) followed.store->write(panel);
}

// The series of a basis that is born now, at the steps before.
void ProbeSet::look_back(Followed& followed) {
  if (!followed.store) return;
  for (const std::int64_t step : followed.store->steps(followed.panel.step)) {
    for (const auto& tap : followed.panel.taps) {
      const Basis* early = tap->bases().find("early");
      if (!early || early->directions.cols == 0) continue;
      for (Record& record : followed.store->measure(step, tap->tap().name, *early)) {
        Labels labels = labels_of(record.labels);
        labels.insert(followed.labels.begin(), followed.labels.end());
        record.labels = text_of(labels);
        retrospective_[step].push_back(std::move(record));
      }
    }
  }
}

void ProbeSet::report(Stream& s, Followed& followed) {
  for (Member& m : members_) {
    if (!m.probe->needs_statistics() || !m.schedule.at(followed.panel.step)) continue;
    const Timer timer(m.seconds);
    Recorder recorder(records_, m.name, followed.labels);
    m.probe->report(s, followed.panel, recorder);
  }
}

void ProbeSet::close_window(std::int64_t step, double loss) {
  const std::int64_t tokens = step * facts_.batch * facts_.sequence;  // trained on before
  window_closed_ = window_closed_ || window_.closed({step, facts_.steps, tokens, loss, unigram_});
}

void ProbeSet::finish(Stream& s, const Parameters& parameters, double loss) {
  close_window(step_.panel.step, loss);
  if (step_.active) {
    finish(s, step_, window_closed_);
    report(s, step_);
  }
  for (Member& m : members_) {
    if (!m.active) continue;
    const Timer timer(m.seconds);
    Recorder recorder(records_, m.name);
    m.probe->finish(s, parameters, recorder);
  }
}

bool ProbeSet::needs_updates() const {
  return std::ranges::any_of(members_, [](const Member& m) { return m.active && m.probe->needs_updates(); });
}

bool ProbeSet::may_need_updates() const {
  return on_ && std::ranges::any_of(members_, [](const Member& m) { return m.on && m.probe->needs_updates(); });
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
    Record record;
    record.probe = probe;
    record.key = "seconds";
    record.value = seconds;
    records_.push_back(std::move(record));
    seconds_ += seconds;
  };
  if (fixed_seconds_ > 0) add("probe_set", std::exchange(fixed_seconds_, 0));
  if (step_.active) add("statistics", statistics_seconds_);
  for (const Member& m : members_) {
    if (m.active) add(m.name, m.seconds);
  }
  return records_;
}

// ---- Between steps

ProbeState ProbeSet::state() const {
  ProbeState state;
  state["early/closed"] = DenseMatrix(1, 1, {window_closed_ ? 1.0 : 0.0});
  for (const auto& tap : step_.panel.taps) tap->save(state, "step/");
  for (const auto& tap : fixed_.panel.taps) tap->save(state, "fixed/");
  return state;
}

void ProbeSet::restore(const ProbeState& state) {
  if (!state.contains("early/closed")) throw input_error("the probes' state has no early/closed");
  window_closed_ = state.at("early/closed").data.at(0) != 0;
  for (const auto& tap : step_.panel.taps) tap->load(state, "step/");
  for (const auto& tap : fixed_.panel.taps) tap->load(state, "fixed/");
}

}  // namespace nascent
