#include <dlfcn.h>

#include "kernels/cublas.cuh"
#include "kernels/device.h"

#define TEXT_OF(x) TEXT(x)
#define TEXT(x) #x

namespace nascent::cuda {
namespace {

constexpr const char* kLibrary = "libcublasLt.so." TEXT_OF(CUBLAS_VER_MAJOR);

template <class Function>
void find(Function& function, void* library, const char* name) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  if (!function) throw_device_error(kLibrary, dlerror(), __FILE__, __LINE__);
}

}  // namespace

BlasFunctions load_blas() {
  void* library = dlopen(kLibrary, RTLD_NOW);  // stays loaded until the program ends
  if (!library) throw_device_error(kLibrary, dlerror(), __FILE__, __LINE__);
  BlasFunctions f{};
  find(f.create, library, "cublasLtCreate");
  find(f.destroy, library, "cublasLtDestroy");
  find(f.status_string, library, "cublasLtGetStatusString");
  find(f.init_desc, library, "cublasLtMatmulDescInit_internal");
  find(f.set_desc, library, "cublasLtMatmulDescSetAttribute");
  find(f.init_layout, library, "cublasLtMatrixLayoutInit_internal");
  find(f.init_preference, library, "cublasLtMatmulPreferenceInit_internal");
  find(f.set_preference, library, "cublasLtMatmulPreferenceSetAttribute");
  find(f.heuristic, library, "cublasLtMatmulAlgoGetHeuristic");
  find(f.matmul, library, "cublasLtMatmul");
  return f;
}

}  // namespace nascent::cuda
