// SPDX-License-Identifier: Apache-2.0
// The head of a network, a 1x1x1 convolution to a few outputs, together with the loss of these
// outputs.  They are small beside the features, and nobody else wants them while training: on a
// device one kernel reads the features, computes outputs and loss in registers; backward it reads
// them again and writes the features' gradient.  Elsewhere (on the CPU, for more than 8 outputs,
// for channels that are no whole packs) it is the convolution and the loss one after the other.
//
// Outputs and their gradient are in acc_t of x on either way, never rounded to a 16-bit type.  Sums
// as in kernels/loss.hpp: f64 where parts are joined, in an order fixed by the shape.
#pragma once

#include "kernels/gradient_mode.hpp"
#include "kernels/loss.hpp"

namespace bora::kernels {

/// x (N, D, H, W, I), w (O, 1, 1, 1, I), bias (O) or undefined, of one floating type.
struct HeadInput {
  const Tensor& x;
  const Tensor& w;
  const Tensor& bias;
};

/// Gradients of a head; undefined: not wanted.  dx of x's shape and type; dw, db of w's and bias's
/// shape, of x's type or f32.
struct HeadGradients {
  Tensor dx;
  Tensor dw;
  GradientMode dw_mode = GradientMode::overwrite;
  Tensor db;
  GradientMode db_mode = GradientMode::overwrite;
};

/// data_loss_sums of conv(x, w) + bias.  target (N, D, H, W, O) of acc_t of x's type; region (N, D,
/// H, W) u8 or undefined; sums (N, 2) f64, for data_loss_value.
void head_data_loss_sums(Stream stream, const DataLossAttributes& attributes, const HeadInput& in,
                         const Tensor& target, const Tensor& region, Tensor& sums);
/// The gradients of that loss; sums as they were found, dloss (), acc type.
void head_data_loss_backward(Stream stream, const DataLossAttributes& attributes,
                             const HeadInput& in, const Tensor& target, const Tensor& region,
                             const Tensor& sums, const Tensor& dloss, HeadGradients& out);

/// class_loss_sums of conv(x, w) + bias.  labels, region (N, D, H, W) u8, region may be undefined;
/// sums (N, O, 5) f64, for class_loss_value.
void head_class_loss_sums(Stream stream, const HeadInput& in, const Tensor& labels,
                          const Tensor& region, Tensor& sums);
/// The gradients of that loss.
void head_class_loss_backward(Stream stream, const ClassLossAttributes& attributes,
                              const HeadInput& in, const Tensor& labels, const Tensor& region,
                              const Tensor& sums, const Tensor& dloss, HeadGradients& out);

}  // namespace bora::kernels
