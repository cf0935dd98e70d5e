// SPDX-License-Identifier: Apache-2.0
// Our weights (O, kD, kH, kW, I/groups) into the blocked layout a primitive wants, and back.
#pragma once

#include <vector>

#include "core/tensor.hpp"
#include "kernels/gradient_mode.hpp"

#include <oneapi/dnnl/dnnl.hpp>

namespace bora::kernels::cpu {

/// Where element (g, o, k, i) of weights lies: g_[g] + o_[o] + k_[k] + i_[i], k counting taps.
/// True of every blocked layout, since each axis has digits of its own.
struct WeightLayout {
  std::vector<int64_t> g, o, i, k;
  int64_t elements = 0;
  bool padded = false;  ///< the buffer has cells beyond the weights, which must be zero

  /// From oneDNN's description of 5 (O, I, kD, kH, kW) or 6 axes (groups first); throws Error if it
  /// is not a plain blocked one.
  static WeightLayout of(const dnnl::memory::desc& desc);
};

/// Extents of our weights: groups x out x taps x in, dense in this order; out and in per group.
struct WeightExtents {
  int64_t groups, out, taps, in;
};

enum class WeightUse {
  forward,
  flipped  ///< as the weights of the convolution that is the data gradient: out and in exchanged,
           ///< taps reversed
};

/// out (layout.elements) = w in `layout`, which for `flipped` describes the exchanged weights.
/// bytes: size of an element (2 or 4).
void pack_weights(const WeightLayout& layout, const WeightExtents& e, WeightUse use, const void* w,
                  int64_t element_bytes, void* out);

/// One partial weight gradient in a primitive's layout.
struct PartialGradient {
  const float* values;
  const WeightLayout* layout;
};
/// dw = (or +=) sum of the parts, in their order; dw dense, channels [out_begin, out_begin + e.out)
/// of each group's are the caller's business: dw points at the first.
void join_gradients(const std::vector<PartialGradient>& parts, const WeightExtents& e,
                    GradientMode mode, float* dw);

}  // namespace bora::kernels::cpu
