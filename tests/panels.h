// Panels of given activations and gradients, and what probes record of them.
#pragma once

#include <cmath>
#include <stdexcept>

#include "probes/probe.h"
#include "tests/memory.h"

namespace nascent::test {

inline Tap tap_of(std::int64_t width, const std::string& name = "blocks.0.resid_post") {
  Tap tap;
  tap.name = name;
  tap.width = width;
  return tap;
}

inline std::unique_ptr<Probe> probe_named(const std::string& name) {
  for (const ProbeKind& kind : probe_kinds()) {
    if (kind.name == name) return kind.make();
  }
  throw std::runtime_error("no probe " + name);
}

// A panel of one tap. Arrays stay the caller's.
struct OneTap {
  Panel panel;
  Stream s;

  explicit OneTap(std::int64_t width, std::int64_t rank = 16, bool detail = false) {
    panel.choice.basis.rank = rank;
    panel.detail = detail;
    panel.taps.push_back(std::make_unique<TapStatistics>(tap_of(width), DType::kF64, 0, panel.choice.basis));
  }
  TapStatistics& tap() { return *panel.taps[0]; }

  // A step: h, g [N, d], either may be empty; sequence of each row, or none known.
  void step(View h, View g, std::vector<std::int32_t> sequence = {}, FitRequest request = {}) {
    panel.positions = PositionLabels::of_rows(h ? h.rows() : g.rows(), {}, {}, std::move(sequence));
    look(h, g, request);
  }
  // The same with the panel's own labels.
  void look(View h, View g, FitRequest request = {}) {
    tap().show(h, g);
    request.full = request.full || panel.detail;
    panel.sum_up(s, request);
  }
  Records records(const std::string& probe, Settings* settings = nullptr) {
    const auto made = probe_named(probe);
    if (settings) made->settings(*settings);
    Records records;
    Recorder out(records, probe);
    made->report(s, panel, out);
    return records;
  }
};

// The moments of x as activations, or as gradients.
inline Moments moments_of(const Tensor& x, bool gradient = false) {
  OneTap one(x.cols());
  gradient ? one.step({}, x) : one.step(x, {});
  return gradient ? one.tap().gradient().all : one.tap().activation().all;
}

inline const Record* find_record(const Records& records, const std::string& key, const std::string& labels) {
  for (const Record& r : records) {
    if (r.key == key && r.labels == labels) return &r;
  }
  return nullptr;
}

// NaN, which equals nothing, where there is no such record or it is missing.
inline double value_of(const Records& records, const std::string& key, const std::string& labels) {
  const Record* r = find_record(records, key, labels);
  return r ? r->value.value_or(std::nan("")) : std::nan("");
}

inline double error_of(const Records& records, const std::string& key, const std::string& labels) {
  const Record* r = find_record(records, key, labels);
  return r ? r->se.value_or(std::nan("")) : std::nan("");
}

// First r unit vectors of R^d.
inline DenseMatrix axes(std::int64_t d, std::int64_t r) {
  DenseMatrix q(d, r);
  for (std::int64_t i = 0; i < r; ++i) q(i, i) = 1;
  return q;
}

}  // namespace nascent::test
