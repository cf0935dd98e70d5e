// SPDX-License-Identifier: Apache-2.0
// The convolutions that networks compute in a training step, heard from the real networks.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "kernels/conv3d.hpp"

namespace bora::test {

/// Input volumes that a network is trained on.
struct StepSize {
  Dims3 extent;
  int64_t batch = 1;
};

/// The convolutions of a training step at each of `sizes`, heard while `step` (forward and backward
/// for an input of the shape it is given) runs once on the CPU with one sample of 2^levels cells
/// along each axis; the shapes heard are then enlarged.  The extents must be multiples of 2^levels,
/// so that all levels grow alike.  Calls that differ in nothing are listed once.
std::vector<std::vector<kernels::Conv3dCall>> convolutions_of(
    const std::function<void(const Shape& input)>& step, int64_t in_channels, int levels,
    const std::vector<StepSize>& sizes);

/// The trainer's networks: bases 8, 16 and 32, both ways up, group and instance norm, one input
/// channel and three; the shapes of the shipped wind cases (32x64x64), 64^3 and 128^3.
std::vector<std::vector<kernels::Conv3dCall>> trainer_networks();
/// Those of configs/*.toml, with the shape of the shipped wind cases where they name none.
std::vector<std::vector<kernels::Conv3dCall>> config_networks();
/// The usual U-Net of bench_step, all with bias, 64^3.
std::vector<std::vector<kernels::Conv3dCall>> plain_networks();
/// The network of MLPerf's 3-D U-Net: 32 to 320 channels, 128^3 down to 4^3 by strides, transposed
/// convolutions up, three classes; batches of 2 and 7.
std::vector<std::vector<kernels::Conv3dCall>> mlperf_networks();

}  // namespace bora::test
