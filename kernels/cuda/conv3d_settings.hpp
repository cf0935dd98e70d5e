// SPDX-License-Identifier: Apache-2.0
// What a user may set about convolutions on CUDA, and the plan file: which engine computes which
// convolution, so that a resumed run, and all ranks, use the same ones and get the same bits.
// Exists in every build; without cuDNN nothing reads it.
#pragma once

#include <cstdint>
#include <string>

namespace bora::kernels::cuda {

struct Conv3dSettings {
  /// f32 convolutions may round their operands to TF32 (10 bits of mantissa) and use tensor cores.
  bool tf32 = false;
  /// Only engines that give the same bits in each run.
  bool deterministic = true;
  /// Bytes of scratch that an engine may ask for.
  int64_t workspace_limit = int64_t{256} << 20;
  /// Time the first engines on the device instead of believing cuDNN's first suggestion.
  bool tune = false;
  /// Run each chosen engine once on random data and compare sampled results with an own kernel.
  bool qualify = true;
};

/// Affects convolutions met afterwards, by any thread.  Throws Error if the limit is negative.
void set_conv3d_settings(const Conv3dSettings& settings);
Conv3dSettings conv3d_settings();

/// Whether f32 convolutions may use TF32: some 8 times the speed at an error of f16's size.  Off
/// unless set: f32 means f32.
void set_tf32(bool allowed);
bool tf32();

/// All choices made or loaded so far as JSON text, to be put beside a checkpoint or sent to the
/// other ranks.
std::string plan_file_text();
/// Takes over the choices of a text that plan_file_text() made.  They replace those made so far and
/// hold for the device and the library version that they were made with; on another one a warning
/// is logged when first met, and choices are made afresh.  Throws Error naming what is wrong if the
/// text is damaged; nothing is taken over then.
void load_plan_file_text(const std::string& text);

}  // namespace bora::kernels::cuda
