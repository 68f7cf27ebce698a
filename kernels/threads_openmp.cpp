#include <exception>
#include <omp.h>

#include "kernels/threads.h"

namespace nascent {

const char* const kThreads = "OpenMP";

int usable_threads() { return omp_get_num_procs(); }

void set_library_threads(int threads) { omp_set_num_threads(threads); }

void run_parts(int parts, Part f) {
  if (parts <= 1) return f(0, 1);
  std::exception_ptr failure;
#pragma omp parallel num_threads(parts)
  try {
    f(omp_get_thread_num(), omp_get_num_threads());
  } catch (...) {
#pragma omp critical
    failure = std::current_exception();
  }
  if (failure) std::rethrow_exception(failure);
}

}  // namespace nascent
