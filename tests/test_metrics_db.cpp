#include <cmath>
#include <csignal>
#include <fstream>
#include <limits>
#include <string>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

#include "kernels/error.h"
#include "tests/catch.h"
#include "tests/temporary.h"
#include "train/metrics_db.h"

using namespace nascent;

namespace {

Record record(const std::string& tap, std::optional<double> value, const std::string& labels = "") {
  return {"moments", tap, "isoscore", labels, value, "", 100, std::nullopt};
}

// Records of as many taps, all of one step.
Records records_of(std::int64_t step, int taps) {
  Records records;
  for (int i = 0; i < taps; ++i) {
    records.push_back(record("tap " + std::to_string(i), static_cast<double>(step + i)));
  }
  return records;
}

}  // namespace

TEST_CASE("metrics: what is written is read back to the bit, also by a reader beside the writer") {
  const TemporaryFolder folder;
  const auto path = folder.path / "metrics.db";
  MetricsDb db = MetricsDb::create(path);
  CHECK(db.begin_run("first", "0.1.0", "steps = 3\n") == 1);
  const double loss = 10.8 + 1.0 / 3;
  db.write_step({0, 512, 511, loss, 1e-3, 0.5, 0.01},
                Records{record("a", 0.1, "of=gradient"), record("a", 0.2), record("b", 1e300)});
  db.write(0, Records{record("late", -1e-310)});
  db.write_step({7, 512, 511, std::nan(""), 1e-3, 1, 0.01}, Records{record("b", 5)});
  db.event(7, "not_finite", "loss");

  const MetricsDb reader = MetricsDb::open_for_reading(path);
  CHECK(reader.value(0, "moments", "a", "isoscore") == 0.2);
  CHECK(reader.value(0, "moments", "a", "isoscore", "of=gradient") == 0.1);
  CHECK(reader.value(0, "moments", "late", "isoscore") == -1e-310);
  CHECK_FALSE(reader.value(1, "moments", "a", "isoscore"));
  CHECK_FALSE(reader.value(0, "moments", "a", "other"));
  CHECK(reader.step(0)->loss == loss);
  CHECK(reader.step(0)->targets == 511);
  CHECK(reader.step(0)->clip == 0.5);
  CHECK(std::isnan(reader.step(7)->loss));
  CHECK_FALSE(reader.step(1));
  CHECK(reader.taps("moments", "isoscore") == std::vector<std::string>{"a", "b", "late"});
  CHECK(reader.steps("moments", "b", "isoscore") == std::vector<std::int64_t>{0, 7});
}

TEST_CASE("metrics: a missing value keeps its place and its reason, NaN is a missing value") {
  const TemporaryFolder folder;
  const auto path = folder.path / "metrics.db";
  MetricsDb db = MetricsDb::create(path);
  db.begin_run("r", "v", "");
  Record missing = record("a", std::nullopt);
  missing.reason = "fewer than 2 positions";
  const double infinity = std::numeric_limits<double>::infinity();
  db.write(3, Records{missing, record("b", std::nan("")), record("c", infinity)});
  CHECK(db.steps("moments", "a", "isoscore") == std::vector<std::int64_t>{3});
  CHECK_FALSE(db.value(3, "moments", "a", "isoscore"));
  CHECK_FALSE(db.value(3, "moments", "b", "isoscore"));
  CHECK(db.value(3, "moments", "c", "isoscore") == infinity);
  db.finish();
  std::ifstream file(path, std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(file), {}};
  CHECK(bytes.find("fewer than 2 positions") != std::string::npos);
  CHECK(bytes.find("not a number") != std::string::npos);
}

TEST_CASE("metrics: a further attempt repeats steps, and readers see the last") {
  const TemporaryFolder folder;
  const auto path = folder.path / "metrics.db";
  {
    MetricsDb db = MetricsDb::create(path);
    db.begin_run("r", "v", "");
    for (std::int64_t s = 0; s < 4; ++s) db.write_step({s, 1, 1, 1.0}, Records{record("a", 1)});
    db.finish();
  }
  MetricsDb db = MetricsDb::append(path);
  CHECK(db.begin_run("r", "v", "") == 2);
  db.write_step({2, 1, 1, 2.0}, Records{record("a", 2)});
  CHECK(db.value(1, "moments", "a", "isoscore") == 1);
  CHECK(db.value(2, "moments", "a", "isoscore") == 2);
  CHECK(db.step(2)->loss == 2.0);
  CHECK(db.step(3)->loss == 1.0);
  CHECK(db.taps("moments", "isoscore") == std::vector<std::string>{"a"});
  CHECK(db.steps("moments", "a", "isoscore") == std::vector<std::int64_t>{0, 1, 2, 3});
}

TEST_CASE("metrics: a finished run is one file, readable where nothing can be written beside it") {
  const TemporaryFolder folder;
  const auto path = folder.path / "metrics.db";
  MetricsDb db = MetricsDb::create(path);
  db.begin_run("r", "v", "");
  db.write_step({0, 1, 1, 1.0}, records_of(0, 33));
  db.finish();
  CHECK_FALSE(std::filesystem::exists(path.string() + "-wal"));
  CHECK(MetricsDb::open_for_reading(path).value(0, "moments", "tap 32", "isoscore") == 32);
}

TEST_CASE("metrics: a step with a record twice is refused whole, names it, and the next step is written") {
  const TemporaryFolder folder;
  MetricsDb db = MetricsDb::create(folder.path / "metrics.db");
  db.begin_run("r", "v", "");
  try {
    db.write_step({5, 1, 1, 1.0}, Records{record("a", 1), record("b", 2), record("b", 3)});
    FAIL("a record was written twice");
  } catch (const Error& e) {
    CHECK(e.exit_code() == 1);
    CHECK(std::string(e.what()).find("step 5, moments b isoscore") != std::string::npos);
  }
  CHECK_FALSE(db.step(5));
  CHECK(db.taps("moments", "isoscore").empty());
  db.write_step({5, 1, 1, 1.0}, Records{record("c", 1), record("b", 2)});
  CHECK(db.value(5, "moments", "b", "isoscore") == 2);
  CHECK(db.value(5, "moments", "c", "isoscore") == 1);
}

TEST_CASE("metrics: a killed writer leaves a readable file of whole steps, which takes a further attempt") {
  const TemporaryFolder folder;
  const auto path = folder.path / "metrics.db";
  const int taps = 100, steps_before = 30;
  int told[2];
  REQUIRE(::pipe(told) == 0);
  const pid_t child = ::fork();
  if (child == 0) {
    try {
      MetricsDb db = MetricsDb::create(path);
      db.begin_run("r", "v", "");
      for (std::int64_t s = 0;; ++s) {
        db.write_step({s, 1, 1, 1.0}, records_of(s, taps));
        if (::write(told[1], "s", 1) != 1) ::_exit(3);
      }
    } catch (...) {
      ::_exit(4);
    }
  }
  ::close(told[1]);
  char byte = 0;
  for (int s = 0; s < steps_before; ++s) REQUIRE(::read(told[0], &byte, 1) == 1);
  ::kill(child, SIGKILL);
  int status = 0;
  ::waitpid(child, &status, 0);
  ::close(told[0]);
  REQUIRE(WIFSIGNALED(status));

  const MetricsDb reader = MetricsDb::open_for_reading(path);
  const std::vector<std::int64_t> steps = reader.steps("moments", "tap 0", "isoscore");
  CHECK(steps.size() >= steps_before);
  for (const std::int64_t s : steps) CHECK(reader.step(s));
  for (int i = 0; i < taps; ++i) {
    CHECK(reader.steps("moments", "tap " + std::to_string(i), "isoscore") == steps);
  }
  CHECK(MetricsDb::append(path).begin_run("r", "v", "") == 2);
}

TEST_CASE("metrics: a full disk is blamed on the machine and leaves whole steps") {
  const TemporaryFolder folder;
  const auto path = folder.path / "metrics.db";
  const pid_t child = ::fork();
  if (child == 0) {
    // A limit on file size fails a write as a full disk does.
    std::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{300'000, 300'000};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    try {
      MetricsDb db = MetricsDb::create(path);
      db.begin_run("r", "v", "");
      for (std::int64_t s = 0; s < 1000; ++s) db.write_step({s, 1, 1, 1.0}, records_of(s, 100));
    } catch (const Error& e) {
      ::_exit(e.exit_code());
    }
    ::_exit(0);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 1);
  const MetricsDb reader = MetricsDb::open_for_reading(path);
  const std::vector<std::int64_t> steps = reader.steps("moments", "tap 0", "isoscore");
  CHECK(steps.size() > 10);
  CHECK(reader.steps("moments", "tap 99", "isoscore") == steps);
  CHECK(reader.step(steps.back()));
}

TEST_CASE("metrics: what is not a metrics.db is refused as the user's input, and none is overwritten") {
  const TemporaryFolder folder;
  const auto refused = [](auto&& open) {
    try {
      open();
      return false;
    } catch (const Error& e) {
      return e.exit_code() == 2;
    }
  };
  const auto other = folder.path / "other.db";
  std::ofstream(other) << "not a database, but long enough to have a header of one hundred bytes or so, and more";
  std::ofstream(folder.path / "empty.db") << "";
  CHECK(refused([&] { MetricsDb::open_for_reading(other); }));
  CHECK(refused([&] { MetricsDb::append(other); }));
  CHECK(refused([&] { MetricsDb::create(other); }));
  CHECK(refused([&] { MetricsDb::open_for_reading(folder.path / "empty.db"); }));
  CHECK(refused([&] { MetricsDb::open_for_reading(folder.path / "absent.db"); }));
  CHECK(refused([&] { MetricsDb::create(folder.path / "no" / "folder.db"); }));
}
