#pragma once

#include <vector>

#include "tests/bench/calibration.h"
#include "tests/bench/measure.h"

namespace nascent::bench {

// A line for each figure, at most 120 columns wide. marked: each figure begins with ~, as one that was disturbed.
void print(const std::vector<Figure>& figures, const Speed& speed, bool marked);

// The same of those that were measured against oneDNN.
void print_pairs(const std::vector<Figure>& figures, bool marked);

}  // namespace nascent::bench
