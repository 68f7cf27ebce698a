#include "tests/emulation/watch.h"

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "kernels/error.h"
#include "tests/emulation/emulation.h"

namespace emulation {
namespace {

constexpr std::uintptr_t kCell = 2;  // bytes told apart: kernels use no smaller type

struct Access {
  Where where{};
  bool atomic = false;
  bool made = false;
};

struct Cell {
  Access write;
  std::array<Access, 2> reads;  // by different threads where there are two
};

struct Range {
  watch::Kind kind;
  std::uintptr_t begin, end;
  std::string name;
  std::vector<Cell> cells;  // of watched ones
};

struct Ranges {
  std::map<std::uintptr_t, Range> all;  // by begin
  Range* last = nullptr;
  std::uintptr_t stack_begin = 0, stack_end = 0;
};

Ranges& ranges() {
  static Ranges the_ranges;
  return the_ranges;
}

bool same_thread(const Where& a, const Where& b) { return a.block == b.block && a.thread == b.thread; }

// Whether a, the earlier, is known to have ended before b.
bool ordered(const Where& a, const Where& b) {
  if (a.launch != b.launch || same_thread(a, b)) return true;
  if (a.block != b.block) return false;
  return a.phase != b.phase || (a.thread / 32 == b.thread / 32 && a.warp_phase != b.warp_phase);
}

bool races(const Access& earlier, const Access& now) {
  return earlier.made && !(earlier.atomic && now.atomic) && !ordered(earlier.where, now.where);
}

Range* find(std::uintptr_t at) {
  Ranges& r = ranges();
  if (r.last && at >= r.last->begin && at < r.last->end) return r.last;
  auto next = r.all.upper_bound(at);
  if (next == r.all.begin()) return nullptr;
  Range& range = std::prev(next)->second;
  if (at >= range.end) return nullptr;
  return r.last = &range;
}

// Of memory that kernels may not use: which range it lies beside.
std::string neighbour(std::uintptr_t at) {
  const Ranges& r = ranges();
  auto next = r.all.upper_bound(at);
  if (next == r.all.begin()) return "at an address of no range";
  const Range& before = std::prev(next)->second;
  return fmt::format("{} bytes past the end of {} ({} bytes)", at - before.end, before.name, before.end - before.begin);
}

void look(Range& range, std::uintptr_t at, const Access& now, bool writes) {
  Cell& cell = range.cells[(at - range.begin) / kCell];
  const auto complain = [&](const char* verb, const Access& earlier) {
    fault(fmt::format("{} byte {} of {}, which thread {} of block {} {} with no barrier between",
                      writes ? "writes" : "reads", at - range.begin, range.name, earlier.where.thread,
                      earlier.where.block, verb));
  };
  if (races(cell.write, now)) complain("wrote", cell.write);
  if (writes) {
    for (const Access& read : cell.reads) {
      if (races(read, now)) complain("read", read);
    }
    cell.write = now;
    return;
  }
  if (range.kind == watch::Kind::kShared && !cell.write.made)
    fault(fmt::format("reads byte {} of {}, which nobody wrote", at - range.begin, range.name));
  const bool other = cell.reads[0].made && !same_thread(cell.reads[0].where, now.where);
  if (other) cell.reads[1] = cell.reads[0];
  cell.reads[0] = now;
}

}  // namespace

namespace watch {

void add(Kind kind, const void* begin, std::size_t bytes, const char* name) {
  if (!watches()) return;
  const auto first = reinterpret_cast<std::uintptr_t>(begin);
  Range range{kind, first, first + bytes, name, {}};
  if (kind == Kind::kDevice || kind == Kind::kShared) range.cells.resize((bytes + kCell - 1) / kCell);
  ranges().last = nullptr;
  ranges().all[first] = std::move(range);
}

void remove(const void* begin) {
  ranges().last = nullptr;
  ranges().all.erase(reinterpret_cast<std::uintptr_t>(begin));
}

void set_stack(const void* begin, std::size_t bytes) {
  ranges().stack_begin = reinterpret_cast<std::uintptr_t>(begin);
  ranges().stack_end = ranges().stack_begin + bytes;
}

void access(const void* address, std::size_t bytes, bool writes, bool atomic) {
  if (!watches() || !in_kernel()) return;
  const auto first = reinterpret_cast<std::uintptr_t>(address), end = first + bytes;
  const Ranges& r = ranges();
  if (first >= r.stack_begin && end <= r.stack_end) return;
  const Access now{where(), atomic, true};
  for (std::uintptr_t at = first; at < end; at += kCell) {
    Range* range = find(at);
    if (!range) return fault(fmt::format("{} {} bytes {}", writes ? "writes" : "reads", end - at, neighbour(at)));
    if (range->kind == Kind::kParameters && writes) return fault("writes to the kernel's parameters");
    if (!range->cells.empty()) look(*range, at, now, writes);
  }
}

}  // namespace watch
}  // namespace emulation

// What the compiler calls before each access.
#define WATCHED(size)                                                                            \
  void __tsan_read##size(void* p) { emulation::watch::access(p, size, false, false); }           \
  void __tsan_write##size(void* p) { emulation::watch::access(p, size, true, false); }           \
  void __tsan_unaligned_read##size(void* p) { emulation::watch::access(p, size, false, false); } \
  void __tsan_unaligned_write##size(void* p) { emulation::watch::access(p, size, true, false); }

extern "C" {
WATCHED(1)
WATCHED(2)
WATCHED(4)
WATCHED(8)
WATCHED(16)
void __tsan_read_range(void* p, std::size_t n) { emulation::watch::access(p, n, false, false); }
void __tsan_write_range(void* p, std::size_t n) { emulation::watch::access(p, n, true, false); }
void __tsan_init() {}
void __tsan_func_entry(void*) {}
void __tsan_func_exit() {}
void __tsan_vptr_update(void*, void*) {}
// Of shared_ptr, in the files' host part.
int __tsan_atomic32_fetch_add(volatile int* p, int value, int) {
  return __atomic_fetch_add(p, value, __ATOMIC_SEQ_CST);
}
}
