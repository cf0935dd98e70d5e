// SPDX-License-Identifier: Apache-2.0
// Tensors that are too large for an engine, cut: into groups of samples, and single samples into
// slabs along D with the planes that both sides of a cut see (the halo).  Slabs of one sample are
// contiguous, so nothing is copied.  The cuts are those of kernels/cpu/conv3d_pieces.hpp.
#pragma once

#include "kernels/cudnn/problem.hpp"

namespace bora::kernels::cudnn {

/// What computes one piece.  Padding of the attributes is that before the input; behind it is what
/// the shapes make of it.  Tensors are not empty.
class ConvEngine {
 public:
  virtual ~ConvEngine() = default;
  /// y = conv(x, w) + bias; bias may be undefined.
  virtual void forward(Stream stream, const Conv3dAttributes& a, const Tensor& x, const Tensor& w,
                       const Tensor& bias, Tensor& y) = 0;
  /// dx = adjoint of conv applied to dy.
  virtual void backward_data(Stream stream, const Conv3dAttributes& a, const Tensor& dy,
                             const Tensor& w, Tensor& dx) = 0;
  /// dw = (or +=) the weight gradient; dw has the type of x or f32.
  virtual void backward_weights(Stream stream, const Conv3dAttributes& a, const Tensor& x,
                                const Tensor& dy, GradientMode mode, Tensor& dw) = 0;
  /// y += bias over the last axis.
  virtual void add_bias(Stream stream, const Tensor& bias, Tensor& y) = 0;
};

/// cuDNN's engines count elements with 32 bits; beyond this only a slow one is left.
inline constexpr int64_t kEngineElements = (int64_t{1} << 31) - 1;

/// The three passes by `engine` on pieces whose tensors have at most `limit` elements.  Empty
/// tensors are dealt with here.  Weight gradients of several pieces are summed in f32, in order.
/// Throws Error if one plane exceeds the limit.
void run_forward(ConvEngine& engine, Stream stream, const Conv3dAttributes& a, const Tensor& x,
                 const Tensor& w, const Tensor& bias, Tensor& y, int64_t limit = kEngineElements);
void run_backward_data(ConvEngine& engine, Stream stream, const Conv3dAttributes& a,
                       const Tensor& dy, const Tensor& w, const Tensor& bias, Tensor& dx,
                       int64_t limit = kEngineElements);
void run_backward_weights(ConvEngine& engine, Stream stream, const Conv3dAttributes& a,
                          const Tensor& x, const Tensor& dy, GradientMode mode, Tensor& dw,
                          int64_t limit = kEngineElements);

}  // namespace bora::kernels::cudnn
