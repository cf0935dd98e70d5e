// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/conv3d.hpp"

#include "kernels/conv3d_reference.hpp"

namespace bora::kernels::cpu {

void conv3d_forward(const Conv3dAttributes& a, const Tensor& x, const Tensor& w, const Tensor& bias,
                    Tensor& y) {
  reference::conv3d_forward(a, x, w, bias, y);
}
void conv3d_backward_data(const Conv3dAttributes& a, const Tensor& dy, const Tensor& w,
                          const Tensor& bias, Tensor& dx) {
  reference::conv3d_backward_data(a, dy, w, bias, dx);
}
void conv3d_backward_weights(const Conv3dAttributes& a, const Tensor& x, const Tensor& dy,
                             GradientMode mode, Tensor& dw) {
  reference::conv3d_backward_weights(a, x, dy, mode, dw);
}
std::vector<std::string> conv3d_implementations() { return {}; }

}  // namespace bora::kernels::cpu
