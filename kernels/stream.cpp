#include "kernels/stream.h"

#include <algorithm>
#include <map>
#include <vector>

#include "kernels/device.h"
#include "kernels/error.h"
#include "kernels/gemm.h"
#include "kernels/kernel.h"
#include "kernels/slab.h"
#include "kernels/threads.h"

namespace nascent {
namespace {

constexpr std::size_t kLeastChunk = std::size_t{1} << 20;

}  // namespace

// The scratch stack: chunks of memory, used in order. A request that does not fit the current chunk goes to the next
// one.
struct Stream::Impl {
  struct Chunk {
    DeviceBlock memory;
    std::size_t used;
  };
  struct Mark {
    std::size_t chunk, used;
  };
  std::vector<Chunk> chunks;
  std::vector<Mark> marks;  // what to go back to at each pop
  std::size_t current = 0;
  std::shared_ptr<cuda::Handles> handles;            // on CUDA
  std::map<GemmShape, std::unique_ptr<Gemm>> gemms;  // gone before the handles
};

Stream::Stream(Device device, int threads) : device_(device), threads_(threads), impl_(std::make_unique<Impl>()) {
  require_device(device_);
  if (device_ == Device::kCuda) impl_->handles = cuda::make_handles();
  if (threads_ <= 0) threads_ = usable_threads();
  set_library_threads(threads_);  // oneDNN asks OpenMP how many to use
}

Stream::~Stream() = default;

std::byte* Stream::push(std::size_t bytes) {
  bytes = (std::max<std::size_t>(bytes, 1) + Slab::kAlignment - 1) / Slab::kAlignment * Slab::kAlignment;
  auto& chunks = impl_->chunks;
  std::size_t i = impl_->current;
  while (i < chunks.size() && chunks[i].memory.bytes() - chunks[i].used < bytes) ++i;
  if (i == chunks.size()) chunks.push_back({DeviceBlock(device_, std::max(bytes, kLeastChunk), "scratch"), 0});
  impl_->marks.push_back({impl_->current, chunks[i].used});
  std::byte* p = chunks[i].memory.data() + chunks[i].used;
  chunks[i].used += bytes;
  impl_->current = i;
  return p;
}

void Stream::pop() {
  const Impl::Mark mark = impl_->marks.back();
  impl_->chunks[impl_->current].used = mark.used;
  impl_->current = mark.chunk;
  impl_->marks.pop_back();
}

Stream::Scratch Stream::scratch(DType dtype, Shape shape) {
  const std::size_t bytes = static_cast<std::size_t>(shape.size()) * size_of(dtype);
  return {*this, Tensor(push(bytes), dtype, shape, device_)};
}

const Gemm& Stream::gemm(const GemmShape& shape) {
  std::unique_ptr<Gemm>& gemm = impl_->gemms[shape];
  if (!gemm) {
    gemm = device_ == Device::kCuda     ? cuda::make_gemm(*impl_->handles, shape)
           : shape.dtype == DType::kF32 ? make_gemm_f32(shape)
                                        : make_gemm_f64(shape);
  }
  return *gemm;
}

cuda::Handles& Stream::handles() const { return *impl_->handles; }

void Stream::wait() {
  if (device_ == Device::kCuda) cuda::wait(*impl_->handles);
}

void Stream::check_finite(bool on) {
  if (on && device_ != Device::kCpu) throw input_error("--check-nan: not built for device {}", name_of(device_));
  checks_finite_ = on;
}

std::string Stream::place() const {
  std::string text = place_.step < 0 ? "" : fmt::format("step {}", place_.step);
  if (*place_.part) text += (text.empty() ? "" : ", ") + std::string(place_.part);
  return place_.number < 0 ? text : fmt::format("{}.{}", text, place_.number);
}

void throw_wrong_device(const Stream& stream, const char* kernel, const char* arguments, int number, Device device) {
  throw machine_error("{}: {} is on {}, the stream on {}", kernel, argument_name(arguments, number), name_of(device),
                      name_of(stream.device()));
}

void throw_no_twin(const char* kernel, Device device) {
  throw machine_error("{}: this build has no {} version of it", kernel, name_of(device));
}

}  // namespace nascent
