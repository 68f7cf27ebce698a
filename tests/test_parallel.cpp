#include <algorithm>
#include <atomic>
#include <vector>

#include "kernels/error.h"
#include "kernels/parallel.h"
#include "tests/catch.h"
#include "tests/commands.h"
#include "tests/errors.h"

using namespace nascent;
using namespace nascent::test;

TEST_CASE("what one part of a parallel loop throws reaches the caller, once the others have ended", "[threads]") {
  const Stream s(Device::kCpu, 3);
  const std::int64_t n = GENERATE(1, 3, 33);
  std::atomic<std::int64_t> done = 0;
  const Failure failure = failure_of([&] {
    parallel_for(s, n, 1, [&](std::int64_t begin, std::int64_t end, int) {
      if (begin == 0) throw input_error("part {} to {}", begin, end);
      done += end - begin;
    });
  });
  CHECK(failure.exit_code == 2);
  CHECK(failure.says("part 0 to"));
  CHECK((n == 1 || done > 0));
}

TEST_CASE("the parts of a parallel loop are the whole, each once, in order of their threads", "[threads]") {
  const int threads = GENERATE(1, 2, 3, 7);
  const std::int64_t n = GENERATE(0, 1, 3, 33, 1000), grain = GENERATE(1, 4, 2000);
  const Stream s(Device::kCpu, threads);
  std::vector<int> thread_of(static_cast<std::size_t>(n), -1);
  parallel_for(s, n, grain, [&](std::int64_t begin, std::int64_t end, int thread) {
    for (std::int64_t i = begin; i < end; ++i) thread_of[static_cast<std::size_t>(i)] += 1 + thread;
  });
  CHECK(std::is_sorted(thread_of.begin(), thread_of.end()));
  if (n > 0)
    CHECK((thread_of.front() == 0 && thread_of.back() < std::min<std::int64_t>(threads, (n + grain - 1) / grain)));
}

#ifdef __SANITIZE_THREAD__
TEST_CASE("planted race", "[.]") {
  const Stream s(Device::kCpu, 2);
  int sum = 0;
  parallel_for(s, 2, 1, [&](std::int64_t, std::int64_t, int) { ++sum; });
  CHECK(sum > 0);
}

TEST_CASE("ThreadSanitizer reports two parts of a loop that write one number", "[threads]") {
  const Outcome outcome = output_of(fmt::format("'{}' 'planted race'", fs::read_symlink("/proc/self/exe").string()));
  INFO(outcome.output);
  CHECK(outcome.says("ThreadSanitizer: data race"));
  CHECK(outcome.exit_code != 0);
}
#endif
