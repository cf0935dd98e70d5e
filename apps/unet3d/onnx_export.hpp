// SPDX-License-Identifier: Apache-2.0
// The trained network as an ONNX graph (docs/exchanging-weights.md).
#pragma once

#include <string>

#include "apps/unet3d/model.hpp"
#include "apps/unet3d/onnx_writer.hpp"
#include "apps/unet3d/start_state.hpp"
#include "data/dataset.hpp"

namespace bora::unet3d {

/// What the graph's output is.
enum class OnnxUnits {
  normalised,  ///< the network's own output, in units of sigma
  physical,    ///< output * sigma + mean, and 0 where the first input channel is below 0: what
               ///< `unet3d predict` writes
};

/// The network in inference form: input (N, C, X, Y, Z) f32 and output (N, K, X, Y, Z) f32 with
/// N, X, Y, Z known when it runs (each extent at least min_extent()), weights under their names in
/// PyTorch, in operators of set kOnnxOpset.  Dropout, recompute and the other matters of training
/// are not in it.  `scaling` is that of the outputs; only OnnxUnits::physical uses it.
/// Weights on a device are copied to the host.  Throws Error if a parameter has no memory.
onnx::Model onnx_model(UNet3d& model, OnnxUnits units = OnnxUnits::normalised,
                       const data::Scaling& scaling = {});

/// Writes into the model what its input and output are, and where it comes from: doc strings for
/// people, and for programs the texts of the safetensors file (without names of cases) and
/// "bora.input.<channel>", "bora.output", "bora.checkpoint".
void describe(onnx::Model& model, const StartState& state, OnnxUnits units);

/// Of 2024 (onnx 1.16, onnxruntime 1.18).  None of the operators used here works otherwise in a
/// newer set, and programs that read newer sets read this one.
inline constexpr int64_t kOnnxOpset = 21;

}  // namespace bora::unet3d
