// SPDX-License-Identifier: Apache-2.0
// Group, instance and batch norm in stages, with a fused residual and activation:
//   moments -> (joined over ranks) -> statistics -> y = act((x - mean) rstd gamma + beta +
//   residual)
// and back: sums of dz and dz * xhat -> (joined over ranks) -> dx, dgamma, dbeta.
// All sums have an order that depends on the shape alone.
#pragma once

#include "core/tensor.hpp"
#include "kernels/fused_activation.hpp"
#include "kernels/gradient_mode.hpp"

namespace bora::kernels {

/// How a norm sees x: `samples` x `rows` x `channels`, channels last; statistics per sample and
/// group of channels / groups channels.  Batch norm: one sample, as many groups as channels.
struct NormShape {
  int64_t samples = 0, rows = 0, channels = 0, groups = 0;
  int64_t numel() const { return samples * rows * channels; }
  int64_t group_channels() const { return channels / groups; }
};

/// How a norm's input becomes the normalised z: what forward and backward have in common.
struct NormInput {
  const Tensor& x;           ///< samples * rows * channels elements
  const Tensor& statistics;  ///< of norm_statistics
  const Tensor& gamma;       ///< (channels), acc type of x
  const Tensor& beta;        ///< (channels)
  const Tensor& residual;    ///< like x, or undefined
};

/// moments (samples, 1 + 2 channels) f64: the count (= rows), then per channel the mean and the sum
/// of squared distances from it.  One read of x.  The first tile of each slab is summed twice
/// (mean, then distances), later ones once with the mean so far as shift: no cancellation whatever
/// the data, since a tile far from that mean makes the variance large itself.  Joined by Chan's
/// formula.  Source: Chan, Golub, LeVeque 1983.
void norm_moments(Stream stream, const NormShape& shape, const Tensor& x, Tensor& moments);

/// parts (n, 1 + 2 channels), one set of moments a row (of ranks; counts may differ or be 0), to
/// joined (1, 1 + 2 channels), in row order.
void norm_join_moments(Stream stream, const Tensor& parts, Tensor& joined);

/// statistics (samples, groups, 3) in the acc type of x: mean, what rounding cut off the mean, and
/// 1 / sqrt(variance + eps), variance biased; 0, 0, 1 / sqrt(eps) where the count is 0.
void norm_statistics(Stream stream, const NormShape& shape, double eps, const Tensor& moments,
                     Tensor& statistics);

/// Running statistics (channels) of batch norm to `statistics` (1, channels, 3).
void norm_running_statistics(Stream stream, double eps, const Tensor& running_mean,
                             const Tensor& running_var, Tensor& statistics);

/// running = (1 - momentum) running + momentum * (mean, unbiased variance) of moments (1, 1 + 2
/// channels); unchanged if the count is 0; the variance is left alone if the count is 1.
void norm_update_running(Stream stream, double momentum, const Tensor& moments,
                         Tensor& running_mean, Tensor& running_var);

/// y = act(z).  One read of x (and of the residual), one write.
void norm_forward(Stream stream, const NormShape& shape, const FusedActivation& activation,
                  const NormInput& in, Tensor& y);

/// Pass 1 of backward, dz = dy * act'(z).  sums (samples, 2 channels) f64: per channel the sum of
/// dz, then of dz * xhat.  If `dz` is defined (type of x) dz is stored there as well.
void norm_backward_sums(Stream stream, const NormShape& shape, const FusedActivation& activation,
                        const NormInput& in, const Tensor& dy, Tensor& sums, Tensor& dz);

/// dgamma, dbeta (channels, acc type; either may be undefined) from sums, over samples in order.
void norm_parameter_gradients(Stream stream, const NormShape& shape, const Tensor& sums,
                              Tensor& dgamma, GradientMode gamma_mode, Tensor& dbeta,
                              GradientMode beta_mode);

/// coefficients (samples, groups, 2) in acc type, dx = dz gamma rstd + (x - mean) c0 + c1, from
/// sums and the counts in column 0 of moments (samples, 1 + 2 channels).  Where the statistics do
/// not depend on x (running ones) fill them with 0 instead.
void norm_backward_coefficients(Stream stream, const NormShape& shape, const Tensor& sums,
                                const Tensor& moments, const Tensor& statistics,
                                const Tensor& gamma, Tensor& coefficients);

/// Pass 2 of backward.  Reads dz if defined (dx may be the same bytes), else dz anew from dy.
void norm_backward_apply(Stream stream, const NormShape& shape, const FusedActivation& activation,
                         const NormInput& in, const Tensor& dy, const Tensor& dz,
                         const Tensor& coefficients, Tensor& dx);

}  // namespace bora::kernels
