// SPDX-License-Identifier: Apache-2.0
// Weights under the names and in the layouts of the equivalent PyTorch module
// (docs/exchanging-weights.md).
//
//   here                                        in PyTorch
//   conv weight             (O, kD, kH, kW, I)  (O, I, kD, kH, kW)
//   transposed conv weight  (I, kD, kH, kW, O)  (I, O, kD, kH, kW)
//   norm gamma, beta        (C)                 weight, bias
//   everything else         the same
//
// Heads that only training uses (UNet3d::is_deep_head) stay here: neither written nor wanted.
#pragma once

#include <string>
#include <vector>

#include "data/safetensors.hpp"
#include "nn/module.hpp"

namespace bora::unet3d {

/// All parameters and buffers of a module that has memory, on the CPU, in forward order.
std::vector<data::NamedTensor> torch_tensors(nn::Module& module);

/// What a load had to change on the way: one sentence each, for the log.
using LoadNotes = std::vector<std::string>;

/// Loads what torch_tensors() writes, or PyTorch's state_dict() of the same network.  Prefixes that
/// wrappers put in front of all names ("module.", "_orig_mod.") are taken off, and PyTorch's
/// num_batches_tracked is not wanted; other floating types are converted to the parameter's.
/// Throws Error naming the file, with the lists of missing, unexpected and mismatching tensors if
/// there are any, or the tensors that have NaN or infinity in them; the module is then unchanged.
LoadNotes load_torch_tensors(const data::SafetensorsReader& file, nn::Module& module);

}  // namespace bora::unet3d
