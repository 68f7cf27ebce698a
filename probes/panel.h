// What the probes that work on statistics report on: the positions of a step, of the probe set or of a file, with the
// arrays of its taps summed up.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "data/counts.h"
#include "probes/position_labels.h"
#include "probes/record.h"
#include "probes/tap_statistics.h"

namespace nascent {

// How a network normalizes what it reads from the stream: the scale sigma of h is the root of its variance, or of its
// mean square where it is not centred, plus eps.
struct NormStatistic {
  bool known = false, centred = true;
  double eps = 1e-5;
};

// Neighbourhoods with a basis of their own.
struct LocalChoice {
  std::string of = "off";  // "token", "knn"
  std::int64_t rank = 16;
  std::int64_t min_count = 0;  // token: members of a neighbourhood; 0: 2 rank
  std::int64_t k = 64;         // knn: nearest others of a centre
  std::int64_t centres = 256;
};

// Choices that say how a panel is looked at.
struct PanelChoice {
  BasisChoice basis;
  std::int64_t sink = 4;  // positions of a segment that view=no_sink drops
  NormStatistic norm;     // for view=normed
  LocalChoice local;
  const FrequencyBins* bins = nullptr;  // of types; null: their counts are not known
  std::uint64_t seed = 0;               // of what is drawn
};

struct Panel {
  PanelChoice choice;
  std::int64_t step = 0;
  bool detail = false;  // with spectra, controls, bins, weights and views: what costs more than a pass
  bool exact = false;   // every second moment from products in double, not only those whose eigenvalues are reported
  PositionLabels positions;
  std::vector<std::unique_ptr<TapStatistics>> taps;  // in the network's order

  TapStatistics* find(const std::string& tap) const;  // null: not one of them
  // Sums everything up that the taps were shown of `positions`, and fits the bases.
  void sum_up(Stream& s, const FitRequest& request);
};

// A way to look at a tap's array: some of its positions, or all with other weights or in the norm's own units.
struct Variant {
  Labels labels;
  Selection selection;
};

// positions=target and positions=other where not every position has a target; on detailed steps view=no_sink,
// view=normed, weight=type. Not the default, which is the tap's own sample.
std::vector<Variant> variants_of(const Panel& panel, const TapStatistics& tap, bool gradient);

// A sample of some of a tap's positions.
Sample part_of(Stream& s, const Panel& panel, const Sample& whole, Selection selection);

}  // namespace nascent
