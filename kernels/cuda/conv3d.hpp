// SPDX-License-Identifier: Apache-2.0
// Convolution on CUDA: the functions of kernels/conv3d.hpp, after its checks.  In a CUDA build they
// are cuDNN's (kernels/cudnn/), in a build for the emulator those of the CPU on the same memory
// (kernels/simt/).
#pragma once

#include <string>
#include <vector>

#include "kernels/conv3d.hpp"

namespace bora::kernels::cuda {

/// As kernels::conv3d_forward; tensors on `stream`'s device.  Work is issued to `stream`, the host
/// does not wait.  Throws Error if the library has no kernel for the problem, or for f64 in a CUDA
/// build.
void conv3d_forward(Stream stream, const Conv3dAttributes& a, const Tensor& x, const Tensor& w,
                    const Tensor& bias, Tensor& y);
/// As kernels::conv3d_backward_data; see conv3d_forward.
void conv3d_backward_data(Stream stream, const Conv3dAttributes& a, const Tensor& dy,
                          const Tensor& w, const Tensor& bias, Tensor& dx);
/// As kernels::conv3d_backward_weights; see conv3d_forward.
void conv3d_backward_weights(Stream stream, const Conv3dAttributes& a, const Tensor& x,
                             const Tensor& dy, GradientMode mode, Tensor& dw);

/// "cuDNN 9.19.0", or what stands for it.
std::string conv3d_library();
/// The kernels that convolutions on CUDA have used so far, one line each.
std::vector<std::string> conv3d_implementations();

}  // namespace bora::kernels::cuda
