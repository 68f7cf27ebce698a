#include "kernels/error.h"
#include "probes/schedule.h"
#include "tests/catch.h"

using namespace nascent;

namespace {

std::vector<std::int64_t> steps_below(const Schedule& schedule, std::int64_t end) {
  std::vector<std::int64_t> steps;
  for (std::int64_t step = 0; step < end; ++step) {
    if (schedule.at(step)) steps.push_back(step);
  }
  return steps;
}

}  // namespace

TEST_CASE("the schedule \"pythia\" is exactly the steps that Pythia saved") {
  const std::vector<std::int64_t> wanted = {0, 1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1000, 2000, 3000};
  CHECK(steps_below(Schedule::parse({"pythia"}), 3500) == wanted);
  CHECK(steps_below(Schedule::parse({"log"}), 3500) == wanted);
}

TEST_CASE("schedules are unions of their rules") {
  CHECK(steps_below(Schedule::parse({"every 5", "step 7", "never"}), 16) == std::vector<std::int64_t>{0, 5, 7, 10, 15});
  CHECK(steps_below(Schedule::parse({"4"}), 9) == std::vector<std::int64_t>{0, 4, 8});
  CHECK(steps_below(Schedule::parse({}), 9).empty());
  CHECK(steps_below(Schedule(), 9).empty());
  const std::vector<std::int64_t> dense = steps_below(Schedule::parse({"log+10"}), 541);
  REQUIRE(dense.size() == 516);
  CHECK(dense[512] == 512);
  CHECK(dense[513] == 520);
  CHECK(dense.back() == 540);
}

TEST_CASE("a rule that means nothing is refused, with what is understood") {
  for (const char* rule : {"often", "every", "every 0", "every -3", "log+0", "log+", "step x", "0", "1.5", ""}) {
    INFO(rule);
    try {
      Schedule::parse({rule});
      FAIL("accepted");
    } catch (const Error& e) {
      CHECK(e.exit_code() == 2);
      const std::string expected = "expected \"every K\", \"log\", \"pythia\", \"log+K\", \"step S\" or \"never\"";
      CHECK(std::string(e.what()).find(expected) != std::string::npos);
    }
  }
}
