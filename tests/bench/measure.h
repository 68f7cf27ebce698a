// Runs cases through Google Benchmark, which finds how often a case must run to fill its time.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "tests/bench/cases.h"

namespace nascent::bench {

// A case at one size: "gpt2/linear_forward/mlp in".
struct Named {
  const Size* size;
  const Case* what;
  std::string name() const;
  std::string line() const;  // without the size
};

struct Figure {
  Named of;
  std::string shape;
  Work work;
  double seconds;       // median of the repetitions' medians
  double bare_seconds;  // the same of oneDNN's calls between those; 0 where there are none
};

// Called before a case's data are made, and when its figure is there.
struct Progress {
  std::function<void(std::size_t number, const Named&)> before;
  std::function<void(const Named&)> after;
};

std::vector<Figure> measure(Stream& s, const std::vector<Named>& cases, double seconds, int repetitions,
                            const Progress& progress);

}  // namespace nascent::bench
