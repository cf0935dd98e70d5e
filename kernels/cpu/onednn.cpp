// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/onednn.hpp"

#include <omp.h>

namespace bora::kernels::cpu {

const dnnl::engine& onednn_engine() {
  // Never destroyed: primitives in other static caches may outlive any static destructor.
  static const auto* engine = new dnnl::engine(dnnl::engine::kind::cpu, 0);
  return *engine;
}

dnnl::stream& onednn_stream() {
  thread_local dnnl::stream stream(onednn_engine());
  return stream;
}

dnnl::memory::data_type onednn_type(DType type) {
  switch (type) {
    case DType::f32:
      return dnnl::memory::data_type::f32;
    case DType::bf16:
      return dnnl::memory::data_type::bf16;
    default:
      BORA_FAIL("oneDNN: no kernels for ", type, " here, wanted f32 or bf16");
  }
}

bool onednn_has_bf16() {
  // The values are sets of features as bits.
  static const bool has = [] {
    constexpr int kBf16 = static_cast<int>(dnnl::cpu_isa::avx512_core_bf16);
    return (static_cast<int>(dnnl::get_effective_cpu_isa()) & kBf16) == kBf16;
  }();
  return has;
}

SingleThreadScope::SingleThreadScope() : previous_(omp_get_max_threads()) {
  omp_set_num_threads(1);
}
SingleThreadScope::~SingleThreadScope() { omp_set_num_threads(previous_); }

void throw_onednn(const dnnl::error& e, const std::string& what) {
  BORA_FAIL("oneDNN: ", e.what(), " (status ", static_cast<int>(e.status), ") in ", what);
}

}  // namespace bora::kernels::cpu
