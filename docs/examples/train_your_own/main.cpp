// SPDX-License-Identifier: Apache-2.0
// Finds balls in noisy volumes: a network, a data set, a loss and a score of one's own, trained by
// Bora on one rank or many.  docs/library.md goes through it piece by piece.
#include <cmath>

#include "apps/train/run.hpp"
#include "apps/train/simple_task.hpp"
#include "core/rng.hpp"
#include "nn/layers/conv3d.hpp"
#include "nn/layers/norm.hpp"

using namespace bora;

struct Settings : train::RunConfig {
  int64_t width = 8, extent = 24, cases = 64;
  double noise = 1.0;
  static constexpr auto fields() {
    return std::tuple_cat(
        std::tuple{
            field("width", &Settings::width, "channels of the network", positive),
            field("extent", &Settings::extent, "cells of a volume along each axis", positive),
            field("cases", &Settings::cases, "volumes to train on", positive),
            field("noise", &Settings::noise, "its sigma; balls are 1, the rest 0")},
        train::RunConfig::fields());
  }
};

/// Volumes with three balls under noise, made when they are asked for.
class Balls final : public data::Dataset {
 public:
  Balls(const Settings& s, int64_t size, uint64_t seed) : s_(s), size_(size), seed_(seed) {}
  int64_t size() const override { return size_; }

  // The same bits for the same (index, choice), whatever rank or thread asks.
  data::Sample read(int64_t index, const data::WindowChoice& choice) const override {
    const RngKey place{seed_, rng_stream("balls", static_cast<uint64_t>(index))};
    const RngKey noise = choice.is_random ? choice.key : place;  // new noise in each epoch
    const auto n = static_cast<double>(s_.extent);
    data::Sample sample;
    sample.input = Tensor::empty({s_.extent, s_.extent, s_.extent, 1}, DType::f32);
    sample.target = Tensor::zeros(sample.input.shape(), DType::f32);
    uint64_t i = 0;
    for (double x = 0.5; x < n; ++x)
      for (double y = 0.5; y < n; ++y)
        for (double z = 0.5; z < n; ++z, ++i) {
          float& inside = sample.target.data<float>()[i];
          for (uint64_t ball = 0; ball < 12; ball += 4) {
            const auto u = [&](uint64_t k) { return n * place.uniform(ball + k); };
            const double r = 0.1 * (n + u(3));
            if (std::hypot(x - u(0), y - u(1), z - u(2)) < r) inside = 1;
          }
          sample.input.data<float>()[i] = inside + static_cast<float>(s_.noise * noise.normal(i));
        }
    return sample;
  }

 private:
  Settings s_;
  int64_t size_;
  uint64_t seed_;
};

/// Three 3x3x3 convolutions, each wider apart than the one before, and a 1x1x1 head.
class Net final : public nn::Module {
 public:
  explicit Net(int64_t width) : head_(width, 1, Dims3::all(1), nn::Bias::yes) {
    for (int64_t level = 0; level < 3; ++level) {
      const Dims3 apart = Dims3::all(int64_t{1} << level);
      convs_.emplace_back(level == 0 ? 1 : width, width, Dims3::all(3), nn::Bias::no,
                          nn::Conv3dOptions{.padding = apart, .dilation = apart});
      norms_.emplace_back(nn::NormKind::group, width);
    }
  }
  Tensor forward(Tensor x) {  // (N, D, H, W, 1) -> (N, D, H, W, 1), how sure it is of a ball
    for (size_t i = 0; i < convs_.size(); ++i)
      x = norms_[i].forward(convs_[i].forward(x), {.activation = nn::Activation::silu});
    return nn::sigmoid(head_.forward(x));
  }
  void visit(nn::Visitor& v) override {
    for (size_t i = 0; i < convs_.size(); ++i) {
      v.child("conv" + std::to_string(i), convs_[i]);
      v.child("norm" + std::to_string(i), norms_[i]);
    }
    v.child("head", head_);
  }

 private:
  std::vector<nn::Conv3d> convs_;
  std::vector<nn::Norm> norms_;
  nn::Conv3d head_;
};

/// Squared error, four times as heavy in balls, which are few: mean((p - t)^2 (1 + 3 t)).
Tensor loss(const Tensor& prediction, const data::Batch& batch) {
  const Tensor error = nn::add(prediction, nn::scale(batch.target, -1));
  const Tensor square = nn::mul(error, error);
  return nn::add(nn::mean(square), nn::scale(nn::mean(nn::mul(square, batch.target)), 3));
}

/// Dice: 2 |found and there| / (|found| + |there|), over all cells of all cases.
train::Ratio dice(const Tensor& prediction, const data::Batch& batch) {
  train::Ratio dice{0, 0};
  for (int64_t i = 0; i < prediction.numel(); ++i) {
    const double found = prediction.data<float>()[i] > 0.5f, there = batch.target.data<float>()[i];
    dice.sum += 2 * found * there;
    dice.count += found + there;
  }
  return dice;
}

int main(int argc, char** argv) {
  return train::run<Settings>(argc, argv, "Finds balls in noisy volumes.", [](const Settings& s) {
    return train::make_task(s, std::make_unique<Net>(s.width), Balls(s, s.cases, 1),
                            Balls(s, (s.cases + 3) / 4, 2), loss, {{"dice", "", dice}});
  });
}
