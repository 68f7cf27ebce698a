#define EIGEN_DONT_PARALLELIZE  // double products are for truth, not for speed: one thread, the same bits everywhere
#include <Eigen/Core>

#include "kernels/gemm.h"

namespace nascent {
namespace {

using RowMajor = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using ColMajor = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::ColMajor>;
template <class M>
using ConstMap = Eigen::Map<const M, Eigen::Unaligned, Eigen::OuterStride<>>;

// Calls f with the operand as a row- or column-major map, whichever its unit stride says.
template <class F>
void with_map(const void* data, std::int64_t rows, std::int64_t cols, std::int64_t row_stride, std::int64_t col_stride,
              F&& f) {
  const auto* p = static_cast<const double*>(data);
  if (col_stride == 1) {
    f(ConstMap<RowMajor>(p, rows, cols, Eigen::OuterStride<>(row_stride)));
  } else {
    f(ConstMap<ColMajor>(p, rows, cols, Eigen::OuterStride<>(col_stride)));
  }
}

class EigenGemm : public Gemm {
 public:
  explicit EigenGemm(const GemmShape& shape) : shape_(shape) {}

  void run(void* c, const void* a, const void* b, const void* bias, void*) const override {
    Eigen::Map<RowMajor, Eigen::Unaligned, Eigen::OuterStride<>> out(static_cast<double*>(c), shape_.m, shape_.n,
                                                                     Eigen::OuterStride<>(shape_.c_row));
    with_map(a, shape_.m, shape_.k, shape_.a_row, shape_.a_col, [&](const auto& left) {
      with_map(b, shape_.k, shape_.n, shape_.b_row, shape_.b_col, [&](const auto& right) {
        if (shape_.accumulate) {
          out.noalias() += left * right;
        } else {
          out.noalias() = left * right;
        }
      });
    });
    if (bias) out.rowwise() += Eigen::Map<const Eigen::RowVectorXd>(static_cast<const double*>(bias), shape_.n);
  }

 private:
  GemmShape shape_;
};

}  // namespace

std::unique_ptr<Gemm> make_gemm_f64(const GemmShape& shape) { return std::make_unique<EigenGemm>(shape); }

}  // namespace nascent
