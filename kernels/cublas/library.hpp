// SPDX-License-Identifier: Apache-2.0
// cuBLAS as a table of functions, opened on first use: linked in, it would cost every process 0.46
// s and 220 MB, also those that never multiply matrices on a GPU.
#pragma once

#include <cublas_v2.h>

#include <string>
#include <vector>

namespace bora::kernels::cublas {

/// The functions we call, under their own names.
struct Library {
  decltype(&cublasCreate_v2) create = nullptr;
  decltype(&cublasDestroy_v2) destroy = nullptr;
  decltype(&cublasGetVersion_v2) get_version = nullptr;
  decltype(&cublasSetStream_v2) set_stream = nullptr;
  decltype(&cublasSetWorkspace_v2) set_workspace = nullptr;
  decltype(&cublasSetMathMode) set_math_mode = nullptr;
  decltype(&cublasSetAtomicsMode) set_atomics_mode = nullptr;
  decltype(&cublasGemmEx_64) gemm_ex = nullptr;
  decltype(&cublasGetStatusString) status_string = nullptr;
  std::string name;  ///< that it was found under
};

/// What is looked for, in this order: by the loader's own rules (LD_LIBRARY_PATH, the system's
/// cache), then in the folder of the toolkit this was built with.
std::vector<std::string> library_names();

/// Opens the first of `names` that can be opened and stays open.  Throws Error naming all of them,
/// what the loader said, and the package to install; or the function that a library lacks.
Library open_library(const std::vector<std::string>& names);

/// The process's cuBLAS, opened by the first call (thread-safe; a failure is tried again).
const Library& library();

/// Throws Error with cuBLAS's text unless `status` is success.
void check(cublasStatus_t status, const char* call);

}  // namespace bora::kernels::cublas
