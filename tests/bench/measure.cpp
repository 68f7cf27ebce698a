#include "tests/bench/measure.h"

#include <benchmark/benchmark.h>
#include <fmt/format.h>
#include <optional>
#include <utility>

#include "tests/bench/timing.h"

namespace nascent::bench {
namespace {

// One case, its data made when it first runs and freed when it has run.
class Running {
 public:
  Running(Stream& s, const Named& of) : operands_(s.device()), prepared_(of.what->make(operands_, *of.size)) {
    prepared_.run(s);  // prepares products, touches memory
    if (prepared_.bare) prepared_.bare();
  }
  const Prepared& prepared() const { return prepared_; }

 private:
  Operands operands_;
  Prepared prepared_;
};

constexpr const char *kSeconds = "seconds", *kBare = "bare";

// The op and the bare calls take turns, so that what happens to the machine happens to both.
void run(benchmark::State& state, Stream& s, const Prepared& prepared) {
  std::vector<double> seconds, bare;
  for ([[maybe_unused]] auto _ : state) {
    seconds.push_back(seconds_of([&] { prepared.run(s), s.wait(); }));
    if (prepared.bare) bare.push_back(seconds_of(prepared.bare));
    state.SetIterationTime(seconds.back());
  }
  state.counters[kSeconds] = median(seconds);
  state.counters[kBare] = bare.empty() ? 0 : median(bare);
}

// Medians of the repetitions of each case. Prints nothing.
class Collector : public benchmark::BenchmarkReporter {
 public:
  explicit Collector(std::function<void(double seconds, double bare)> take) : take_(std::move(take)) {}
  bool ReportContext(const Context&) override { return true; }
  void ReportRuns(const std::vector<Run>& runs) override {
    std::vector<double> seconds, bare;
    for (const Run& run : runs) {
      if (run.run_type != Run::RT_Iteration) continue;  // Google Benchmark's own statistics
      seconds.push_back(run.counters.at(kSeconds));
      bare.push_back(run.counters.at(kBare));
    }
    if (!seconds.empty()) take_(median(seconds), median(bare));
  }

 private:
  std::function<void(double, double)> take_;
};

}  // namespace

std::string Named::name() const { return fmt::format("{}/{}", size->name, line()); }
std::string Named::line() const { return *what->part ? fmt::format("{}/{}", what->op, what->part) : what->op; }

std::vector<Figure> measure(Stream& s, const std::vector<Named>& cases, double seconds, int repetitions,
                            const Progress& progress) {
  std::optional<Running> running;
  std::vector<Figure> figures;
  for (const Named& named : cases) {
    benchmark::RegisterBenchmark(named.name().c_str(),
                                 [&](benchmark::State& state) {
                                   if (!running) {
                                     progress.before(figures.size(), named);
                                     running.emplace(s, named);
                                   }
                                   run(state, s, running->prepared());
                                 })
        ->MinTime(seconds)
        ->Repetitions(repetitions)
        ->UseManualTime();
  }
  Collector collector([&](double median_seconds, double bare) {
    const Named& named = cases[figures.size()];
    figures.push_back({named, running->prepared().shape, running->prepared().work, median_seconds, bare});
    running.reset();
    progress.after(named);
  });
  benchmark::RunSpecifiedBenchmarks(&collector, nullptr, "all");
  benchmark::ClearRegisteredBenchmarks();
  return figures;
}

}  // namespace nascent::bench
