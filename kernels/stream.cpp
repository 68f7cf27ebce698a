#include "kernels/stream.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <omp.h>
#include <vector>

#include "kernels/error.h"
#include "kernels/gemm.h"
#include "kernels/kernel.h"
#include "kernels/slab.h"

namespace nascent {
namespace {

constexpr std::size_t kLeastChunk = std::size_t{1} << 20;

struct Free {
  void operator()(std::byte* p) const { std::free(p); }
};

}  // namespace

// The scratch stack: chunks of memory, used in order. A request that does not fit the current chunk goes to the next
// one.
struct Stream::Impl {
  struct Chunk {
    std::unique_ptr<std::byte, Free> memory;
    std::size_t size, used;
  };
  struct Mark {
    std::size_t chunk, used;
  };
  std::vector<Chunk> chunks;
  std::vector<Mark> marks;  // what to go back to at each pop
  std::size_t current = 0;
  std::map<GemmShape, std::unique_ptr<Gemm>> gemms;
};

Stream::Stream(Device device, int threads) : device_(device), threads_(threads), impl_(std::make_unique<Impl>()) {
  if (device_ != Device::kCpu)
    throw input_error("device {}: this build has no such device, expected cpu", name_of(device_));
  if (threads_ <= 0) threads_ = omp_get_num_procs();
  omp_set_num_threads(threads_);  // oneDNN asks OpenMP how many to use
}

Stream::~Stream() = default;

std::byte* Stream::push(std::size_t bytes) {
  bytes = (std::max<std::size_t>(bytes, 1) + Slab::kAlignment - 1) / Slab::kAlignment * Slab::kAlignment;
  auto& [chunks, marks, current, gemms] = *impl_;
  std::size_t i = current;
  while (i < chunks.size() && chunks[i].size - chunks[i].used < bytes) ++i;
  if (i == chunks.size()) {
    const std::size_t size = std::max(bytes, kLeastChunk);
    auto* memory = static_cast<std::byte*>(std::aligned_alloc(Slab::kAlignment, size));
    if (!memory) throw machine_error("scratch: no memory for {} bytes", size);
    chunks.push_back({std::unique_ptr<std::byte, Free>(memory), size, 0});
  }
  marks.push_back({current, chunks[i].used});
  std::byte* p = chunks[i].memory.get() + chunks[i].used;
  chunks[i].used += bytes;
  current = i;
  return p;
}

void Stream::pop() {
  auto& [chunks, marks, current, gemms] = *impl_;
  chunks[current].used = marks.back().used;
  current = marks.back().chunk;
  marks.pop_back();
}

Stream::Scratch Stream::scratch(DType dtype, Shape shape) {
  const std::size_t bytes = static_cast<std::size_t>(shape.size()) * size_of(dtype);
  return {*this, Tensor(push(bytes), dtype, shape, device_)};
}

const Gemm& Stream::gemm(const GemmShape& shape) {
  std::unique_ptr<Gemm>& gemm = impl_->gemms[shape];
  if (!gemm) gemm = shape.dtype == DType::kF32 ? make_gemm_f32(shape) : make_gemm_f64(shape);
  return *gemm;
}

std::string Stream::place() const {
  std::string text = place_.step < 0 ? "" : fmt::format("step {}", place_.step);
  if (*place_.part) text += (text.empty() ? "" : ", ") + std::string(place_.part);
  return place_.number < 0 ? text : fmt::format("{}.{}", text, place_.number);
}

void throw_no_twin(const char* kernel, Device device) {
  throw machine_error("{}: this build has no {} version of it", kernel, name_of(device));
}

}  // namespace nascent
