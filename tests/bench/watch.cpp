#include "tests/bench/watch.h"

#include <algorithm>
#include <chrono>
#include <ctime>
#include <fmt/format.h>
#include <fstream>
#include <sched.h>
#include <sstream>
#include <unistd.h>

#include "kernels/error.h"

namespace nascent::bench {
namespace {

std::vector<int> usable_cpus() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) != 0) throw machine_error("sched_getaffinity failed");
  std::vector<int> cpus;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &set)) cpus.push_back(cpu);
  }
  return cpus;
}

double tick() { return 1 / static_cast<double>(sysconf(_SC_CLK_TCK)); }

}  // namespace

Watch::Watch(bool anyway) : anyway_(anyway), cpus_(usable_cpus()), last_(look()) {}

// Lines of /proc/stat: "cpu1 user nice system idle iowait irq softirq steal ...", in ticks.
Watch::Sample Watch::look() const {
  Sample sample{std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(), 0, 0};
  std::ifstream file("/proc/stat");
  std::size_t found = 0;
  for (std::string line; std::getline(file, line);) {
    int cpu = -1;
    double user = 0, nice = 0, system = 0, idle = 0, waiting = 0, irq = 0, softirq = 0, steal = 0;
    if (line.compare(0, 3, "cpu") != 0) break;
    std::istringstream words(line.substr(3));
    if (line[3] == ' ' || !(words >> cpu >> user >> nice >> system >> idle >> waiting >> irq >> softirq >> steal))
      continue;
    if (std::find(cpus_.begin(), cpus_.end(), cpu) == cpus_.end()) continue;
    sample.busy += (user + nice + system + irq + softirq + steal) * tick();
    ++found;
  }
  if (found != cpus_.size())
    throw machine_error("/proc/stat: {} of this process's {} CPUs are in it", found, cpus_.size());
  timespec own{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &own);
  sample.own = static_cast<double>(own.tv_sec) + 1e-9 * static_cast<double>(own.tv_nsec);
  return sample;
}

void Watch::require_quiet(const std::string& when) {
  const Sample now = look();
  const double wall = now.wall - last_.wall, cpus = static_cast<double>(cpus_.size());
  const double others = (now.busy - last_.busy - (now.own - last_.own)) / wall;
  // /proc/stat counts whole ticks: it may be off by a few of every CPU.
  const double most = cpus * (0.05 + 4 * tick() / wall);
  last_ = now;
  if (others > most)
    complain(fmt::format("other processes used {:.2f} CPUs {}, expected at most {:.2f}", others, when, most));
}

void Watch::complain(const std::string& reason) {
  if (!anyway_) throw machine_error("{}; --anyway measures nevertheless and marks the figures", reason);
  if (complaint_.empty()) complaint_ = reason;
}

}  // namespace nascent::bench
