// SPDX-License-Identifier: Apache-2.0
// No layer of the networks we train may fall to a library's reference loops (up to 2000 times
// slower), in any direction.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "kernels/conv3d.hpp"
#include "kernels/cpu/conv3d_plan.hpp"
#include "kernels/cpu/onednn.hpp"
#include "tests/support/random.hpp"

namespace bora::test {
namespace {

struct Layer {
  int64_t extent, c_in, c_out, kernel;
  bool bias;
};

/// Every convolution of UNet3D with base b on a cube of `extent` cells (spec unet3d.md 1).
std::vector<Layer> unet_layers(int64_t b, int64_t extent) {
  std::vector<Layer> layers;
  const auto block = [&](int64_t e, int64_t in, int64_t out) {
    layers.push_back({e, in, out, 3, false});
    layers.push_back({e, out, out, 3, false});
    if (in != out) layers.push_back({e, in, out, 1, false});
  };
  for (int level = 0; level <= 4; ++level)
    block(extent >> level, level == 0 ? 1 : b << (level - 1), b << level);
  for (int level = 3; level >= 0; --level) {
    layers.push_back({extent >> level, b << (level + 1), b << level, 1, true});
    block(extent >> level, b << (level + 1), b << level);
  }
  layers.push_back({extent, b, 1, 1, true});
  return layers;
}

void run_all_directions(const Layer& l, DType type) {
  const kernels::Conv3dAttributes a{.padding = Dims3::all(l.kernel / 2)};
  const Shape xs{1, l.extent, l.extent, l.extent, l.c_in}, ys = xs.with(4, l.c_out);
  const Tensor x = Tensor::full(xs, 0.5, type), dy = Tensor::full(ys, 0.25, type);
  const Tensor w = Tensor::full({l.c_out, l.kernel, l.kernel, l.kernel, l.c_in}, 0.125, type);
  const Tensor b = l.bias ? Tensor::zeros({l.c_out}, type) : Tensor();
  Tensor y = Tensor::empty(ys, type), dx = Tensor::empty(xs, type),
         dw = Tensor::empty(w.shape(), DType::f32);
  kernels::conv3d_forward(x.stream(), a, x, w, b, y);
  kernels::conv3d_backward_data(x.stream(), a, dy, w, Tensor(), dx);
  kernels::conv3d_backward_weights(x.stream(), a, x, dy, kernels::GradientMode::overwrite, dw);
}

bool has_avx2() {
  constexpr int kAvx2 = static_cast<int>(dnnl::cpu_isa::avx2);
  return (static_cast<int>(dnnl::get_effective_cpu_isa()) & kAvx2) == kAvx2;
}

class Conv3dImplementations : public testing::TestWithParam<DType> {};

TEST_P(Conv3dImplementations, AreNeverReferenceLoopsInUNet3d) {
  if (!has_avx2()) GTEST_SKIP() << "this processor has no AVX2";
  // Other tests of this process may have used odd shapes.
  const std::vector<std::string> before = kernels::conv3d_implementations();
  for (int64_t base : {8, 16, 32})
    for (const Layer& layer : unet_layers(base, 32)) run_all_directions(layer, GetParam());
  // The upsampling alternative of the specification, and a strided layer.
  for (int64_t base : {8, 16, 32}) {
    const kernels::Conv3dAttributes up{.stride = Dims3::all(2)};
    const Tensor x = Tensor::zeros({1, 8, 8, 8, 2 * base}, GetParam());
    const Tensor w = Tensor::zeros({2 * base, 2, 2, 2, base}, GetParam());
    const Tensor b = Tensor::zeros({base}, GetParam());
    Tensor y = Tensor::zeros({1, 16, 16, 16, base}, GetParam()), dx = x.clone(),
           dw = Tensor::zeros(w.shape(), DType::f32);
    kernels::conv3d_backward_data(x.stream(), up, x, w, b, y);
    kernels::conv3d_forward(x.stream(), up, y, w, Tensor(), dx);
    kernels::conv3d_backward_weights(x.stream(), up, y, x, kernels::GradientMode::add, dw);
  }
  const std::vector<std::string> lines = kernels::conv3d_implementations();
  const auto n_of = [&](const std::string& direction) {
    return std::count_if(lines.begin(), lines.end(),
                         [&](const std::string& l) { return l.rfind(direction, 0) == 0; });
  };
  EXPECT_GT(n_of("forward"), 50);
  EXPECT_GT(n_of("weight gradient"), 30);
  EXPECT_GT(n_of("data gradient"), 0);  // the strided one; stride 1 runs as forward
  for (const std::string& line : lines) {
    if (std::binary_search(before.begin(), before.end(), line)) continue;
    EXPECT_EQ(std::string::npos, line.find(": ref")) << line;
    EXPECT_EQ(std::string::npos, line.find(": none")) << line;
    EXPECT_EQ(std::string::npos, line.find("simple")) << line;
  }
}

INSTANTIATE_TEST_SUITE_P(Types, Conv3dImplementations,
                         testing::Values(DType::f32, DType::bf16, DType::f16),
                         [](const testing::TestParamInfo<DType>& type) {
                           return std::string(name_of(type.param));
                         });

}  // namespace
}  // namespace bora::test
