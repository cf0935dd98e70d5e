// SPDX-License-Identifier: Apache-2.0
// What a run may have beside its loop, with its tensors on a CUDA device (in the emulator build:
// the emulated one): the average of the weights, deep supervision, skipped updates, saves by a
// thread, tasks other than ours.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <memory>

#include "apps/train/simple_task.hpp"
#include "apps/unet3d/setup.hpp"
#include "data/run_checkpoints.hpp"
#include "nn/layers/conv3d.hpp"
#include "nn/ops.hpp"
#include "tests/apps/device_runs.hpp"

namespace bora::unet3d {
namespace {

const char* const kAll =
    "model.levels = 2\nmodel.deep_supervision = 1\ntrain.ema = 0.9\nprecision = 'fp16'\n";
// A scale that grows beyond what f16 holds, again and again: updates are skipped at many places.
const char* const kSkips =
    "scaler.initial = 67108864.0\nscaler.highest = 1073741824.0\nscaler.growth = 16\n"
    "scaler.interval = 2\n";

std::vector<float> weights_of(const std::string& path, Weights weights) {
  return load_trained(path, cpu(), weights).arena->values().all().to_vector<float>();
}

// Both compute in f16 and sum in f32: as kCurve derives, with roundings of 2^-11 where a sum in
// another order falls on another side; 20 of them, as MixedPrecision.GradientFollowsF32 derives.
TEST_F(DeviceTrainer, AverageAndDeepSupervisionInF16FollowTheCpu) {
  const Run here = train(cpu(), kAll), there = train(device_under_test(), kAll);
  for (const char* key : {"loss", "charbonnier", "charbonnier_level1"})
    expect_near(there.series("train", key), here.series("train", key), 20 * 0x1p-11, key);
  expect_near(there.series("validation", "loss"), here.series("validation", "loss"), 20 * 0x1p-11,
              "validation of the average");
}

// Features 111, 129, 141, 183: stopped and gone on with, also right after skipped updates, weights
// and average have the bits of the straight run.
TEST_F(DeviceTrainer, AnAverageWithSkippedUpdatesResumesWithTheSameBits) {
  const std::string more =
      std::string(kAll) + kSkips + "output.checkpoint_updates = 1\ntrain.batch = 1\n";
  const Run straight = train(device_under_test(), more);
  ASSERT_GT(straight.log.of("skipped").size(), 2u);
  const std::string file = (folder / straight.dir / "last.h5").string();
  const std::vector<float> average = weights_of(file, Weights::ema);
  EXPECT_NE(average, straight.weights);
  for (const int stop : {1, 2, 5}) {
    const Run cut =
        train(device_under_test(), more + "train.max_updates = " + std::to_string(stop) + "\n");
    ASSERT_EQ(cut.updates, stop);
    const Run resumed = train(device_under_test(), more, cut.dir);
    const std::string own = (folder / cut.dir / "last.h5").string();
    EXPECT_EQ(resumed.weights, straight.weights) << "stopped after " << stop;
    EXPECT_EQ(weights_of(own, Weights::ema), average) << "stopped after " << stop;
    EXPECT_EQ(resumed.series("validation", "loss"), straight.series("validation", "loss"));
  }
}

// Features 138, 160: what a thread writes while the device trains on is the state of the moment of
// the save: that of a run that ended there.
TEST_F(DeviceTrainer, ASaveHoldsTheStateOfItsMoment) {
  const Run whole = train(device_under_test(), std::string(kAll) +
                                                   "output.checkpoint_updates = 1\n"
                                                   "output.keep = 100\ntrain.batch = 1\n");
  for (const int stop : {1, 2, 5}) {
    const Run cut = train(
        device_under_test(),
        std::string(kAll) + "train.batch = 1\ntrain.max_updates = " + std::to_string(stop) + "\n");
    const std::string ended = (folder / cut.dir / "last.h5").string(),
                      kept = (folder / whole.dir / data::update_checkpoint(stop)).string();
    // Never left out: only a newer save with all its names may take a waiting one's place.
    ASSERT_TRUE(std::filesystem::exists(kept)) << kept;
    EXPECT_EQ(weights_of(kept, Weights::model), cut.weights) << stop;
    EXPECT_EQ(weights_of(kept, Weights::ema), weights_of(ended, Weights::ema)) << stop;
  }
}

class Net final : public nn::Module {
 public:
  Tensor forward(const Tensor& x) { return b_.forward(nn::silu(a_.forward(x))); }
  void visit(nn::Visitor& v) override {
    v.child("a", a_);
    v.child("b", b_);
  }

 private:
  nn::Conv3d a_{2, 4, Dims3::all(3), nn::Bias::yes, {.padding = Dims3::all(1)}};
  nn::Conv3d b_{4, 1, Dims3::all(1), nn::Bias::yes};
};

/// Volumes of 5 x 4 x 3 cells of noise; the target is the product of its two channels.
class Products final : public data::Dataset {
 public:
  int64_t size() const override { return 5; }
  data::Sample read(int64_t index, const data::WindowChoice&) const override {
    const RngKey key{3, rng_stream("products", static_cast<uint64_t>(index))};
    data::Sample s;
    s.input = Tensor::empty({5, 4, 3, 2}, DType::f32);
    s.target = Tensor::empty({5, 4, 3, 1}, DType::f32);
    float* const x = s.input.data<float>();
    for (int64_t i = 0; i < 120; ++i)
      x[i] = static_cast<float>(key.normal(static_cast<uint64_t>(i)));
    for (int64_t i = 0; i < 60; ++i) s.target.data<float>()[i] = x[2 * i] * x[2 * i + 1];
    return s;
  }
};

// A network, a data set and a loss of somebody else on the device, in f32 and f16.
TEST_F(DeviceTrainer, ATaskOfSomebodyElseFollowsTheCpu) {
  for (const char* precision : {"fp32", "fp16"}) {
    SCOPED_TRACE(precision);
    const auto run = [&](Device device, const std::string& dir) {
      train::RunConfig settings;
      config_load_text(settings,
                       std::string("train.epochs = 4\ntrain.batch = 2\noutput.log_every = 1\n"
                                   "optim.lr = 0.01\ntrain.ema = 0.5\nprecision = '") +
                           precision + "'\noutput.dir = '" + (folder / dir).string() + "'\n",
                       "the test");
      train::Trainer trainer(
          [&] {
            return train::make_task(
                settings, std::make_unique<Net>(), Products{}, Products{},
                [](const Tensor& prediction, const data::Batch& batch) {
                  EXPECT_EQ(prediction.device(), batch.target.device());
                  const Tensor error = nn::add(prediction, nn::scale(batch.target, -1));
                  return nn::mean(nn::mul(error, error));
                },
                {train::Score{"sum", "", [](const Tensor& prediction, const data::Batch&) {
                                EXPECT_EQ(prediction.device(), cpu());
                                double sum = 0;
                                for (const float v : prediction.to_vector<float>()) sum += v;
                                return train::Ratio{std::abs(sum), 1};
                              }}});
          },
          settings, *self, {device});
      trainer.run();
      EXPECT_EQ(trainer.arena().device(), device);
      return Run{.dir = dir,
                 .weights = trainer.arena().values().all().to_vector<float>(),
                 .log = log_of(dir),
                 .position = trainer.position(),
                 .updates = trainer.updates()};
    };
    const std::string name = precision;
    const Run here = run(cpu(), "cpu" + name), there = run(device_under_test(), "device" + name),
              again = run(device_under_test(), "again" + name);
    const double near = name == "fp32" ? kCurve : 20 * 0x1p-11;
    EXPECT_EQ(there.updates, 12);
    expect_near(there.series("train", "loss"), here.series("train", "loss"), near, "loss");
    expect_near(there.series("validation", "loss"), here.series("validation", "loss"), near,
                "validation");
    expect_near(there.series("validation", "sum"), here.series("validation", "sum"), 10 * near,
                "score");
    EXPECT_LT(here.series("validation", "loss").back(), here.series("validation", "loss").front());
    EXPECT_EQ(again.weights, there.weights);
  }
}

}  // namespace
}  // namespace bora::unet3d
