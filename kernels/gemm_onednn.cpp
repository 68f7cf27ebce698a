#include <unordered_map>

#include "kernels/error.h"
#include "kernels/gemm.h"
#include "kernels/onednn.h"

namespace nascent {
namespace {

using Desc = dnnl::memory::desc;

Desc matrix_desc(std::int64_t rows, std::int64_t cols, std::int64_t row_stride, std::int64_t col_stride) {
  return {{rows, cols}, dnnl::memory::data_type::f32, dnnl::memory::dims{row_stride, col_stride}};
}

class OneDnnGemm : public Gemm {
 public:
  explicit OneDnnGemm(const GemmShape& shape)
      : a_(matrix_desc(shape.m, shape.k, shape.a_row, shape.a_col)),
        b_(matrix_desc(shape.k, shape.n, shape.b_row, shape.b_col)),
        c_(matrix_desc(shape.m, shape.n, shape.c_row, 1)) {
    if (shape.bias) bias_ = matrix_desc(1, shape.n, shape.n, 1);
    dnnl::primitive_attr attr;
    attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    if (shape.accumulate) {
      dnnl::post_ops sum;
      sum.append_sum(1.0f);
      attr.set_post_ops(sum);
    }
    const auto desc = matmul_desc(engine_, a_, b_, bias_, c_, attr);
    scratch_ = desc.scratchpad_desc();
    matmul_ = dnnl::matmul(desc);
  }

  std::size_t scratch_bytes() const override { return scratch_.get_size(); }

  void run(void* c, const void* a, const void* b, const void* bias, void* scratch) const override {
    const auto memory = [this](const Desc& desc, const void* p) {
      return dnnl::memory(desc, engine_, const_cast<void*>(p));
    };
    std::unordered_map<int, dnnl::memory> args = {{DNNL_ARG_SRC, memory(a_, a)},
                                                  {DNNL_ARG_WEIGHTS, memory(b_, b)},
                                                  {DNNL_ARG_DST, memory(c_, c)},
                                                  {DNNL_ARG_SCRATCHPAD, memory(scratch_, scratch)}};
    if (bias) args.emplace(DNNL_ARG_BIAS, memory(bias_, bias));
    dnnl::stream stream(engine_);
    matmul_.execute(stream, args);
  }

 private:
  dnnl::engine engine_{dnnl::engine::kind::cpu, 0};
  Desc a_, b_, c_, bias_, scratch_;
  dnnl::matmul matmul_;
};

}  // namespace

std::unique_ptr<Gemm> make_gemm_f32(const GemmShape& shape) {
  try {
    return std::make_unique<OneDnnGemm>(shape);
  } catch (const dnnl::error& e) {
    throw machine_error("oneDNN has no product [{}, {}] = [{}, {}] [{}, {}]: {}", shape.m, shape.n, shape.m, shape.k,
                        shape.k, shape.n, e.what());
  }
}

}  // namespace nascent
