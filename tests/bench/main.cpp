// nascent_bench: what each op takes, against what this machine can do. README.md says how to read it.
#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <exception>
#include <fmt/format.h>
#include <new>
#include <regex.h>
#include <string>
#include <thread>
#include <unistd.h>
#include <vector>

#include "kernels/build.h"
#include "kernels/error.h"
#include "tests/bench/table.h"
#include "tests/bench/watch.h"

using namespace nascent;
using namespace nascent::bench;

namespace {

struct Options {
  std::string filter;
  bool list = false, once = false, anyway = false;
  double seconds = 0.2;
  int repetitions = 5;
};

void declare(CLI::App& app, Options& o) {
  app.add_option("--filter", o.filter, "Only cases whose name holds a match, such as gpt2/linear")->type_name("REGEX");
  app.add_flag("--list", o.list, "Print the names of the cases and exit");
  app.add_flag("--once", o.once, "Run each case once and time nothing: whether they work, on finite numbers");
  app.add_flag("--anyway", o.anyway, "Measure on a machine that is not quiet, and mark every figure with ~");
  app.add_option("--seconds", o.seconds, "Least time of one repetition")
      ->type_name("S")
      ->capture_default_str()
      ->check(CLI::Range(1e-3, 1e3));
  app.add_option("--repetitions", o.repetitions, "Of each case; the median counts")
      ->type_name("N")
      ->capture_default_str()
      ->check(CLI::Range(1, 1000));
}

// POSIX's, extended: g++ 12 warns inside std::regex (GCC bug 105562).
class Pattern {
 public:
  explicit Pattern(const std::string& text) {
    const int problem = regcomp(&regex_, text.c_str(), REG_EXTENDED | REG_NOSUB);
    if (problem == 0) return;
    char words[200] = "";
    regerror(problem, &regex_, words, sizeof words);
    throw input_error("--filter \"{}\" is no regular expression: {}", text, words);
  }
  ~Pattern() { regfree(&regex_); }
  Pattern(const Pattern&) = delete;
  Pattern& operator=(const Pattern&) = delete;
  bool matches(const std::string& text) const { return regexec(&regex_, text.c_str(), 0, nullptr, 0) == 0; }

 private:
  regex_t regex_;
};

std::vector<Named> chosen(const std::vector<Case>& all, const std::string& filter) {
  const Pattern pattern(filter);
  std::vector<Named> cases;
  for (const Size& size : kSizes) {
    for (const Case& c : all) {
      const Named named{&size, &c};
      if (pattern.matches(named.name())) cases.push_back(named);
    }
  }
  if (cases.empty()) throw input_error("--filter \"{}\" matches no case; nascent_bench --list names them", filter);
  return cases;
}

// A line of its own on a terminal, overwritten by the next.
void show(const std::string& line) {
  if (isatty(STDERR_FILENO)) fmt::print(stderr, "\r\033[K{}", line);
}

void run_once(Stream& s, const std::vector<Named>& cases) {
  s.check_finite(true);
  for (const Named& named : cases) {
    show(named.name());
    Operands operands(s.device());
    const Prepared prepared = named.what->make(operands, *named.size);
    prepared.run(s);
    if (prepared.bare) prepared.bare();
  }
  show("");
  fmt::print("{} cases ran\n", cases.size());
}

void run_measured(Stream& s, const std::vector<Named>& cases, const Options& options) {
  Watch watch(options.anyway);
  fmt::print("{}\n{}\n{} threads\n\n", build_description(), machine_description(), s.threads());
  std::this_thread::sleep_for(std::chrono::seconds(1));
  watch.require_quiet("in the second before the run");
  show("calibrating");
  const Calibration before = calibrate(s);
  watch.require_quiet("while calibrating");
  show("");
  print(before);
  std::fflush(stdout);

  const Progress progress{[&](std::size_t i, const Named& named) {
                            show(fmt::format("{}/{} {}", i + 1, cases.size(), named.name()));
                            watch.require_quiet("while preparing " + named.name());
                          },
                          [&](const Named& named) { watch.require_quiet("in " + named.name()); }};
  const std::vector<Figure> figures = measure(s, cases, options.seconds, options.repetitions, progress);

  show("calibrating again");
  const Calibration after = calibrate(s);
  watch.require_quiet("while calibrating again");
  show("");
  fmt::print("\nafter the run\n");
  print(after);
  const Change change = largest_change(before, after);
  if (!(change.of_allowed <= 1)) watch.complain("the machine changed its speed: " + change.text);
  const bool disturbed = !watch.complaint().empty();
  print(figures, before.all, disturbed);
  print_pairs(figures, disturbed);
  if (disturbed) fmt::print("\n~ disturbed: {}\n", watch.complaint());
}

void run(const Options& options) {
  std::vector<Case> all;
  for (const auto& some : {product_cases(), row_cases(), reduction_cases()})
    all.insert(all.end(), some.begin(), some.end());
  const std::vector<Named> cases = chosen(all, options.filter);
  if (options.list) {
    for (const Named& named : cases) fmt::print("{}\n", named.name());
    return;
  }
  Stream s;
  options.once ? run_once(s, cases) : run_measured(s, cases, options);
}

}  // namespace

int main(int argc, char** argv) {
  int status = 1;
  Options options;
  CLI::App app("The time of each op, its GFLOP/s and GB/s, and their share of what this machine can do",
               "nascent_bench");
  declare(app, options);
  try {
    app.parse(argc, argv);
    run(options);
    status = 0;
  } catch (const CLI::CallForHelp& e) {
    status = app.exit(e);
  } catch (const CLI::ParseError& e) {
    fmt::print(stderr, "nascent_bench: {}; see nascent_bench --help\n", e.what());
    status = 2;
  } catch (const Error& e) {
    show("");
    fmt::print(stderr, "nascent_bench: {}\n", e.what());
    status = e.exit_code();
  } catch (const std::bad_alloc&) {
    std::fputs("nascent_bench: out of memory\n", stderr);
  } catch (const std::exception& e) {
    fmt::print(stderr, "nascent_bench: {}\n", e.what());
  }
  if (std::fflush(stdout) == 0 && !std::ferror(stdout)) return status;
  std::fputs("nascent_bench: cannot write all of the output\n", stderr);
  return status == 0 ? 1 : status;
}
