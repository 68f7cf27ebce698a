// Loops that are cut into one part a thread, and the chunks of sums that may not follow such cuts.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/stream.h"
#include "kernels/threads.h"

namespace nascent {

// Calls f(begin, end, thread) on consecutive parts of [0, n), at least `grain` long, one part a thread. What f throws
// is thrown here, once every part has ended. Results may not depend on how n was cut: sums over positions go through
// fixed chunks (kChunk), never through parts. One part runs the same machine code as several: inlined here, f could
// have its sums of products fused otherwise.
template <class F>
void parallel_for(const Stream& stream, std::int64_t n, std::int64_t grain, const F& f) {
  if (n <= 0) return;
  const std::int64_t wanted = std::min<std::int64_t>(stream.threads(), (n + grain - 1) / grain);
  const auto run = [&](int part, int parts) { f(n * part / parts, n * (part + 1) / parts, part); };
  run_parts(static_cast<int>(wanted), Part(run));
}

// Rows in one chunk of a sum over positions. Chunks are summed one by one, then in order: the same bits for any thread
// count.
inline constexpr std::int64_t kChunk = 64;
inline std::int64_t chunks_of(std::int64_t n) { return (n + kChunk - 1) / kChunk; }

}  // namespace nascent
