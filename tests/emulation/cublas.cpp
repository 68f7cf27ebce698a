// The products of cuBLASLt by plain loops, column-major: D = alpha op(A) op(B) + beta C (+ a bias down each column).
#include "kernels/cublas.cuh"

#include <cstring>

namespace {

constexpr std::size_t kWorkspace = 1024;  // asked for, so that somebody has to bring it

template <class T>
void set(T& member, const void* value, std::size_t size) {
  if (size == sizeof(T)) std::memcpy(&member, value, size);
}

bool starts_at(const void* p, std::uint32_t alignment) { return reinterpret_cast<std::uintptr_t>(p) % alignment == 0; }

std::uint64_t rows_of(const cublasLtMatrixLayoutOpaque_t& x, cublasOperation_t op) {
  return op == CUBLAS_OP_N ? x.rows : x.cols;
}
std::uint64_t cols_of(const cublasLtMatrixLayoutOpaque_t& x, cublasOperation_t op) {
  return op == CUBLAS_OP_N ? x.cols : x.rows;
}

template <class T>
T element(const void* x, const cublasLtMatrixLayoutOpaque_t& layout, cublasOperation_t op, std::uint64_t i,
          std::uint64_t j) {
  const auto ld = static_cast<std::uint64_t>(layout.ld);
  return static_cast<const T*>(x)[op == CUBLAS_OP_N ? i + j * ld : j + i * ld];
}

template <class T>
void multiply(const cublasLtMatmulDescOpaque_t& desc, T alpha, const void* a, const cublasLtMatrixLayoutOpaque_t& la,
              const void* b, const cublasLtMatrixLayoutOpaque_t& lb, T beta, const void* c, void* d,
              const cublasLtMatrixLayoutOpaque_t& ld) {
  const std::uint64_t inner = cols_of(la, desc.transa);
  for (std::uint64_t j = 0; j < ld.cols; ++j) {
    for (std::uint64_t i = 0; i < ld.rows; ++i) {
      T sum = 0;
      for (std::uint64_t k = 0; k < inner; ++k)
        sum += element<T>(a, la, desc.transa, i, k) * element<T>(b, lb, desc.transb, k, j);
      sum *= alpha;
      if (beta != 0) sum += beta * element<T>(c, ld, CUBLAS_OP_N, i, j);
      if (desc.epilogue == CUBLASLT_EPILOGUE_BIAS) sum += static_cast<const T*>(desc.bias)[i];
      static_cast<T*>(d)[i + j * static_cast<std::uint64_t>(ld.ld)] = sum;
    }
  }
}

}  // namespace

cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
  *handle = nullptr;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtDestroy(cublasLtHandle_t) { return CUBLAS_STATUS_SUCCESS; }
const char* cublasLtGetStatusString(cublasStatus_t status) {
  return status == CUBLAS_STATUS_NOT_SUPPORTED ? "CUBLAS_STATUS_NOT_SUPPORTED" : "CUBLAS_STATUS_INVALID_VALUE";
}

cublasStatus_t cublasLtMatmulDescInit_internal(cublasLtMatmulDesc_t desc, std::size_t, cublasComputeType_t compute,
                                               cudaDataType scale) {
  *desc = {compute, scale, CUBLAS_OP_N, CUBLAS_OP_N, CUBLASLT_EPILOGUE_DEFAULT, nullptr};
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t desc, cublasLtMatmulDescAttributes_t which,
                                              const void* value, std::size_t size) {
  if (which == CUBLASLT_MATMUL_DESC_TRANSA) set(desc->transa, value, size);
  if (which == CUBLASLT_MATMUL_DESC_TRANSB) set(desc->transb, value, size);
  if (which == CUBLASLT_MATMUL_DESC_EPILOGUE) set(desc->epilogue, value, size);
  if (which == CUBLASLT_MATMUL_DESC_BIAS_POINTER) set(desc->bias, value, size);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutInit_internal(cublasLtMatrixLayout_t layout, std::size_t, cudaDataType type,
                                                 std::uint64_t rows, std::uint64_t cols, std::int64_t ld) {
  if (ld < static_cast<std::int64_t>(rows)) return CUBLAS_STATUS_INVALID_VALUE;
  *layout = {type, rows, cols, ld};
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceInit_internal(cublasLtMatmulPreference_t preference, std::size_t) {
  *preference = {256};
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference,
                                                    cublasLtMatmulPreferenceAttributes_t which, const void* value,
                                                    std::size_t size) {
  if (which == CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES) set(preference->alignment, value, size);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t, cublasLtMatmulDesc_t desc, cublasLtMatrixLayout_t a,
                                              cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c,
                                              cublasLtMatrixLayout_t d, cublasLtMatmulPreference_t preference, int,
                                              cublasLtMatmulHeuristicResult_t* results, int* found) {
  const bool single = desc->compute == CUBLAS_COMPUTE_32F;
  for (const cublasLtMatrixLayout_t x : {a, b, c, d}) {
    if (x->type != (single ? CUDA_R_32F : CUDA_R_64F)) return CUBLAS_STATUS_NOT_SUPPORTED;
  }
  if (!single && desc->epilogue != CUBLASLT_EPILOGUE_DEFAULT) return CUBLAS_STATUS_NOT_SUPPORTED;
  if (rows_of(*a, desc->transa) != d->rows || cols_of(*b, desc->transb) != d->cols ||
      cols_of(*a, desc->transa) != rows_of(*b, desc->transb))
    return CUBLAS_STATUS_INVALID_VALUE;
  results[0] = {{preference->alignment}, kWorkspace};
  *found = 1;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t, cublasLtMatmulDesc_t desc, const void* alpha, const void* a,
                              cublasLtMatrixLayout_t layout_a, const void* b, cublasLtMatrixLayout_t layout_b,
                              const void* beta, const void* c, cublasLtMatrixLayout_t, void* d,
                              cublasLtMatrixLayout_t layout_d, const cublasLtMatmulAlgo_t* algorithm, void* workspace,
                              std::size_t workspace_bytes, cudaStream_t) {
  for (const void* p : {a, b, c, static_cast<const void*>(d), desc->bias}) {
    if (!starts_at(p, algorithm->alignment)) return CUBLAS_STATUS_INVALID_VALUE;
  }
  if (workspace_bytes < kWorkspace) return CUBLAS_STATUS_INVALID_VALUE;
  std::memset(workspace, 0xFF, workspace_bytes);
  if (desc->compute == CUBLAS_COMPUTE_32F) {
    multiply(*desc, *static_cast<const float*>(alpha), a, *layout_a, b, *layout_b, *static_cast<const float*>(beta), c,
             d, *layout_d);
  } else {
    multiply(*desc, *static_cast<const double*>(alpha), a, *layout_a, b, *layout_b, *static_cast<const double*>(beta),
             c, d, *layout_d);
  }
  return CUBLAS_STATUS_SUCCESS;
}

namespace nascent::cuda {

BlasFunctions load_blas() {
  return {&cublasLtCreate,
          &cublasLtDestroy,
          &cublasLtGetStatusString,
          &cublasLtMatmulDescInit_internal,
          &cublasLtMatmulDescSetAttribute,
          &cublasLtMatrixLayoutInit_internal,
          &cublasLtMatmulPreferenceInit_internal,
          &cublasLtMatmulPreferenceSetAttribute,
          &cublasLtMatmulAlgoGetHeuristic,
          &cublasLtMatmul};
}

}  // namespace nascent::cuda
