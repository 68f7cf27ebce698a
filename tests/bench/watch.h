// Whether anybody else uses this machine: figures taken then are no figures.
#pragma once

#include <string>
#include <vector>

namespace nascent::bench {

class Watch {
 public:
  // anyway: only remember what disturbed, instead of refusing.
  explicit Watch(bool anyway);

  // Looks at the time since the last call: how much of this process's CPUs others used, time stolen by a hypervisor
  // included. Refuses (machine error) more than a twentieth of them. `when` completes "other processes used 1.2 CPUs ...".
  void require_quiet(const std::string& when);
  // Refuses for another reason.
  void complain(const std::string& reason);

  // The first complaint; empty while there was none.
  const std::string& complaint() const { return complaint_; }

 private:
  struct Sample {
    double wall, busy, own;  // seconds; busy: of these CPUs, by anybody
  };
  Sample look() const;

  bool anyway_;
  std::vector<int> cpus_;  // of the affinity mask
  Sample last_;
  std::string complaint_;
};

}  // namespace nascent::bench
