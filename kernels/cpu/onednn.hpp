// SPDX-License-Identifier: Apache-2.0
// oneDNN (2.x, primitive descriptors): engine, stream, memory from our tensors, errors into ours.
#pragma once

#include "core/tensor.hpp"

#include <oneapi/dnnl/dnnl.hpp>

#include <string>

namespace bora::kernels::cpu {

/// The CPU engine of the process.
const dnnl::engine& onednn_engine();
/// The calling thread's stream.
dnnl::stream& onednn_stream();

dnnl::memory::data_type onednn_type(DType type);

/// Does this machine compute bf16 convolutions natively (avx512_core_bf16)?  oneDNN 2.6 emulates
/// them on older AVX-512 parts and has none below.
bool onednn_has_bf16();

/// oneDNN sizes a primitive for the calling thread's OpenMP limit, when it is made and again when
/// it runs.  While this lives the limit is 1: such primitives are the pieces that our own loop
/// spreads over threads.
class SingleThreadScope {
 public:
  SingleThreadScope();
  ~SingleThreadScope();
  SingleThreadScope(const SingleThreadScope&) = delete;
  SingleThreadScope& operator=(const SingleThreadScope&) = delete;

 private:
  int previous_;
};

[[noreturn]] void throw_onednn(const dnnl::error& e, const std::string& what);

/// Runs f() and turns oneDNN's exceptions into Error: "oneDNN: <message> (<status>) in <what()>".
template <class F, class What>
decltype(auto) with_onednn(F&& f, What&& what) {
  try {
    return f();
  } catch (const dnnl::error& e) {
    throw_onednn(e, what());
  }
}

}  // namespace bora::kernels::cpu
