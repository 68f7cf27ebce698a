#include "tests/emulation/emulation.h"

#include <algorithm>
#include <boost/context/fiber.hpp>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <new>
#include <numeric>
#include <random>
#include <span>
#include <string_view>
#include <vector>

#include "kernels/error.h"
#include "tests/emulation/watch.h"

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

namespace emulation {
namespace {

constexpr std::size_t kStack = std::size_t{256} << 10;
constexpr std::size_t kRedZone = 256;
constexpr unsigned kWarp = 32;
constexpr std::size_t kMostFaults = 4;  // the rest mostly says the same

// Tells AddressSanitizer, where it is there, which stack is in use.
struct Stacks {
#ifdef __SANITIZE_ADDRESS__
  static void leave(void** keep, const void* bottom, std::size_t size) {
    __sanitizer_start_switch_fiber(keep, bottom, size);
  }
  static void arrive(void* kept, const void** bottom, std::size_t* size) {
    __sanitizer_finish_switch_fiber(kept, bottom, size);
  }
  static void poison(void* p, std::size_t n) { __asan_poison_memory_region(p, n); }
  static void unpoison(void* p, std::size_t n) { __asan_unpoison_memory_region(p, n); }
#else
  static void leave(void**, const void*, std::size_t) {}
  static void arrive(void*, const void**, std::size_t*) {}
  static void poison(void*, std::size_t) {}
  static void unpoison(void*, std::size_t) {}
#endif
};

// Bytes between red zones.
class Guarded {
 public:
  explicit Guarded(std::size_t bytes) : bytes_(bytes), memory_(new(std::align_val_t{kRedZone}) std::byte[whole()]) {
    std::memset(memory_, 0xFF, whole());
    Stacks::poison(memory_, kRedZone);
    Stacks::poison(memory_ + kRedZone + bytes_, kRedZone);
  }
  ~Guarded() {
    Stacks::unpoison(memory_, whole());
    ::operator delete[](memory_, std::align_val_t{kRedZone});
  }
  Guarded(const Guarded&) = delete;
  Guarded& operator=(const Guarded&) = delete;

  std::byte* data() const { return memory_ + kRedZone; }
  std::size_t bytes() const { return bytes_; }

 private:
  std::size_t whole() const { return bytes_ + 2 * kRedZone; }

  std::size_t bytes_;
  std::byte* memory_;
};

// What a thread waits at.
struct Barrier {
  const char* what = nullptr;  // null: at none
  const char* file;
  int line;
  unsigned mask;  // lanes, of a warp's
  bool operator==(const Barrier& other) const {
    return std::string_view(what) == other.what && std::string_view(file) == other.file && line == other.line &&
           mask == other.mask;
  }
  std::string text() const { return fmt::format("{} ({}:{})", what, file, line); }
};

struct Thread {
  Index index;
  boost::context::fiber fiber;
  std::unique_ptr<std::byte[]> stack;
  void* sanitizer = nullptr;
  Barrier at;
  bool done = false;
};

struct Warp {
  std::uint32_t phase = 0;
  std::uint64_t offers[2][kWarp];  // of even and odd phases: who reads those of one may meet who makes the next
};

// The fiber's memory is the thread's, which outlives it.
struct OwnStack {
  Thread* thread;
  boost::context::stack_context allocate() const {
    boost::context::stack_context c;
    c.size = kStack;
    c.sp = thread->stack.get() + kStack;
    return c;
  }
  void deallocate(boost::context::stack_context&) const {}
};

// EMULATION_ORDER=forward|backward|shuffled runs a whole program in an order.
Order order_of_environment() {
  const char* value = std::getenv("EMULATION_ORDER");
  const std::string_view order = value ? value : "forward";
  if (order == "forward") return Order::kForward;
  if (order == "backward") return Order::kBackward;
  if (order == "shuffled") return Order::kShuffled;
  throw nascent::input_error("EMULATION_ORDER is {}, expected forward, backward or shuffled", order);
}

// Everything of the grid that runs: one at a time.
struct Grid {
  Order order = order_of_environment();
  std::uint32_t launches = 0;

  void (*kernel)(const void*) = nullptr;
  const void* parameters = nullptr;
  Index blocks, threads, block;
  std::vector<Thread> pool;  // stacks are kept from block to block
  std::vector<Warp> warps;
  std::uint32_t phase = 0, block_number = 0;
  std::map<const void*, std::unique_ptr<Guarded>> shared;
  std::vector<std::string> faults;
  std::size_t fault_count = 0;
  std::string report;

  Thread* current = nullptr;
  boost::context::fiber scheduler;
  void* scheduler_sanitizer = nullptr;
  const void* scheduler_bottom = nullptr;
  std::size_t scheduler_size = 0;

  std::map<void*, std::unique_ptr<Guarded>> device;
};

Grid& grid() {
  static Grid the_grid;
  return the_grid;
}

std::uint32_t number_of(const Thread& t) { return static_cast<std::uint32_t>(&t - grid().pool.data()); }

std::vector<std::size_t> turns(std::size_t n, std::uint32_t seed) {
  std::vector<std::size_t> order(n);
  std::iota(order.begin(), order.end(), std::size_t{0});
  if (grid().order == Order::kBackward) std::reverse(order.begin(), order.end());
  if (grid().order == Order::kShuffled) std::shuffle(order.begin(), order.end(), std::mt19937(seed));
  return order;
}

// The running thread gives way until the schedule lets it go on.
void wait() {
  Grid& g = grid();
  Thread& me = *g.current;
  Stacks::leave(&me.sanitizer, g.scheduler_bottom, g.scheduler_size);
  g.scheduler = std::move(g.scheduler).resume();
  Stacks::arrive(me.sanitizer, nullptr, nullptr);
}

void start(Thread& t) {
  Grid& g = grid();
  t.done = false;
  t.at = {};
  t.fiber = boost::context::fiber(std::allocator_arg, OwnStack{&t}, [&g, &t](boost::context::fiber&& back) {
    g.scheduler = std::move(back);
    Stacks::arrive(nullptr, &g.scheduler_bottom, &g.scheduler_size);
    g.kernel(g.parameters);
    t.done = true;
    Stacks::leave(nullptr, g.scheduler_bottom, g.scheduler_size);  // null: this stack is not gone back to
    return std::move(g.scheduler);
  });
}

void resume(Thread& t) {
  Grid& g = grid();
  g.current = &t;
  watch::set_stack(t.stack.get(), kStack);
  Stacks::leave(&g.scheduler_sanitizer, t.stack.get(), kStack);
  t.fiber = std::move(t.fiber).resume();
  Stacks::arrive(g.scheduler_sanitizer, nullptr, nullptr);
  g.current = nullptr;
}

std::span<Thread> warp_of(std::size_t warp) {
  Grid& g = grid();
  const std::size_t n = g.threads.x;
  return std::span(g.pool).subspan(warp * kWarp, std::min<std::size_t>(kWarp, n - warp * kWarp));
}

bool waits_for_block(const Thread& t) { return t.at.what && t.at.mask == 0; }

// Lets go the lanes of a warp that wait for each other; false: no lanes do that are complete.
bool release_lanes(std::size_t number) {
  const std::span<Thread> threads = warp_of(number);
  for (std::size_t i = 0; i < threads.size(); ++i) {
    const Barrier at = threads[i].at;
    if (!at.what || at.mask == 0) continue;
    bool complete = true;
    for (std::size_t lane = 0; lane < kWarp; ++lane) {
      if (!(at.mask >> lane & 1)) continue;
      complete = complete && lane < threads.size() && threads[lane].at.what && threads[lane].at == at;
    }
    if (!complete) continue;
    for (std::size_t lane = 0; lane < threads.size(); ++lane) {
      if (at.mask >> lane & 1) threads[lane].at = {};
    }
    ++grid().warps[number].phase;
    return true;
  }
  return false;
}

// Lets go the whole block where all of it waits at one barrier.
bool release_block() {
  Grid& g = grid();
  const std::span<Thread> threads = std::span(g.pool).first(g.threads.x);
  for (const Thread& t : threads) {
    if (t.done || !waits_for_block(t) || !(t.at == threads[0].at)) return false;
  }
  for (Thread& t : threads) t.at = {};
  ++g.phase;
  return true;
}

// Nobody can go on: says why, and lets everybody.
void break_up() {
  Grid& g = grid();
  const std::span<Thread> threads = std::span(g.pool).first(g.threads.x);
  const auto waiting = std::find_if(threads.begin(), threads.end(), [](const Thread& t) { return t.at.what; });
  const auto other = std::find_if(threads.begin(), threads.end(),
                                  [&](const Thread& t) { return t.done || (t.at.what && !(t.at == waiting->at)); });
  g.current = &*waiting;
  if (other == threads.end()) {
    fault(fmt::format("waits at {} for lanes that are not there", waiting->at.text()));
  } else {
    fault(fmt::format("waits at {}, but thread {} {}", waiting->at.text(), number_of(*other),
                      other->done ? "has ended" : "waits at " + other->at.text()));
  }
  g.current = nullptr;
  for (Thread& t : threads) t.at = {};
  ++g.phase;
}

void run_block(const Index& block, std::uint32_t number) {
  Grid& g = grid();
  const std::size_t n = g.threads.x;
  g.block = block;
  g.block_number = number;
  g.phase = 0;
  g.warps.assign((n + kWarp - 1) / kWarp, Warp{});
  for (std::size_t i = 0; i < n; ++i) start(g.pool[i]);
  for (std::uint32_t round = 0;; ++round) {
    for (const std::size_t i : turns(n, number * 7919 + round)) {
      Thread& t = g.pool[i];
      if (!t.done && !t.at.what) resume(t);
    }
    if (std::all_of(g.pool.begin(), g.pool.begin() + static_cast<std::ptrdiff_t>(n),
                    [](const Thread& t) { return t.done; }))
      break;
    bool released = false;
    for (std::size_t warp = 0; warp < g.warps.size(); ++warp) released = release_lanes(warp) || released;
    if (!released && !release_block()) break_up();
  }
  for (const auto& [key, memory] : g.shared) watch::remove(memory->data());
  g.shared.clear();
}

}  // namespace

void set_order(Order order) { grid().order = order; }

Index thread_index() { return grid().current->index; }
Index block_index() { return grid().block; }
Index block_size() { return grid().threads; }
Index grid_size() { return grid().blocks; }
int lane() { return static_cast<int>(number_of(*grid().current) % kWarp); }

bool launch(Index blocks, Index threads, void (*kernel)(const void*), const void* parameters, std::size_t bytes) {
  Grid& g = grid();
  if (blocks.y != 1 || blocks.z != 1 || threads.y != 1 || threads.z != 1 || threads.x < 1 || threads.x > 1024)
    throw nascent::machine_error("emulation: only grids and blocks of one dimension, blocks of 1 to 1,024 threads");
  g.kernel = kernel;
  g.parameters = parameters;
  g.blocks = blocks;
  g.threads = threads;
  while (g.pool.size() < threads.x) {
    Thread t;
    t.stack = std::make_unique_for_overwrite<std::byte[]>(kStack);
    t.index = {static_cast<unsigned>(g.pool.size()), 0, 0};
    g.pool.push_back(std::move(t));
  }
  ++g.launches;
  g.faults.clear();
  g.fault_count = 0;
  watch::add(watch::Kind::kParameters, parameters, bytes, "the parameters");
  for (const std::size_t block : turns(blocks.x, g.launches))
    run_block({static_cast<unsigned>(block), 0, 0}, static_cast<std::uint32_t>(block));
  watch::remove(parameters);
  g.report = fmt::format("{} fault{}: {}{}", g.fault_count, g.fault_count == 1 ? "" : "s", fmt::join(g.faults, "; "),
                         g.fault_count > g.faults.size() ? "; ..." : "");
  return g.fault_count == 0;
}

const char* faults() { return grid().report.c_str(); }

void sync_threads(const char* file, int line) {
  grid().current->at = {"__syncthreads", file, line, 0};
  wait();
}

Offers sync_lanes(unsigned mask, std::uint64_t mine, const char* what, const char* file, int line) {
  Grid& g = grid();
  Thread& me = *g.current;
  Warp& warp = g.warps[number_of(me) / kWarp];
  const unsigned lane = number_of(me) % kWarp;
  if (!(mask >> lane & 1))
    fault(fmt::format("{} ({}:{}) has a mask {:#x} without its own lane", what, file, line, mask));
  std::uint64_t* offers = warp.offers[warp.phase % 2];
  offers[lane] = mine;
  me.at = {what, file, line, mask | 1u << lane};
  wait();
  return Offers(offers);
}

std::uint64_t Offers::of(int lane) const { return bits_[lane]; }

void* shared(const void* key, std::size_t bytes, const char* name) {
  std::unique_ptr<Guarded>& memory = grid().shared[key];
  if (!memory) {
    memory = std::make_unique<Guarded>(bytes);
    watch::add(watch::Kind::kShared, memory->data(), bytes, name);
  }
  return memory->data();
}

void* allocate(std::size_t bytes) {
  auto memory = std::make_unique<Guarded>(bytes);
  void* p = memory->data();
  watch::add(watch::Kind::kDevice, p, bytes, "the device's memory");
  grid().device[p] = std::move(memory);
  return p;
}

void release(void* memory) {
  if (!memory) return;
  watch::remove(memory);
  if (grid().device.erase(memory) == 0) throw nascent::machine_error("cudaFree: not a block of the device's memory");
}

void atomic_read(void* to, const void* address, std::size_t bytes) { std::memcpy(to, address, bytes); }

void atomic_write(void* address, const void* from, std::size_t bytes) {
  watch::access(address, bytes, true, true);
  std::memcpy(address, from, bytes);
}

bool watches() { return EMULATION_WATCHES; }

bool in_kernel() { return grid().current != nullptr; }

Where where() {
  const Grid& g = grid();
  const std::uint32_t thread = number_of(*g.current);
  return {g.launches, g.block_number, static_cast<std::uint16_t>(thread), static_cast<std::uint16_t>(g.phase),
          static_cast<std::uint16_t>(g.warps[thread / kWarp].phase)};
}

void fault(const std::string& what) {
  Grid& g = grid();
  if (g.fault_count++ >= kMostFaults) return;
  g.faults.push_back(fmt::format("block {}, thread {}: {}", g.block_number, number_of(*g.current), what));
}

}  // namespace emulation
