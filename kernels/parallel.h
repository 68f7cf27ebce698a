// The one place where CPU threads start.
#pragma once

#include <algorithm>
#include <cstdint>
#include <exception>
#include <omp.h>

#include "kernels/stream.h"

namespace nascent {

// Calls f(begin, end, thread) on consecutive parts of [0, n), at least `grain` long, one part a thread. What f throws
// is thrown here, once every part has ended. Results may not depend on how n was cut: sums over positions go through
// fixed chunks (kChunk), never through parts.
template <class F>
void parallel_for(const Stream& stream, std::int64_t n, std::int64_t grain, F&& f) {
  const std::int64_t wanted = std::min<std::int64_t>(stream.threads(), (n + grain - 1) / grain);
  if (n <= 0) return;
  if (wanted <= 1) return f(std::int64_t{0}, n, 0);
  std::exception_ptr failure;  // one of them
#pragma omp parallel num_threads(static_cast<int>(wanted))
  {
    const int parts = omp_get_num_threads();
    const int part = omp_get_thread_num();
    try {
      f(n * part / parts, n * (part + 1) / parts, part);
    } catch (...) {
#pragma omp critical
      failure = std::current_exception();
    }
  }
  if (failure) std::rethrow_exception(failure);
}

// Rows in one chunk of a sum over positions. Chunks are summed one by one, then in order: the same bits for any thread
// count.
inline constexpr std::int64_t kChunk = 64;
inline std::int64_t chunks_of(std::int64_t n) { return (n + kChunk - 1) / kChunk; }

}  // namespace nascent
