// SPDX-License-Identifier: Apache-2.0
// The convolutions that networks compute in a training step, heard from the real networks.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "kernels/conv3d.hpp"

namespace bora::test {

/// A network, and the step that it is to be trained with.
struct NetworkCase {
  std::string name;
  int64_t in_channels = 1;
  Dims3 extent;
  int64_t batch = 1;
  /// Forward and backward of the network for an input of this shape.
  std::function<void(const Shape& input)> step;
};

/// The convolutions of one step of `c`: the network is run on the CPU with one sample and a small
/// volume, and the shapes heard are enlarged to c.extent and c.batch.  The extents must be
/// multiples of 2^levels, so that all levels grow alike.  Calls that differ in nothing are listed
/// once.
std::vector<kernels::Conv3dCall> convolutions_of(const NetworkCase& c, int levels);

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
