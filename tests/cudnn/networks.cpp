// SPDX-License-Identifier: Apache-2.0
#include "tests/cudnn/networks.hpp"

#include <algorithm>
#include <filesystem>
#include <memory>

#include "apps/bench/plain_unet.hpp"
#include "apps/unet3d/config.hpp"
#include "core/precision.hpp"
#include "core/tape.hpp"
#include "nn/ops.hpp"
#include "nn/parameter_arena.hpp"

namespace bora::test {
namespace {

using kernels::Conv3dCall;

constexpr Dims3 kWindExtent{32, 64, 64};  // z, y, x of the shipped cases

bool same(const Conv3dCall& a, const Conv3dCall& b) {
  return a.pass == b.pass && a.x == b.x && a.w == b.w && a.y == b.y && a.bias == b.bias &&
         a.attributes.stride == b.attributes.stride &&
         a.attributes.padding == b.attributes.padding &&
         a.attributes.dilation == b.attributes.dilation &&
         a.attributes.groups == b.attributes.groups;
}

/// Forward and backward in f16, without weights worth the name: only shapes matter.
template <class Network>
void train_step(Network& net, const Shape& input) {
  const PrecisionScope precision(DType::f16);
  nn::ParameterArena arena(net, DType::f32, DType::f16);
  arena.values().all().fill(0.0);
  arena.refresh_working();
  const Tensor y = net.forward(Tensor::zeros(input, DType::f32));
  backward(y, Tensor::zeros(y.shape(), y.dtype()));
}

std::function<void(const Shape&)> trainer_step(const unet3d::ModelConfig& model,
                                               int64_t in_channels) {
  return [model, in_channels](const Shape& input) {
    unet3d::UNet3d net(in_channels, 1, model);
    train_step(net, input);
  };
}

nn::Conv3d strided(int64_t in, int64_t out, int64_t stride) {
  return {in, out, Dims3::all(3), nn::Bias::no,
          nn::Conv3dOptions{.stride = Dims3::all(stride), .padding = Dims3::all(1)}};
}

/// conv - ReLU - conv - ReLU; norms are no convolutions and are left out.
class Pair final : public nn::Module {
 public:
  Pair(int64_t in, int64_t out, int64_t stride)
      : first_(strided(in, out, stride)), second_(strided(out, out, 1)) {}
  Tensor forward(const Tensor& x) const {
    return nn::relu(second_.forward(nn::relu(first_.forward(x))));
  }
  void visit(nn::Visitor& v) override {
    v.child("first", first_);
    v.child("second", second_);
  }

 private:
  nn::Conv3d first_, second_;
};

/// The convolutions of MLPerf's 3-D U-Net.
class MlperfUnet final : public nn::Module {
 public:
  MlperfUnet() : head_(32, 3, Dims3::all(1), nn::Bias::yes) {
    const std::vector<int64_t> width{32, 64, 128, 256, 320, 320};
    int64_t in = 1;
    for (size_t level = 0; level < width.size(); ++level) {
      down_.push_back(std::make_unique<Pair>(in, width[level], level == 0 ? 1 : 2));
      in = width[level];
    }
    for (size_t level = 0; level + 1 < width.size(); ++level) {
      up_.push_back(std::make_unique<nn::ConvTranspose3d>(
          width[level + 1], width[level], Dims3::all(2), nn::Bias::yes,
          nn::Conv3dOptions{.stride = Dims3::all(2)}));
      merge_.push_back(std::make_unique<Pair>(2 * width[level], width[level], 1));
    }
  }
  Tensor forward(const Tensor& x) const {
    std::vector<Tensor> skips;
    Tensor h = x;
    for (const auto& pair : down_) skips.push_back(h = pair->forward(h));
    for (size_t level = up_.size(); level-- > 0;)
      h = merge_[level]->forward(nn::concat({skips[level], up_[level]->forward(h)}));
    return head_.forward(h);
  }
  void visit(nn::Visitor& v) override {
    for (size_t i = 0; i < down_.size(); ++i) v.child("down" + std::to_string(i), *down_[i]);
    for (size_t i = 0; i < up_.size(); ++i) {
      v.child("up" + std::to_string(i), *up_[i]);
      v.child("merge" + std::to_string(i), *merge_[i]);
    }
    v.child("head", head_);
  }

 private:
  std::vector<std::unique_ptr<Pair>> down_, merge_;
  std::vector<std::unique_ptr<nn::ConvTranspose3d>> up_;
  nn::Conv3d head_;
};

}  // namespace

std::vector<std::vector<Conv3dCall>> convolutions_of(
    const std::function<void(const Shape& input)>& step, int64_t in_channels, int levels,
    const std::vector<StepSize>& sizes) {
  const int64_t least = int64_t{1} << levels;
  std::vector<Conv3dCall> heard;
  {
    const kernels::Conv3dListener listener([&](const Conv3dCall& call) {
      const auto equal = [&](const Conv3dCall& other) { return same(call, other); };
      if (std::none_of(heard.begin(), heard.end(), equal)) heard.push_back(call);
    });
    step({1, least, least, least, in_channels});
  }
  std::vector<std::vector<Conv3dCall>> all;
  for (const StepSize& size : sizes) {
    for (int i = 0; i < 3; ++i)
      BORA_CHECK(size.extent[i] % least == 0, "convolutions_of: extent ", size.extent,
                 ", wanted multiples of ", least);
    const auto enlarge = [&](Shape& s) {
      s = {s[0] * size.batch, s[1] * (size.extent.d / least), s[2] * (size.extent.h / least),
           s[3] * (size.extent.w / least), s[4]};
    };
    all.push_back(heard);
    for (Conv3dCall& call : all.back()) {
      enlarge(call.x);
      enlarge(call.y);
    }
  }
  return all;
}

std::vector<std::vector<Conv3dCall>> trainer_networks() {
  const std::vector<StepSize> sizes{{kWindExtent, 2}, {Dims3::all(64), 2}, {Dims3::all(128), 1}};
  std::vector<std::vector<Conv3dCall>> all;
  for (const int64_t base : {8, 16, 32})
    for (const char* up : {"trilinear", "transposed"}) {
      unet3d::ModelConfig model;
      model.base = base;
      model.up = up;
      if (base == 16) model.norm = "instance";
      const int64_t in_channels = base == 8 ? 3 : 1;
      for (auto& network : convolutions_of(trainer_step(model, in_channels), in_channels,
                                           static_cast<int>(model.levels), sizes))
        all.push_back(std::move(network));
    }
  return all;
}

std::vector<std::vector<Conv3dCall>> config_networks() {
  std::vector<std::vector<Conv3dCall>> all;
  for (const auto& file : std::filesystem::directory_iterator("configs")) {
    if (file.path().extension() != ".toml") continue;
    unet3d::Config config;
    config_load_file(config, file.path().string());
    const Dims3 xyz = config.data.shape;
    const auto or_else = [](int64_t given, int64_t grid) { return given > 0 ? given : grid; };
    const Dims3 extent{or_else(xyz.w, kWindExtent.d), or_else(xyz.h, kWindExtent.h),
                       or_else(xyz.d, kWindExtent.w)};
    const int64_t in_channels = config.data.angle_channels ? 3 : 1;
    all.push_back(convolutions_of(trainer_step(config.model, in_channels), in_channels,
                                  static_cast<int>(config.model.levels),
                                  {{extent, config.train.batch}})
                      .front());
  }
  return all;
}

std::vector<std::vector<Conv3dCall>> plain_networks() {
  std::vector<std::vector<Conv3dCall>> all;
  for (const int64_t base : {16, 32}) {
    const auto step = [base](const Shape& input) {
      bench::PlainUnet net(1, 1, base);
      train_step(net, input);
    };
    all.push_back(
        convolutions_of(step, 1, bench::PlainUnet::kLevels - 1, {{Dims3::all(64), 2}}).front());
  }
  return all;
}

std::vector<std::vector<Conv3dCall>> mlperf_networks() {
  const auto step = [](const Shape& input) {
    MlperfUnet net;
    train_step(net, input);
  };
  return convolutions_of(step, 1, 5, {{Dims3::all(128), 2}, {Dims3::all(128), 7}});
}

}  // namespace bora::test
