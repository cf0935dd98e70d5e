// SPDX-License-Identifier: Apache-2.0
// gemm() on the emulated device: the loop that cuBLAS's documentation defines, column-major, on the
// same memory.
#include "core/convert.hpp"
#include "kernels/cublas/gemm_call.hpp"
#include "kernels/portable.hpp"
#include "kernels/simt/emulator.hpp"

namespace bora::kernels::cuda {
namespace {

template <class T, class R>
void run(const GemmCall& g) {
  using A = acc_t<T>;
  const T* const a = static_cast<const T*>(g.a);
  const T* const b = static_cast<const T*>(g.b);
  R* const c = static_cast<R*>(g.c);
  for (int64_t j = 0; j < g.n; ++j)
    for (int64_t i = 0; i < g.m; ++i) {
      A sum = 0;
      for (int64_t l = 0; l < g.k; ++l)
        sum += load(g.transpose_a ? a[l + i * g.lda] : a[i + l * g.lda]) *
               load(g.transpose_b ? b[j + l * g.ldb] : b[l + j * g.ldb]);
      R& out = c[i + j * g.ldc];
      if (g.beta != 0) sum += static_cast<A>(g.beta) * static_cast<A>(load(out));
      out = static_cast<R>(sum);
    }
}

}  // namespace

void gemm(Stream stream, const GemmCall& call) {
  simt::issue_library_work("matrix product", stream, [call] {
    dispatch_float(call.type, "matrix product", [&]<class T>() {
      if (call.result_type == call.type) return run<T, T>(call);
      BORA_CHECK(call.result_type == DType::f32, "matrix product: result is ", call.result_type,
                 " for ", call.type, ", wanted that or f32");
      run<T, float>(call);
    });
  });
}

}  // namespace bora::kernels::cuda
