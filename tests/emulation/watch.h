// Watches every access of emulated kernels to memory. The .cu files are compiled with -fsanitize=thread, which makes the
// compiler call a function before each access; here those functions are ours (watch.cpp), not a sanitizer's.
//
// For every two bytes the last write and two last reads are kept. Two accesses of different threads, one of them a write, are
// a race unless a barrier of the block (or of the warp, for threads of one) lies between them; between blocks nothing
// orders. Atomic accesses race only with others. A read of shared memory that no thread wrote, and an access outside of
// the device's memory, the block's shared memory, the thread's stack and the kernel's parameters, are faults too.
#pragma once

#include <cstddef>

namespace emulation::watch {

enum class Kind { kDevice, kShared, kParameters };

// A range kernels may use from now on; on the device and shared memory accesses are remembered, and shared memory
// is taken for unwritten. The name is what faults say.
void add(Kind kind, const void* begin, std::size_t bytes, const char* name);
void remove(const void* begin);

void set_stack(const void* begin, std::size_t bytes);  // of the thread that runs next

void access(const void* address, std::size_t bytes, bool writes, bool atomic);

}  // namespace emulation::watch
