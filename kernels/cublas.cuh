// The functions of cuBLASLt in use, through pointers: the library is loaded when the first product is prepared. Linked,
// its 500 MB would cost every start of the program 0.1 s, and no machine without it could run the program at all.
#pragma once

#include <cublasLt.h>

namespace nascent::cuda {

struct BlasFunctions {
  decltype(&cublasLtCreate) create;
  decltype(&cublasLtDestroy) destroy;
  decltype(&cublasLtGetStatusString) status_string;
  decltype(&cublasLtMatmulDescInit_internal) init_desc;
  decltype(&cublasLtMatmulDescSetAttribute) set_desc;
  decltype(&cublasLtMatrixLayoutInit_internal) init_layout;
  decltype(&cublasLtMatmulPreferenceInit_internal) init_preference;
  decltype(&cublasLtMatmulPreferenceSetAttribute) set_preference;
  decltype(&cublasLtMatmulAlgoGetHeuristic) heuristic;
  decltype(&cublasLtMatmul) matmul;
};

BlasFunctions load_blas();  // throws (machine) where the library is missing or lacks one of them

// A handle of the library.
class Blas {
 public:
  Blas();
  ~Blas() { functions.destroy(handle); }
  Blas(const Blas&) = delete;
  Blas& operator=(const Blas&) = delete;

  void check(cublasStatus_t status, const char* call, const char* file, int line) const;

  const BlasFunctions functions = load_blas();
  cublasLtHandle_t handle = nullptr;
};

}  // namespace nascent::cuda
