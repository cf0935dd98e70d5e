// SPDX-License-Identifier: Apache-2.0
// The element functions of kernels/cuda, as tasks of the double's streams.
#include "kernels/cuda/elements.hpp"

#include "core/backend.hpp"
#include "tests/nccl_double/cuda_double.hpp"

namespace bora::kernels::cuda {
namespace {

Backend& host() { return backend(DeviceType::cpu); }
CUstream_st& queue(Stream s) { return nccl_double::stream_of(static_cast<cudaStream_t>(s.native)); }

}  // namespace

void fill_elements(Stream s, void* dst, DType type, double value, int64_t n) {
  queue(s).enqueue([=] { host().fill({}, dst, type, value, n); });
}
void cast_elements(Stream s, void* dst, DType dst_type, const void* src, DType type, int64_t n) {
  queue(s).enqueue([=] { host().cast({}, dst, dst_type, src, type, n); });
}
void accumulate_elements(Stream s, void* dst, DType dst_type, const void* src, DType type,
                         int64_t n) {
  queue(s).enqueue([=] { host().accumulate({}, dst, dst_type, src, type, n); });
}

}  // namespace bora::kernels::cuda
