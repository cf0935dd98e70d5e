// SPDX-License-Identifier: Apache-2.0
#include "comm/half_staging.hpp"

#include "core/convert.hpp"

#include <algorithm>
#include <array>
#include <bit>

namespace bora {
namespace {

constexpr int64_t kBlock = 1024;  // floats that stay in the first-level cache

/// Calls f with a T* of the elements, T = Half or BFloat16.
template <class F>
void dispatch_half(Tensor& t, F&& f) {
  if (t.dtype() == DType::f16) return f(t.data<Half>());
  f(t.data<BFloat16>());
}

}  // namespace

HalfStaging::HalfStaging(const FlatLayout& layout, DType type, int n_ranks,
                         const MemorySource& memory)
    : n_ranks_(n_ranks),
      divisor_(static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(std::max(n_ranks, 1))))) {
  BORA_CHECK(type == DType::f16 || type == DType::bf16, "HalfStaging: type ", type,
             ", wanted f16 or bf16");
  BORA_CHECK(n_ranks > 0, "HalfStaging: ", n_ranks, " ranks");
  buffer_ = FlatBuffer::make(layout, type, cpu(), memory);
}

Tensor HalfStaging::pack(const Tensor& gradients, int64_t begin, int64_t end) {
  BORA_CHECK(gradients.dtype() == DType::f32 && gradients.numel() == end - begin,
             "HalfStaging::pack: given ", gradients.numel(), " ", gradients.dtype(), ", wanted ",
             end - begin, " f32");
  Tensor out = buffer_.slice(begin, end);
  const float* from = gradients.data<float>();
  const float factor = 1.0f / static_cast<float>(divisor_);
  dispatch_half(out, [&](auto* to) {
    std::array<float, kBlock> scaled;
    for (int64_t i = 0; i < out.numel(); i += kBlock) {
      const int64_t n = std::min(kBlock, out.numel() - i);
      for (int64_t k = 0; k < n; ++k) scaled[static_cast<size_t>(k)] = factor * from[i + k];
      narrow_run(scaled.data(), n, to + i);
    }
  });
  return out;
}

void HalfStaging::unpack(Tensor& gradients, int64_t begin, int64_t end, ReduceOp op) const {
  BORA_CHECK(gradients.dtype() == DType::f32 && gradients.numel() == end - begin,
             "HalfStaging::unpack: given ", gradients.numel(), " ", gradients.dtype(), ", wanted ",
             end - begin, " f32");
  BORA_CHECK(op == ReduceOp::sum || op == ReduceOp::mean, "HalfStaging::unpack: ", name_of(op));
  Tensor summed = buffer_.slice(begin, end);
  float* to = gradients.data<float>();
  const float factor =
      static_cast<float>(divisor_) / static_cast<float>(op == ReduceOp::mean ? n_ranks_ : 1);
  dispatch_half(summed, [&](auto* from) {
    for (int64_t i = 0; i < summed.numel(); i += kBlock) {
      const int64_t n = std::min(kBlock, summed.numel() - i);
      widen_run(from + i, n, to + i);
      for (int64_t k = 0; k < n; ++k) to[i + k] *= factor;
    }
  });
}

}  // namespace bora
