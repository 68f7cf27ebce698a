#include <exception>
#include <omp.h>
#include <thread>
#include <vector>

#include "kernels/threads.h"

namespace nascent {

const char* const kThreads = "std::thread";

int usable_threads() { return omp_get_num_procs(); }

void set_library_threads(int) { omp_set_num_threads(1); }

void run_parts(int parts, Part f) {
  if (parts <= 1) return f(0, 1);
  std::vector<std::exception_ptr> failures(static_cast<std::size_t>(parts));
  const auto run = [&](int part) {
    omp_set_num_threads(1);  // of this thread: each has its own number
    try {
      f(part, parts);
    } catch (...) {
      failures[static_cast<std::size_t>(part)] = std::current_exception();
    }
  };
  {
    std::vector<std::jthread> others;  // end here, also where one of them cannot start
    for (int part = 1; part < parts; ++part) others.emplace_back(run, part);
    run(0);
  }
  for (const std::exception_ptr& failure : failures) {
    if (failure) std::rethrow_exception(failure);
  }
}

}  // namespace nascent
