// SPDX-License-Identifier: Apache-2.0
// kernels/cuda/conv3d.hpp in a build for the emulator: the CPU's kernels on the device's memory,
// f64 by the reference.  What cuDNN does is not emulated; its graphs are tested in tests/cudnn.
#include "kernels/conv3d_reference.hpp"
#include "kernels/cpu/conv3d.hpp"
#include "kernels/cuda/conv3d.hpp"
#include "kernels/simt/emulator.hpp"

namespace bora::kernels::cuda {
namespace {

/// The same bytes as a CPU tensor.
Tensor on_host(const Tensor& t) {
  if (!t.defined()) return {};
  return Tensor::wrap(const_cast<void*>(t.raw()), t.shape(), t.dtype());
}

}  // namespace

void conv3d_forward(Stream stream, const Conv3dAttributes& a, const Tensor& x, const Tensor& w,
                    const Tensor& bias, Tensor& y) {
  simt::issue_library_work(
      "conv3d forward", stream,
      [=, x = on_host(x), w = on_host(w), bias = on_host(bias), y = on_host(y)]() mutable {
        if (x.dtype() == DType::f64) return reference::conv3d_forward(a, x, w, bias, y);
        cpu::conv3d_forward(a, x, w, bias, y);
      });
}

void conv3d_backward_data(Stream stream, const Conv3dAttributes& a, const Tensor& dy,
                          const Tensor& w, const Tensor& bias, Tensor& dx) {
  simt::issue_library_work(
      "conv3d data gradient", stream,
      [=, dy = on_host(dy), w = on_host(w), bias = on_host(bias), dx = on_host(dx)]() mutable {
        if (dy.dtype() == DType::f64) return reference::conv3d_backward_data(a, dy, w, bias, dx);
        cpu::conv3d_backward_data(a, dy, w, bias, dx);
      });
}

void conv3d_backward_weights(Stream stream, const Conv3dAttributes& a, const Tensor& x,
                             const Tensor& dy, GradientMode mode, Tensor& dw) {
  simt::issue_library_work("conv3d weight gradient", stream,
                           [=, x = on_host(x), dy = on_host(dy), dw = on_host(dw)]() mutable {
                             if (x.dtype() == DType::f64)
                               return reference::conv3d_backward_weights(a, x, dy, mode, dw);
                             cpu::conv3d_backward_weights(a, x, dy, mode, dw);
                           });
}

std::string conv3d_library() { return "the emulator, by " + cpu::conv3d_library(); }
std::vector<std::string> conv3d_implementations() { return cpu::conv3d_implementations(); }

}  // namespace bora::kernels::cuda
