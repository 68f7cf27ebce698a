// The emulation itself: what is right passes in every order, and each planted mistake is found.
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <numeric>
#include <string>
#include <vector>

#include "kernels/device.h"
#include "tests/catch.h"
#include "tests/emulation/emulation.h"
#include "tests/emulation/planted.h"
#include "tests/errors.h"
#include "tests/memory.h"

using namespace nascent;
using namespace nascent::test;
using emulation::Order;

namespace {

constexpr int kBlock = 64;
constexpr Order kOrders[] = {Order::kForward, Order::kBackward, Order::kShuffled};

struct Numbers {
  Memory m{DType::kF32, Device::kCuda};
  Tensor in = m.ids("in", {4 * kBlock}, 1000), out = m.zeros({kBlock}, DType::kI32);
  Stream s{Device::kCuda};
};

// What the kernel's faults say, in each of the orders.
template <class F>
std::vector<std::string> faults(F&& run) {
  std::vector<std::string> found;
  for (const Order order : kOrders) {
    emulation::set_order(order);
    Numbers n;
    found.push_back(failure_of([&] { run(n); }).message);
  }
  emulation::set_order(Order::kForward);
  return found;
}

std::string output_of_this_program(const std::string& test) {
  const std::string self = std::filesystem::read_symlink("/proc/self/exe");
  std::FILE* pipe = ::popen(("'" + self + "' '" + test + "' 2>&1").c_str(), "r");
  REQUIRE(pipe != nullptr);
  std::string output;
  for (int c = 0; (c = std::fgetc(pipe)) != EOF;) output += static_cast<char>(c);
  ::pclose(pipe);
  return output;
}

}  // namespace

TEST_CASE("kernels without mistakes run in every order of threads, with the same result") {
  for (const Order order : kOrders) {
    emulation::set_order(order);
    Numbers n;
    cuda::planted_next_of_block(n.s, n.out, n.in.slice(0, kBlock), true);
    const std::vector<double> in = values(n.in), out = values(n.out);
    for (std::size_t i = 0; i < kBlock; ++i) CHECK(out[i] == in[(i + 1) % kBlock]);
    const Tensor total = n.m.zeros({1}, DType::kI32);
    cuda::planted_sum(n.s, total, n.in, true);
    CHECK(values(total)[0] == std::accumulate(in.begin(), in.end(), 0.0));
    CHECK_NOTHROW(cuda::planted_past_the_end(n.s, n.out, 0));
    CHECK_NOTHROW(cuda::planted_past_the_end_of_shared(n.s, n.out, 0));
  }
  emulation::set_order(Order::kForward);
}

TEST_CASE("a missing barrier is found in every order of threads") {
  if (!emulation::watches()) {  // then at least the orders differ
    std::vector<std::vector<double>> results;
    for (const Order order : kOrders) {
      emulation::set_order(order);
      Numbers n;
      cuda::planted_next_of_block(n.s, n.out, n.in.slice(0, kBlock), false);
      results.push_back(values(n.out));
    }
    emulation::set_order(Order::kForward);
    CHECK(results[0] != results[1]);
    CHECK(results[0] != results[2]);
    return;
  }
  for (const std::string& fault :
       faults([](Numbers& n) { cuda::planted_next_of_block(n.s, n.out, n.in.slice(0, kBlock), false); })) {
    INFO(fault);
    CHECK(fault.find("of row") != std::string::npos);
  }
}

TEST_CASE("a race on the device's memory is found within a block and between blocks") {
  if (!emulation::watches()) return;
  for (const std::int64_t size : {kBlock, 2 * kBlock}) {
    for (const std::string& fault :
         faults([&](Numbers& n) { cuda::planted_sum(n.s, n.out, n.in.slice(0, size), false); })) {
      INFO(fault);
      CHECK(fault.find("of the device's memory, which thread") != std::string::npos);
    }
  }
}

TEST_CASE("writes past the end", "[.planted]") {  // for the case below
  Numbers n;
  cuda::planted_past_the_end(n.s, n.out, 1);
}
TEST_CASE("writes past the end of shared memory", "[.planted]") {
  Numbers n;
  cuda::planted_past_the_end_of_shared(n.s, n.out, 1);
}

TEST_CASE("an access past the end of the device's or of shared memory is found") {
  if (!emulation::watches()) {  // AddressSanitizer does it, and ends the program
    for (const std::string name : {"writes past the end", "writes past the end of shared memory"}) {
      const std::string output = output_of_this_program(name);
      INFO(output);
      CHECK(output.find("AddressSanitizer: use-after-poison") != std::string::npos);
    }
    return;
  }
  for (const std::string& fault : faults([](Numbers& n) { cuda::planted_past_the_end(n.s, n.out, 1); })) {
    INFO(fault);
    CHECK(fault.find("past_the_end: 1 fault: block 0, thread 63: writes 4 bytes 0 bytes past the end of the device's "
                     "memory (256 bytes)") == 0);
  }
  for (const std::string& fault : faults([](Numbers& n) { cuda::planted_past_the_end_of_shared(n.s, n.out, 1); })) {
    INFO(fault);
    CHECK(fault.find("past the end of row (256 bytes)") != std::string::npos);
  }
}

TEST_CASE("a barrier or a shuffle that not all reach is found") {
  for (const std::string& fault : faults([](Numbers& n) { cuda::planted_half_a_barrier(n.s, n.out); })) {
    INFO(fault);
    CHECK(fault.find("waits at __syncthreads (tests/emulation/planted.cu:") != std::string::npos);
    CHECK(fault.find("has ended") != std::string::npos);
  }
  for (const std::string& fault : faults([](Numbers& n) { cuda::planted_half_a_shuffle(n.s, n.out); })) {
    INFO(fault);
    CHECK(fault.find("waits at __shfl_xor_sync") != std::string::npos);
  }
}
