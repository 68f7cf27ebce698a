// Compiled with -O3 for this machine's own instruction set, however nascent itself is: the peak is the machine's.
#include "tests/bench/calibration.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <fmt/format.h>
#include <iterator>

#include "kernels/parallel.h"
#include "tests/bench/operands.h"
#include "tests/bench/timing.h"

namespace nascent::bench {
namespace {

#if defined(__AVX512F__)
constexpr int kVectorBytes = 64;
#elif defined(__AVX__)
constexpr int kVectorBytes = 32;
#else
constexpr int kVectorBytes = 16;
#endif
constexpr std::int64_t kLanes = kVectorBytes / sizeof(float);
using Vector [[gnu::vector_size(kVectorBytes)]] = float;

constexpr int kChains = 12;  // more than two units of latency 5 can start, fewer than there are registers
constexpr int kRepetitions = 9;
constexpr double kLeastSeconds = 0.02;                                // of one repetition
constexpr double kSets[] = {0x1p20, 0x1p22, 0x1p24, 0x1p26, 0x1p28};  // bytes: from one core's cache to memory
constexpr double kFlopsMayChange = 0.05, kMemoryMayChange = 0.15;

float total(const Vector& v) {
  float sum = 0;
  for (std::int64_t i = 0; i < kLanes; ++i) sum += v[i];
  return sum;
}

float multiply_adds(std::int64_t rounds, float factor, float term) {
  Vector chain[kChains];
  for (int c = 0; c < kChains; ++c) chain[c] = Vector{} + (term + static_cast<float>(c));
  for (std::int64_t i = 0; i < rounds; ++i) {
    for (Vector& x : chain) x = x * factor + term;
  }
  Vector sum{};
  for (const Vector& x : chain) sum += x;
  return total(sum);
}

float read(const float* x, std::int64_t n) {
  constexpr std::int64_t kAtOnce = 8;
  Vector sums[kAtOnce] = {};
  for (std::int64_t i = 0; i + kAtOnce * kLanes <= n; i += kAtOnce * kLanes) {
    for (std::int64_t k = 0; k < kAtOnce; ++k) {
      Vector v;
      std::memcpy(&v, x + i + k * kLanes, sizeof v);
      sums[k] += v;
    }
  }
  Vector sum{};
  for (const Vector& x_sum : sums) sum += x_sum;
  return total(sum);
}

// Units a second of `work(rounds)`, which does `unit` of them in each round.
template <class F>
double rate(double unit, F&& work) {
  std::int64_t rounds = 1;
  const auto once = [&] { return seconds_of([&] { work(rounds); }); };
  while (std::min(once(), once()) < kLeastSeconds) rounds *= 2;
  std::vector<double> seconds;
  for (int i = 0; i < kRepetitions; ++i) seconds.push_back(once());
  return unit * static_cast<double>(rounds) / median(seconds);
}

Speed measure(Stream& s, bool all, const Tensor& from, const Tensor& to) {
  volatile float sink = 0;  // keeps what is computed for it
  const auto parts = [&](std::int64_t n, const auto& f) { all ? parallel_for(s, n, 1, f) : f(std::int64_t{0}, n, 0); };
  const std::int64_t threads = all ? s.threads() : 1;
  constexpr std::int64_t kRounds = 1000;
  const volatile float factor = 0.999f, term = 0.001f;  // x stays near 1
  const double flop = 2.0 * kChains * kLanes * kRounds * static_cast<double>(threads);
  Speed speed{rate(flop,
                   [&](std::int64_t rounds) {
                     parts(threads, [&](std::int64_t, std::int64_t, int thread) {
                       const float x = multiply_adds(rounds * kRounds, factor, term);
                       if (thread == 0) sink = x;
                     });
                   }),
              {}};
  for (const double bytes : kSets) {
    const auto n = static_cast<std::int64_t>(bytes) / static_cast<std::int64_t>(sizeof(float));
    const float* in = from.data<float>();
    float* out = to.data<float>();
    const double reading = rate(bytes, [&](std::int64_t rounds) {
      parts(n, [&](std::int64_t begin, std::int64_t end, int thread) {
        for (std::int64_t i = 0; i < rounds; ++i) {
          const float x = read(in + begin, end - begin);
          if (thread == 0) sink = x;
        }
      });
    });
    const double copying = rate(bytes, [&](std::int64_t rounds) {
      parts(n / 2, [&](std::int64_t begin, std::int64_t end, int) {
        for (std::int64_t i = 0; i < rounds; ++i) {
          std::memcpy(out + begin, in + begin, static_cast<std::size_t>(end - begin) * sizeof(float));
        }
      });
    });
    speed.memory.push_back({bytes, reading, copying});
  }
  return speed;
}

// Calls f(name, unit, figure, may change) for what says whether the machine stayed as it was: arithmetic, and the largest
// set, which lies in memory. Copies inside a cache differ by half from one calibration to the next on a quiet machine.
template <class F>
void for_each_figure(const Calibration& c, const F& f) {
  for (const Speed* speed : {&c.one, &c.all}) {
    const int threads = speed == &c.one ? 1 : c.threads;
    f(fmt::format("multiply-adds, {} threads", threads), "GFLOP/s", speed->flops, kFlopsMayChange);
    const Bandwidth& m = speed->memory.back();
    f(fmt::format("memory read, {} MiB, {} threads", m.bytes / 0x1p20, threads), "GB/s", m.read, kMemoryMayChange);
    f(fmt::format("memory copied, {} MiB, {} threads", m.bytes / 0x1p20, threads), "GB/s", m.copy, kMemoryMayChange);
  }
}

}  // namespace

Calibration calibrate(Stream& s) {
  const auto n = static_cast<std::int64_t>(kSets[std::size(kSets) - 1] / sizeof(float));
  Operands memory(Device::kCpu);
  const Tensor from = memory.normal({n}), to = memory.normal({n / 2});
  return {s.threads(), measure(s, false, from, to), measure(s, true, from, to)};
}

void print(const Calibration& c) {
  const auto threads = [](int n) { return fmt::format("{} thread{}", n, n == 1 ? "" : "s"); };
  fmt::print("{:34} {:>13} {:>13}\n", "", threads(1), threads(c.threads));
  fmt::print("{:34} {:13.1f} {:13.1f}\n", "fp32 multiply-adds, GFLOP/s", c.one.flops * 1e-9, c.all.flops * 1e-9);
  for (std::size_t i = 0; i < c.one.memory.size(); ++i) {
    const auto pair = [i](const Speed& s) {
      return fmt::format("{:.1f} / {:.1f}", s.memory[i].read * 1e-9, s.memory[i].copy * 1e-9);
    };
    fmt::print("{:34} {:>13} {:>13}\n", fmt::format("{:3.0f} MiB read / copied, GB/s", c.one.memory[i].bytes / 0x1p20),
               pair(c.one), pair(c.all));
  }
}

Change largest_change(const Calibration& before, const Calibration& after) {
  std::vector<double> figures;
  for_each_figure(before, [&](const std::string&, const char*, double x, double) { figures.push_back(x); });
  Change worst{0, ""};
  std::size_t at = 0;
  for_each_figure(after, [&](const std::string& name, const char* unit, double x, double may) {
    const double old = figures[at++], change = std::abs(x / old - 1) / may;
    if (!(change <= worst.of_allowed))
      worst = {change, fmt::format("{}: {:.1f} {} before, {:.1f} after", name, old * 1e-9, unit, x * 1e-9)};
  });
  return worst;
}

// What is written is taken to be copied from as much that is read; what is read beyond that is only read. Either at the
// speed of the next smaller set that was measured.
Roof roof(const Speed& speed, const Work& work) {
  const Bandwidth* memory = speed.memory.data();
  for (const Bandwidth& m : speed.memory) {
    if (m.bytes <= work.bytes()) memory = &m;
  }
  const double copied = 2 * std::min(work.read, work.written), rest = work.bytes() - copied;
  const double moving = copied / memory->copy + rest / memory->read;
  const double computing = work.flop / (work.fp64 ? speed.flops / 2 : speed.flops);
  return {std::max(moving, computing), moving > computing};
}

}  // namespace nascent::bench
