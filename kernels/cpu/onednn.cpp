// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/onednn.hpp"

#include <omp.h>

#include <cstdlib>

namespace bora::kernels::cpu {

namespace {
/// Before anything else of oneDNN: without AMX, whose bf16 kernels of 2.6.3 give wrong values for
/// some shapes (3x5x3 taps, 33 channels a group) on Sapphire Rapids, and faults in each step.
/// ONEDNN_MAX_CPU_ISA in the environment is left to have its way.
void choose_instructions() {
  static const bool once = [] {
    if (std::getenv("ONEDNN_MAX_CPU_ISA") == nullptr && std::getenv("DNNL_MAX_CPU_ISA") == nullptr)
      dnnl::set_max_cpu_isa(dnnl::cpu_isa::avx512_core_bf16);
    return true;
  }();
  static_cast<void>(once);
}
}  // namespace

const dnnl::engine& onednn_engine() {
  choose_instructions();
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
    choose_instructions();
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
