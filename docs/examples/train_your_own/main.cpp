// SPDX-License-Identifier: Apache-2.0
// Finds balls in noisy volumes: a network, a data set, a loss and a score of one's own, trained by
// Bora on one rank or many.  docs/library.md goes through it piece by piece.
#include <algorithm>
#include <array>

#include "apps/train/run.hpp"
#include "apps/train/simple_task.hpp"
#include "core/rng.hpp"
#include "nn/layers/conv3d.hpp"
#include "nn/layers/norm.hpp"

using namespace bora;

// [settings]
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
// [settings]

// [data]
/// Volumes with three balls under noise, made when they are asked for.
class Balls final : public data::Dataset {
 public:
  Balls(const Settings& s, int64_t size, uint64_t seed) : s_(s), size_(size), seed_(seed) {}
  int64_t size() const override { return size_; }

  // The same bits for the same (index, choice), whatever rank or thread asks.
  data::Sample read(int64_t index, const data::WindowChoice& choice) const override {
    const RngKey place{seed_, rng_stream("balls", static_cast<uint64_t>(index))};
    const RngKey noise = choice.is_random ? choice.key : place;  // new noise in each epoch
    const int64_t n = s_.extent;
    data::Sample sample;
    sample.input = Tensor::empty({n, n, n, 1}, DType::f32);
    sample.target = Tensor::empty({n, n, n, 1}, DType::f32);
    for (int64_t i = 0; i < n * n * n; ++i) {
      const std::array<int64_t, 3> cell{i / (n * n), i / n % n, i % n};
      float inside = 0;
      for (uint64_t ball = 0; ball < 3; ++ball) {
        double distance2 = 0;
        for (uint64_t axis = 0; axis < 3; ++axis) {
          const double centre = place.uniform(4 * ball + axis) * static_cast<double>(n);
          const double d = static_cast<double>(cell[axis]) + 0.5 - centre;
          distance2 += d * d;
        }
        const double radius = (0.1 + 0.1 * place.uniform(4 * ball + 3)) * static_cast<double>(n);
        if (distance2 < radius * radius) inside = 1;
      }
      sample.target.data<float>()[i] = inside;
      sample.input.data<float>()[i] =
          inside + static_cast<float>(s_.noise * noise.normal(static_cast<uint64_t>(i)));
    }
    return sample;
  }

 private:
  Settings s_;
  int64_t size_;
  uint64_t seed_;
};
// [data]

// [network]
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
// [network]

// [loss]
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
// [loss]

// [main]
int main(int argc, char** argv) {
  return train::run<Settings>(argc, argv, "Finds balls in noisy volumes.", [](const Settings& s) {
    return train::make_task(s, std::make_unique<Net>(s.width), Balls(s, s.cases, 1),
                            Balls(s, std::max<int64_t>(s.cases / 4, 1), 2), loss,
                            {{"dice", "", dice}});
  });
}
// [main]
