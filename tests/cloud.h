// Labelled rows of activations and gradients, and all that probes record of them or of some of them.
#pragma once

#include <algorithm>
#include <optional>
#include <set>

#include "tests/panels.h"

namespace nascent::test {

using Points = std::vector<std::vector<double>>;

// `next`: gradients at a second tap, for cosines with those at the first.
struct Cloud {
  Points h, g, next;
  std::vector<std::int32_t> sequence, token, target, place;

  std::size_t size() const { return h.size(); }
  std::size_t width() const { return h.front().size(); }

  // Row i as often as times(i) says.
  template <class F>
  Cloud repeated(F&& times) const {
    Cloud some;
    for (std::size_t i = 0; i < size(); ++i) {
      for (int k = 0; k < static_cast<int>(times(i)); ++k) {
        some.h.push_back(h[i]);
        some.g.push_back(g[i]);
        some.next.push_back(next[i]);
        some.sequence.push_back(sequence[i]);
        some.token.push_back(token[i]);
        if (!target.empty()) some.target.push_back(target[i]);
        some.place.push_back(place[i]);
      }
    }
    return some;
  }
  std::int32_t sequences() const { return *std::ranges::max_element(sequence) + 1; }
};

// Sequences of 4, 9, 6, 11, ... rows, which take turns; about a mean that each has its own of. Tokens come more than
// once, in one sequence and in several; the second position of each four has no target. Some gradients are zero.
inline Cloud correlated_cloud(std::int32_t sequences, std::size_t width, bool zeros = true) {
  Cloud c;
  const Random random(11, "test", "cloud");
  std::uint64_t drawn = 0;
  const auto vector = [&](double size) {
    std::vector<double> v;
    for (std::size_t j = 0; j < width; ++j)
      v.push_back(size * random.normal(drawn++) / (1 + 0.3 * static_cast<double>(j)));
    return v;
  };
  Points h_of(static_cast<std::size_t>(sequences)), g_of(h_of);
  for (auto& v : h_of) v = vector(1);
  for (auto& v : g_of) v = vector(0.5e-6);
  for (std::int32_t p = 0; p < 12; ++p) {
    for (std::int32_t s = 0; s < sequences; ++s) {
      if (p >= 4 + s * 5 % 8) continue;
      const auto of = static_cast<std::size_t>(s);
      c.h.push_back(vector(2));
      c.g.push_back(vector(1e-6));
      for (std::size_t j = 0; j < width; ++j) {
        c.h.back()[j] += h_of[of][j] + 3;
        c.g.back()[j] += g_of[of][j] + 3e-7;
      }
      c.next.push_back(vector(1e-6));
      for (std::size_t j = 0; j < width; ++j) c.next.back()[j] += c.g.back()[j];
      if (zeros && random.uniform(drawn++) < 0.1) c.g.back().assign(width, 0.0);
      c.sequence.push_back(s);
      c.place.push_back(p);
      const double u = random.uniform(drawn++), v = random.uniform(drawn++);
      c.token.push_back(static_cast<std::int32_t>(10 * u * u));
      c.target.push_back(p % 4 == 1 ? -1 : static_cast<std::int32_t>(10 * v * v));
    }
  }
  return c;
}

inline Tensor tensor_of(Memory& memory, const Points& points) {
  const auto n = static_cast<std::int64_t>(points.size()), d = static_cast<std::int64_t>(points.front().size());
  const Tensor t = memory.zeros({n, d});
  for (std::int64_t i = 0; i < n * d; ++i)
    Memory::set(t, i, points[static_cast<std::size_t>(i / d)][static_cast<std::size_t>(i % d)]);
  return t;
}

// Everything that probes report of a cloud, at the taps "first" and "second". Bases come from `state`, which a panel of
// the same width has left; `after` (may be null) is what this one leaves.
struct Look {
  PanelChoice choice;
  bool detail = true;

  explicit Look(std::int64_t rank = 3) { choice.basis.rank = rank; }
};

inline Records measured(const Cloud& cloud, const Look& look, const ProbeState& state = {}, ProbeState* after = nullptr,
                        const DenseMatrix* planted = nullptr) {
  Memory memory;
  Stream s;
  Panel panel;
  panel.choice = look.choice;
  panel.detail = panel.exact = look.detail;
  panel.positions =
      PositionLabels::of_rows(static_cast<std::int64_t>(cloud.size()), cloud.token, cloud.target, cloud.sequence);
  for (const char* name : {"first", "second"}) {
    panel.taps.push_back(std::make_unique<TapStatistics>(tap_of(static_cast<std::int64_t>(cloud.width()), name),
                                                         DType::kF64, 0, panel.choice.basis));
    if (!state.empty()) panel.taps.back()->load(state, "");
  }
  if (planted) panel.taps[0]->bases().import("planted", *planted);
  panel.taps[0]->show(tensor_of(memory, cloud.h), tensor_of(memory, cloud.g));
  panel.taps[1]->show({}, tensor_of(memory, cloud.next));
  FitRequest request;
  request.full = look.detail;
  panel.sum_up(s, request);
  if (after) {
    for (const auto& tap : panel.taps) tap->save(*after, "");
  }
  Records records;
  for (const ProbeKind& kind : probe_kinds()) {
    Recorder out(records, kind.name);
    kind.make()->report(s, panel, out);
  }
  return records;
}

inline const Record* same_record(const Records& records, const Record& like, const std::string& labels) {
  for (const Record& r : records) {
    if (r.probe == like.probe && r.tap == like.tap && r.key == like.key && r.labels == labels) return &r;
  }
  return nullptr;
}

// Its value, or none.
inline std::optional<double> value_in(const Records& records, const Record& like, const std::string& labels) {
  const Record* r = same_record(records, like, labels);
  return r ? r->value : std::nullopt;
}

// The label, or an empty text.
inline std::string label_of(const Record& r, const std::string& name) {
  const Labels labels = labels_of(r.labels);
  return labels.contains(name) ? labels.at(name) : "";
}

inline std::string text_of(const Record& r) { return r.probe + "/" + r.key + "{" + r.labels + "}/" + r.tap; }

// One direction: what is fitted on every panel anew is not the same basis in two of them.
inline bool of_fitted_basis(const Record& r) {
  return label_of(r, "basis").starts_with("current") || label_of(r, "other").starts_with("current");
}

}  // namespace nascent::test
