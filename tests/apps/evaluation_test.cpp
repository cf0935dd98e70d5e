// SPDX-License-Identifier: Apache-2.0
// Predictions and their scores (features 112, 114 without angles).
#include "apps/unet3d/evaluation.hpp"

#include <gtest/gtest.h>

#include "data/augment.hpp"
#include "tests/apps/device_under_test.hpp"

namespace bora::unet3d {
namespace {

using bora::testing::device_under_test;

TrainedModel untrained() {
  TrainedModel t;
  t.config.model = {.base = 4, .levels = 1};
  t.model = make_model(t.config, 1);
  t.arena = std::make_unique<nn::ParameterArena>(*t.model, DType::f32, device_under_test());
  nn::initialise(*t.model, 3);
  return t;
}

data::Sample random_sample() {
  const RngKey key{5, 5};
  data::Sample s;
  s.input = Tensor::full({6, 5, 4, 1}, 1.0, DType::f32);
  s.region = Tensor::full({6, 5, 4}, 1, DType::u8);
  for (int64_t i = 0; i < s.region.numel(); ++i)
    if (key.uniform(static_cast<uint64_t>(i)) < 0.3) {
      s.input.data<float>()[i] = -1.0f;
      s.region.data<uint8_t>()[i] = 0;
    }
  s.valid = Tensor::full({6, 5, 4}, 1, DType::u8);
  s.target = Tensor::zeros({6, 5, 4, 1}, DType::f32);
  s.scaling = {.mean = 2.0, .sigma = 3.0};
  return s;
}

TEST(PredictField, IsInPhysicalUnitsAndCalmInsideBuildings) {
  TrainedModel t = untrained();
  const data::Sample s = random_sample();
  const std::vector<float> y = predict_field(t, s).to_vector<float>();
  const NoGrad no_grad;
  const std::vector<float> raw =
      t.model->forward(s.input.reshape({1, 6, 5, 4, 1}).to(device_under_test())).to_vector<float>();
  for (size_t i = 0; i < y.size(); ++i)
    // Two roundings of numbers below 16: at most 2 x 2^-21.
    EXPECT_NEAR(y[i], s.region.data<uint8_t>()[i] ? 2.0f + 3.0f * raw[i] : 0.0f, 1e-6) << i;
}

// The mirror image of a case gives the mirror image of its field, to the bit, which the network
// alone does not.
TEST(PredictField, MirrorAverageIsSymmetric) {
  TrainedModel t = untrained();
  const data::Sample s = random_sample();
  data::Sample m = s;
  data::vary(m, {.flip_y = true});
  for (const Mirror mirror : {Mirror::no, Mirror::average}) {
    const std::vector<float> a = predict_field(t, s, mirror).to_vector<float>();
    const std::vector<float> b = predict_field(t, m, mirror).to_vector<float>();
    int64_t differences = 0;
    for (int64_t x = 0; x < 6; ++x)
      for (int64_t y = 0; y < 5; ++y)
        for (int64_t z = 0; z < 4; ++z)
          differences += a[static_cast<size_t>((x * 5 + y) * 4 + z)] !=
                         b[static_cast<size_t>((x * 5 + 4 - y) * 4 + z)];
    if (mirror == Mirror::average) {
      EXPECT_EQ(differences, 0);
    } else {
      EXPECT_GT(differences, 10);
    }
  }
}

TEST(Mirror, IsRefusedWhereTheRunDidNotTrainOnMirroredCases) {
  TrainedModel t = untrained();
  EXPECT_EQ(mirror_mode(false, t), Mirror::no);
  EXPECT_THROW(mirror_mode(true, t), UsageError);
  t.config.data.augment.flip_y = true;
  EXPECT_EQ(mirror_mode(true, t), Mirror::average);
}

}  // namespace
}  // namespace bora::unet3d
