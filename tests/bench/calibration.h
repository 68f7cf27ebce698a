// What this machine can do, measured: the roof that ops are held against (Williams, Waterman & Patterson 2009).
#pragma once

#include <string>
#include <vector>

#include "kernels/stream.h"
#include "tests/bench/cases.h"

namespace nascent::bench {

// Bytes a second when so many bytes in all are read, or half of them read and half written, again and again.
struct Bandwidth {
  double bytes, read, copy;
};

struct Speed {
  double flops;                   // a second: fp32 multiply-adds, two each, that stay in registers
  std::vector<Bandwidth> memory;  // small ones first
};

struct Calibration {
  int threads;
  Speed one, all;  // threads
};

Calibration calibrate(Stream& s);

void print(const Calibration& c);

// The figure that moved most from one calibration to another, against what it may: above 1 is too much.
struct Change {
  double of_allowed;
  std::string text;  // "memory copied, 256 MiB, 2 threads: 41.2 GB/s before, 30.0 after"
};
Change largest_change(const Calibration& before, const Calibration& after);

// The least seconds for so much work, and what bounds them.
struct Roof {
  double seconds;
  bool memory;
};
Roof roof(const Speed& speed, const Work& work);

}  // namespace nascent::bench
