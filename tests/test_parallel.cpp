#include <atomic>

#include "kernels/error.h"
#include "kernels/parallel.h"
#include "tests/catch.h"
#include "tests/errors.h"

using namespace nascent;

TEST_CASE("what one part of a parallel loop throws reaches the caller, once the others have ended") {
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
