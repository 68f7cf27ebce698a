// cuBLASLt counts by columns: a row-major matrix is to it a transposed one. So C = A B is asked for as C^T = B^T A^T, and
// "transposed" in its sense is what has unit stride along a column of ours.
#include <algorithm>
#include <array>
#include <string>

#include "kernels/cublas.cuh"
#include "kernels/cuda.cuh"
#include "kernels/device.h"
#include "kernels/gemm.h"

#define BLAS_CHECK(blas, call) (blas).check((blas).functions.call, #call, __FILE__, __LINE__)

namespace nascent::cuda {
namespace {

constexpr std::size_t kWorkspace = std::size_t{32} << 20;  // the library's choice for Hopper; taken only where used

template <class T>
__global__ void set_rows(T* c, const T* bias, std::int64_t m, std::int64_t n, std::int64_t stride) {
  const std::int64_t at = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (at < m * n) c[at / n * stride + at % n] = bias[at % n];
}

bool aligned(const void* p) { return reinterpret_cast<std::uintptr_t>(p) % 16 == 0; }

// An operand as cuBLASLt sees it: [rows, cols] of its own, column-major.
cublasLtMatrixLayoutOpaque_t layout(const Blas& blas, cudaDataType type, std::int64_t rows, std::int64_t cols,
                                    std::int64_t stride) {
  cublasLtMatrixLayoutOpaque_t made;
  BLAS_CHECK(blas, init_layout(&made, sizeof made, type, static_cast<std::uint64_t>(rows),
                               static_cast<std::uint64_t>(cols), std::max(stride, rows)));
  return made;
}

class CublasGemm : public Gemm {
 public:
  CublasGemm(Handles& handles, const GemmShape& shape)
      : blas_(handles.blas), stream_(handles.stream), shape_(shape), single_(shape.dtype == DType::kF32) {
    const Blas& blas = *blas_;
    const cudaDataType type = single_ ? CUDA_R_32F : CUDA_R_64F;
    BLAS_CHECK(blas, init_desc(&desc_, sizeof desc_, single_ ? CUBLAS_COMPUTE_32F : CUBLAS_COMPUTE_64F, type));
    // Its left operand is our B, its right one our A.
    left_ = operand(blas, type, CUBLASLT_MATMUL_DESC_TRANSA, shape.k, shape.n, shape.b_row, shape.b_col);
    right_ = operand(blas, type, CUBLASLT_MATMUL_DESC_TRANSB, shape.m, shape.k, shape.a_row, shape.a_col);
    out_ = layout(blas, type, shape.n, shape.m, shape.c_row);
    if (fused_bias()) {
      const cublasLtEpilogue_t bias = CUBLASLT_EPILOGUE_BIAS;
      BLAS_CHECK(blas, set_desc(&desc_, CUBLASLT_MATMUL_DESC_EPILOGUE, &bias, sizeof bias));
    }
    algorithms_ = {choose(static_cast<std::uint32_t>(size_of(shape.dtype))), choose(16)};
  }

  std::size_t scratch_bytes() const override {
    return std::max(algorithms_[0].workspaceSize, algorithms_[1].workspaceSize);
  }

  void run(void* c, const void* a, const void* b, const void* bias, void* scratch) const override {
    if (single_) {
      multiply<float>(c, a, b, bias, scratch);
    } else {
      multiply<double>(c, a, b, bias, scratch);
    }
  }

 private:
  bool fused_bias() const { return shape_.bias && single_; }  // in double the library has no such epilogue

  // Our operand [rows, cols], and in the description whether the library has to transpose what it sees.
  cublasLtMatrixLayoutOpaque_t operand(const Blas& blas, cudaDataType type, cublasLtMatmulDescAttributes_t which,
                                       std::int64_t rows, std::int64_t cols, std::int64_t row_stride,
                                       std::int64_t col_stride) {
    const bool by_rows = col_stride == 1;
    const cublasOperation_t operation = by_rows ? CUBLAS_OP_N : CUBLAS_OP_T;
    BLAS_CHECK(blas, set_desc(&desc_, which, &operation, sizeof operation));
    return by_rows ? layout(blas, type, cols, rows, row_stride) : layout(blas, type, rows, cols, col_stride);
  }

  // The library's choice for operands that start at multiples of `alignment` bytes. Only reductions of split products
  // that add in a fixed order.
  cublasLtMatmulHeuristicResult_t choose(std::uint32_t alignment) {
    const Blas& blas = *blas_;
    cublasLtMatmulPreferenceOpaque_t preference;
    BLAS_CHECK(blas, init_preference(&preference, sizeof preference));
    const auto set = [&](cublasLtMatmulPreferenceAttributes_t attribute, auto value) {
      BLAS_CHECK(blas, set_preference(&preference, attribute, &value, sizeof value));
    };
    set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, std::uint64_t{kWorkspace});
    set(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
        std::uint32_t{CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE | CUBLASLT_REDUCTION_SCHEME_OUTPUT_TYPE});
    set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, alignment);
    set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, alignment);
    set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, alignment);
    set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, alignment);
    cublasLtMatmulHeuristicResult_t result{};
    int found = 0;
    BLAS_CHECK(blas, heuristic(blas.handle, &desc_, &left_, &right_, &out_, &out_, &preference, 1, &result, &found));
    if (found == 0) {
      const std::string product = "a product [" + std::to_string(shape_.m) + ", " + std::to_string(shape_.k) + "] [" +
                                  std::to_string(shape_.k) + ", " + std::to_string(shape_.n) + "]";
      throw_device_error(product.c_str(), "cuBLASLt has none", __FILE__, __LINE__);
    }
    return result;
  }

  template <class T>
  void multiply(void* c, const void* a, const void* b, const void* bias, void* scratch) const {
    const Blas& blas = *blas_;
    cublasLtMatmulDescOpaque_t desc = desc_;
    if (fused_bias()) {
      BLAS_CHECK(blas, set_desc(&desc, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias, sizeof bias));
    } else if (bias) {
      launch(stream_, "gemm", set_rows<T>, blocks_for(shape_.m * shape_.n, kThreads), kThreads, static_cast<T*>(c),
             static_cast<const T*>(bias), shape_.m, shape_.n, shape_.c_row);
    }
    const T alpha = 1, beta = shape_.accumulate || (bias && !fused_bias()) ? 1 : 0;
    const auto& algorithm = algorithms_[aligned(a) && aligned(b) && aligned(c) && aligned(bias)];
    BLAS_CHECK(blas, matmul(blas.handle, &desc, &alpha, b, &left_, a, &right_, &beta, c, &out_, c, &out_,
                            &algorithm.algo, scratch, algorithm.workspaceSize, stream_));
  }

  std::shared_ptr<Blas> blas_;
  cudaStream_t stream_;
  GemmShape shape_;
  bool single_;
  cublasLtMatmulDescOpaque_t desc_;
  mutable cublasLtMatrixLayoutOpaque_t left_, right_,
      out_;  // taken through pointers to what is not const, and only read
  std::array<cublasLtMatmulHeuristicResult_t, 2> algorithms_;  // for any operands, for those at multiples of 16 bytes
};

}  // namespace

Blas::Blas() { BLAS_CHECK(*this, create(&handle)); }

void Blas::check(cublasStatus_t status, const char* call, const char* file, int line) const {
  if (status != CUBLAS_STATUS_SUCCESS) throw_device_error(call, functions.status_string(status), file, line);
}

std::unique_ptr<Gemm> make_gemm(Handles& handles, const GemmShape& shape) {
  if (!handles.blas) handles.blas = std::make_shared<Blas>();
  return std::make_unique<CublasGemm>(handles, shape);
}

}  // namespace nascent::cuda
