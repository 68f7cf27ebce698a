#include "tests/bench/bare_onednn.h"

#include <unordered_map>

#include "kernels/onednn.h"

namespace nascent::bench {
namespace {

dnnl::memory memory_of(const dnnl::engine& engine, const Matrix<const float>& x) {
  using Dims = dnnl::memory::dims;
  const dnnl::memory::desc desc(Dims{x.rows, x.cols}, dnnl::memory::data_type::f32, Dims{x.row_stride, x.col_stride});
  return {desc, engine, const_cast<float*>(x.data)};
}

}  // namespace

struct BareProduct::Impl {
  dnnl::engine engine{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream{engine};
  dnnl::matmul matmul;
  std::unordered_map<int, dnnl::memory> arguments;
};

BareProduct::BareProduct(Matrix<float> c, Matrix<const float> a, Matrix<const float> b, Into into, const float* bias)
    : impl_(std::make_shared<Impl>()) {
  auto& [engine, stream, matmul, arguments] = *impl_;
  arguments = {{DNNL_ARG_SRC, memory_of(engine, a)},
               {DNNL_ARG_WEIGHTS, memory_of(engine, b)},
               {DNNL_ARG_DST, memory_of(engine, c)}};
  if (bias) arguments.emplace(DNNL_ARG_BIAS, memory_of(engine, {bias, 1, c.cols, c.cols}));
  dnnl::primitive_attr attr;
  attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  if (into == Into::kAdd) {
    dnnl::post_ops sum;
    sum.append_sum(1.0f);
    attr.set_post_ops(sum);
  }
  const auto desc_of = [&](int argument) { return arguments.at(argument).get_desc(); };
  const auto desc = matmul_desc(engine, desc_of(DNNL_ARG_SRC), desc_of(DNNL_ARG_WEIGHTS),
                                bias ? desc_of(DNNL_ARG_BIAS) : dnnl::memory::desc(), desc_of(DNNL_ARG_DST), attr);
  arguments.emplace(DNNL_ARG_SCRATCHPAD, dnnl::memory(desc.scratchpad_desc(), engine));
  matmul = dnnl::matmul(desc);
}

void BareProduct::run() const {
  impl_->matmul.execute(impl_->stream, impl_->arguments);
  impl_->stream.wait();
}

}  // namespace nascent::bench
