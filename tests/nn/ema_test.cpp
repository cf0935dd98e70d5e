// SPDX-License-Identifier: Apache-2.0
// The average of a network's weights: host and device, exchange, state (features 135, 183).
#include "nn/optim/ema.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <variant>
#include <vector>

#include "kernels/ema.hpp"
#include "kernels/step_scalars.hpp"
#include "nn/layers/conv3d.hpp"
#include "tests/support/device.hpp"
#include "tests/support/map_visitor.hpp"

namespace bora::nn {
namespace {

using testing::MapVisitor;

struct Net : Module {
  Linear a{37, 29, Bias::yes}, b{29, 5, Bias::yes};
  void visit(Visitor& v) override {
    v.child("a", a);
    v.child("b", b);
  }
};

struct Rig {
  Net net;
  ParameterArena arena;
  explicit Rig(Device device = test::device(), DType half = DType::f16)
      : arena(net, DType::f32, half, device) {
    initialise(net, 3);
    arena.refresh_working();
  }
  void move(int update) {
    std::vector<float> w = weights();
    for (size_t i = 0; i < w.size(); ++i)
      w[i] += 0.01f * std::sin(0.1f * static_cast<float>(i) + static_cast<float>(update));
    arena.values().all().copy_from(Tensor::from<float>(arena.values().all().shape(), w));
    arena.refresh_working();
  }
  std::vector<float> weights() { return arena.values().all().to_vector<float>(); }
  std::vector<float> working() { return arena.working().all().to(DType::f32).to_vector<float>(); }
};

std::vector<float> average(const Ema& ema) { return ema.average().all().to_vector<float>(); }

Tensor scalars(int64_t updates, bool skip) {
  kernels::StepScalars s;
  s.updates = static_cast<double>(updates);
  s.skip = skip ? 1 : 0;
  return kernels::step_scalars_on(test::device(), s);
}

TEST(Ema, BeginsWithTheWeightsAndStaysWhereTheyStay) {
  Rig rig;
  Ema ema(rig.arena, 0.999);
  EXPECT_EQ(average(ema), rig.weights());
  ema.update(1);
  ema.update(2);
  EXPECT_EQ(average(ema), rig.weights());
}

TEST(Ema, FollowsTheWeights) {
  Rig rig;
  Ema ema(rig.arena, 0.5);
  std::vector<double> want;
  for (const float w : rig.weights()) want.push_back(static_cast<double>(w));
  for (int n = 1; n <= 20; ++n) {
    rig.move(n);
    ema.update(n);
    const double d = kernels::ema_decay(0.5, n);
    const std::vector<float> w = rig.weights();
    for (size_t i = 0; i < want.size(); ++i)
      want[i] = d * want[i] + (1 - d) * static_cast<double>(w[i]);
  }
  const std::vector<float> got = average(ema);
  for (size_t i = 0; i < want.size(); ++i)
    ASSERT_NEAR(static_cast<double>(got[i]), want[i], 20 * 5 * 0x1p-24) << i;
  EXPECT_NE(got, rig.weights());
}

// On a device the number of updates and the skip come from the step's scalars.
TEST(Ema, GivesTheHostsBitsFromTheDevicesScalars) {
  for (const int64_t begin : {0, 3}) {  // 3: switched on for a run under way
    Rig host(cpu()), device;
    Ema a(host.arena, 0.9), b(device.arena, 0.9);
    a.begin(begin);
    b.begin(begin);
    int64_t updates = begin;
    for (int w = 1; w <= 15; ++w) {
      const bool skip = w % 4 == 0;
      if (!skip) {
        host.move(w);
        device.move(w);
        ++updates;
        a.update(updates);
      }
      const std::vector<float> before = average(b);
      b.update_from(scalars(updates, skip));
      if (skip) {
        EXPECT_EQ(average(b), before) << "a skipped update moved the average";
      }
      ASSERT_EQ(host.weights(), device.weights());
      ASSERT_EQ(average(a), average(b)) << w;
    }
  }
}

TEST(Ema, TakesThePlaceOfTheWeightsAndGivesItBack) {
  for (const DType half : {DType::f16, DType::bf16, DType::f32}) {
    Rig rig(test::device(), half);
    Ema ema(rig.arena, 0.9);
    rig.move(1);
    ema.update(1);
    const std::vector<float> weights = rig.weights(), averaged = average(ema),
                             working = rig.arena.has_working() ? rig.working() : weights;
    {
      const Ema::Use use(ema);
      EXPECT_EQ(rig.weights(), averaged);
      EXPECT_EQ(average(ema), weights);
      if (rig.arena.has_working()) {
        EXPECT_EQ(rig.working(),
                  rig.arena.values().all().to(half).to(DType::f32).to_vector<float>());
      }
      EXPECT_THROW(ema.update(2), Error);
      EXPECT_THROW(ema.update_from(scalars(2, false)), Error);
      EXPECT_THROW(ema.begin(2), Error);
      EXPECT_THROW(Ema::Use again(ema), Error);
    }
    EXPECT_EQ(rig.weights(), weights);
    EXPECT_EQ(average(ema), averaged);
    if (rig.arena.has_working()) {
      EXPECT_EQ(rig.working(), working);
    }
  }
}

TEST(Ema, TheWeightsComeBackAfterAnError) {
  Rig rig;
  Ema ema(rig.arena, 0.9);
  rig.move(1);
  const std::vector<float> weights = rig.weights();
  EXPECT_THROW(
      {
        const Ema::Use use(ema);
        BORA_FAIL("validation failed");
      },
      Error);
  EXPECT_EQ(rig.weights(), weights);
}

MapVisitor::Map saved_by(Ema& ema, Net& net) {
  MapVisitor::Map file;
  MapVisitor save(file, false);
  ema.state(save, net);
  return file;
}

TEST(Ema, StateGoesByTheParametersNamesAndGoesOnWithTheSameBits) {
  Rig straight, resumed;
  Ema a(straight.arena, 0.9);
  a.begin(4);
  for (int n = 5; n <= 8; ++n) {
    straight.move(n);
    a.update(n);
  }
  MapVisitor::Map file;
  MapVisitor save(file, false);
  a.state(save, straight.net);
  EXPECT_EQ(std::get<int64_t>(file.at("ema_begin")), 4);
  EXPECT_EQ(file.size(), 1u + 4u);
  EXPECT_FALSE(save.axes.at("ema.a.weight").empty());
  resumed.arena.values().all().copy_from(straight.arena.values().all());
  Ema b(resumed.arena, 0.9);
  MapVisitor load(file, true);
  b.state(load, resumed.net);
  EXPECT_EQ(b.begun_after(), 4);
  for (int n = 9; n <= 12; ++n) {
    straight.move(n);
    resumed.move(n);
    a.update(n);
    b.update(n);
    // Without the padding between parameters, which no file holds.
    const MapVisitor::Map of_a = saved_by(a, straight.net), of_b = saved_by(b, resumed.net);
    for (const auto& [name, value] : of_a) {
      if (!std::holds_alternative<Tensor>(value)) continue;
      ASSERT_EQ(std::get<Tensor>(value).to_vector<float>(),
                std::get<Tensor>(of_b.at(name)).to_vector<float>())
          << n << ' ' << name;
    }
  }
  const Ema::Use use(a);
  EXPECT_THROW(saved_by(a, straight.net), Error);
}

TEST(Ema, RefusesWhatDoesNotFit) {
  Rig rig;
  EXPECT_THROW(Ema(rig.arena, 0.0), Error);
  EXPECT_THROW(Ema(rig.arena, 1.0), Error);
  Net net;
  ParameterArena f64(net, DType::f64);
  EXPECT_THROW(Ema(f64, 0.9), Error);
  Ema ema(rig.arena, 0.9);
  EXPECT_THROW(ema.update(0), Error);
  EXPECT_THROW(ema.begin(-1), Error);
}

}  // namespace
}  // namespace bora::nn
