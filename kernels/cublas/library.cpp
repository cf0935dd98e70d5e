// SPDX-License-Identifier: Apache-2.0
#include "kernels/cublas/library.hpp"

#include <dlfcn.h>

#include "core/error.hpp"

namespace bora::kernels::cublas {
namespace {

template <class F>
void find(void* handle, const std::string& library, const char* symbol, F& out) {
  out = reinterpret_cast<F>(::dlsym(handle, symbol));
  BORA_CHECK(out != nullptr, "cuBLAS: '", library, "' has no function ", symbol, "; wanted cuBLAS ",
             CUBLAS_VER_MAJOR, ".", CUBLAS_VER_MINOR, " or a later one of the same major version");
}

}  // namespace

std::vector<std::string> library_names() {
  const std::string name = "libcublas.so." + std::to_string(CUBLAS_VER_MAJOR);
  return {name, BORA_CUDA_LIBRARY_DIR "/" + name};
}

Library open_library(const std::vector<std::string>& names) {
  std::string tried;
  for (const std::string& name : names) {
    // Never closed again: its threads and exit handlers would outlive it.
    void* const handle = ::dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle == nullptr) {
      const char* const reason = ::dlerror();
      tried += detail::join("\n  ", name, ": ", reason != nullptr ? reason : "unknown reason");
      continue;
    }
    Library l;
    l.name = name;
    find(handle, name, "cublasCreate_v2", l.create);
    find(handle, name, "cublasDestroy_v2", l.destroy);
    find(handle, name, "cublasGetVersion_v2", l.get_version);
    find(handle, name, "cublasSetStream_v2", l.set_stream);
    find(handle, name, "cublasSetWorkspace_v2", l.set_workspace);
    find(handle, name, "cublasSetMathMode", l.set_math_mode);
    find(handle, name, "cublasSetAtomicsMode", l.set_atomics_mode);
    find(handle, name, "cublasGemmEx_64", l.gemm_ex);
    find(handle, name, "cublasGetStatusString", l.status_string);
    return l;
  }
  BORA_FAIL("cuBLAS, which linear layers on a GPU need, cannot be opened; tried:", tried,
            "\nInstall the CUDA toolkit's cuBLAS (package libcublas-", CUBLAS_VER_MAJOR,
            "-0 of NVIDIA's repository, or the Python wheel nvidia-cublas), or put its folder on "
            "LD_LIBRARY_PATH");
}

const Library& library() {
  static const Library opened = open_library(library_names());
  return opened;
}

void check(cublasStatus_t status, const char* call) {
  BORA_CHECK(status == CUBLAS_STATUS_SUCCESS, call, ": ", library().status_string(status),
             " (cuBLAS status ", static_cast<int>(status), ")");
}

}  // namespace bora::kernels::cublas
