// CUDA kernels on the CPU: a grid is run block after block, a block's threads as fibers of one CPU thread. Each fiber
// runs until it waits for others (a barrier, a shuffle) and then the next one in a chosen order does. What the stand-in
// for <cuda_runtime.h> promises to kernels ends here.
//
// Two kinds of mistakes are found:
// - by the schedule itself: a barrier that not all threads reach, lanes that a shuffle names but that are not there;
// - by watching memory (watch.h), where the build does that: races, reads of what nobody wrote, accesses outside.
// Faults do not stop a kernel; when it has ended, its launch has failed and faults() says why.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace emulation {

struct Index {
  unsigned x = 0, y = 0, z = 0;
};

// The order in which threads, and blocks, take their turns. A kernel without races gives the same bits in all of them.
enum class Order { kForward, kBackward, kShuffled };
void set_order(Order order);

// Where the running thread is; outside of kernels nobody asks.
Index thread_index();
Index block_index();
Index block_size();
Index grid_size();
int lane();

// Runs the grid: each thread calls `kernel` with the address of the parameters, which are `bytes` long. Whether all went
// well; otherwise faults() says "2 faults: block 0, thread 3: ..." until the next launch.
bool launch(Index blocks, Index threads, void (*kernel)(const void*), const void* parameters, std::size_t bytes);
const char* faults();

// A thread waits here until all of its block do.
void sync_threads(const char* file, int line);
// Until all lanes of `mask` do; `mine` is what the thread offers to them. What others offered is to be read before the
// next such call.
class Offers {
 public:
  explicit Offers(const std::uint64_t* bits) : bits_(bits) {}
  std::uint64_t of(int lane) const;

 private:
  const std::uint64_t* bits_;  // [32]
};
Offers sync_lanes(unsigned mask, std::uint64_t mine, const char* what, const char* file, int line);

// Shared memory of the running block: the same bytes for each thread that asks with the same key. `bytes` bytes between
// red zones.
void* shared(const void* key, std::size_t bytes, const char* name);

// The device's memory: its blocks lie between red zones too.
void* allocate(std::size_t bytes);
void release(void* memory);

// Whether this build watches memory.
bool watches();

// For the watcher: remembers a fault of the running thread, and where it stands.
struct Where {
  std::uint32_t launch, block;
  std::uint16_t thread;
  std::uint16_t phase;       // how many barriers of the block lie behind
  std::uint16_t warp_phase;  // how many of its warp
};
// A read, and a write of an atomic operation: threads take turns only where they wait, so nothing comes between.
void atomic_read(void* to, const void* address, std::size_t bytes);
void atomic_write(void* address, const void* from, std::size_t bytes);
bool in_kernel();
Where where();
void fault(const std::string& what);

}  // namespace emulation
