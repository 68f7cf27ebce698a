// A probe: one measure, in one .cpp that registers itself. It is shown the training buffers and can write to none of
// them; its random numbers are its own; nothing it keeps depends on how the step was cut into micro-batches.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/settings.h"
#include "model/parameters.h"
#include "model/tap.h"
#include "probes/panel.h"
#include "probes/record.h"

namespace nascent {

// What the optimizer did to one parameter, as an update is applied.
struct AppliedUpdate {
  const Parameter& parameter;  // its gradient is the accumulated one, before clipping
  View before;                 // its value before the update; now `parameter.value`
  View first, second;          // Adam's moments after the update
};

// Collects the records of one step.
class Recorder {
 public:
  // labels: of every record ("batch").
  Recorder(Records& records, std::string probe, Labels labels = {})
      : records_(records), probe_(std::move(probe)), labels_(std::move(labels)) {}

  // A value of none is recorded as missing, with the reason. n: how many positions (or elements) it is made of.
  void add(const std::string& tap, const std::string& key, Labels labels, const Estimate& estimate, std::int64_t n,
           const char* reason = "undefined");

 private:
  Records& records_;
  std::string probe_;
  Labels labels_;
};

class Probe {
 public:
  virtual ~Probe() = default;

  // Keys of its own under [probes.NAME], beside `on`, `every` and `at`.
  virtual void settings(Settings&) {}
  virtual bool needs_statistics() const { return false; }  // a panel of taps, for report()
  virtual bool needs_updates() const { return false; }
  virtual bool wants(std::string_view /*tap*/) const { return false; }  // for on_value and on_grad
  virtual void plan(std::int64_t /*sequence: positions of one*/) {}

  // In a step of its schedule, for every micro-batch.
  virtual void begin_step() {}
  virtual void on_value(Stream&, const Tap&, View) {}
  virtual void on_grad(Stream&, const Tap&, View) {}
  virtual void on_losses(Stream&, View /*losses*/, View /*targets*/) {}
  // Once, when gradients are complete and before the optimizer moves: what the panel tells, and what parameters do.
  virtual void report(Stream&, const Panel&, Recorder&) {}
  virtual void finish(Stream&, const Parameters&, Recorder&) {}
  // While the optimizer moves, for every parameter.
  virtual void on_update(Stream&, const AppliedUpdate&, Recorder&) {}
};

struct ProbeKind {
  std::string name;
  std::function<std::unique_ptr<Probe>()> make;
};

// All registered probes, by name.
const std::vector<ProbeKind>& probe_kinds();

// In a probe's file: const RegisterProbe registered{"moments", [] { return std::make_unique<MomentsProbe>(); }};
struct RegisterProbe {
  RegisterProbe(std::string name, std::function<std::unique_ptr<Probe>()> make);
};

}  // namespace nascent
