// SPDX-License-Identifier: Apache-2.0
// The trainer with its tensors on a CUDA device (in the emulator build: the emulated one), held
// against the same run on the CPU.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>

#include "apps/train/dry_run.hpp"
#include "apps/unet3d/setup.hpp"
#include "core/allocator.hpp"
#include "core/memory_report.hpp"
#include "tests/apps/device_runs.hpp"
#include "tests/support/message_of.hpp"

namespace bora::unet3d {
namespace {

using bora::testing::count_synchronisations;
using bora::testing::message_of;
using ::testing::AllOf;
using ::testing::HasSubstr;

TEST_F(DeviceTrainer, CurveFollowsTheCpus) {
  const Run here = train(cpu(), ""), there = train(device_under_test(), "");
  for (const char* key : {"loss", "charbonnier", "gradient_plain", "gradient_norm"})
    expect_near(there.series("train", key), here.series("train", key), kCurve, key);
  expect_near(there.series("train", "lr"), here.series("train", "lr"), 1e-12, "lr");
  for (const char* key : {"loss", "mae_m_s", "rmse_m_s"})
    expect_near(there.series("validation", key), here.series("validation", key), kCurve, key);
  EXPECT_EQ(there.updates, here.updates);
  EXPECT_EQ(there.position.best_epoch, here.position.best_epoch);
  // The log is that of the CPU, line by line, though reports come later; when a save or a picture
  // is done is the business of its thread.
  const auto lines_of = [](const Run& run) {
    std::vector<std::string> lines;
    for (const data::JsonRecord& row : run.log.rows())
      if (const std::string kind = train::text_of(row, "kind");
          kind != "checkpoint" && kind != "figure" && kind != "warning")
        lines.push_back(detail::join(kind, " after update ", *train::number_of(row, "update"),
                                     ", epoch ", train::number_of(row, "epoch").value_or(-1)));
    return lines;
  };
  EXPECT_EQ(lines_of(there), lines_of(here));
}

// Accumulation, batch norm's running statistics (which are saved and validated with), SGD, and the
// smaller last window of an epoch.
TEST_F(DeviceTrainer, OtherSettingsFollowToo) {
  for (const char* more :
       {"train.batch = 1\ntrain.accumulate = 3\nmodel.up = 'transposed'\ntrain.epochs = 1\n",
        "model.norm = 'batch'\noptim.kind = 'sgd'\noptim.schedule = 'constant'\noptim.lr = 0.01\n"
        "train.epochs = 1\nloader.threads = 0\n",
        "model.norm = 'sync_batch'\nmodel.recompute = true\nloss.gradient = 'edge'\n"
        "loss.kind = 'mse'\ntrain.epochs = 1\n",
        "model.levels = 2\nmodel.deep_supervision = 1\ntrain.ema = 0.9\ntrain.epochs = 1\n"}) {
    SCOPED_TRACE(more);
    const Run here = train(cpu(), more), there = train(device_under_test(), more);
    expect_near(there.series("train", "loss"), here.series("train", "loss"), kCurve, "loss");
    expect_near(there.series("validation", "loss"), here.series("validation", "loss"), kCurve,
                "validation");
  }
}

// Feature 149 on a device: the same bits run after run; dropout draws the same there.
TEST_F(DeviceTrainer, TwoRunsHaveTheSameBits) {
  const std::string more = "model.dropout = 0.2\ntrain.epochs = 1\n";
  const Run a = train(device_under_test(), more), b = train(device_under_test(), more);
  EXPECT_EQ(a.weights, b.weights);
  EXPECT_EQ(a.series("train", "loss"), b.series("train", "loss"));
  const Run other = train(device_under_test(), more + "train.seed = 5\n");
  EXPECT_NE(a.weights, other.weights);
}

// Feature 141 on a device: stopped inside an epoch and between two, and resumed: the bits of the
// straight run.
TEST_F(DeviceTrainer, ResumedRunHasTheBitsOfTheStraightOne) {
  for (const char* precision : {"fp32", "fp16"}) {
    const std::string more = std::string("precision = '") + precision + "'\nmodel.dropout = 0.1\n";
    const Run straight = train(device_under_test(), more);
    for (const int stop : {2, 7}) {
      const std::string until = more + "train.max_updates = " + std::to_string(stop) + "\n";
      const Run cut = train(device_under_test(), until);
      EXPECT_EQ(cut.updates, stop);
      const Run resumed = train(device_under_test(), more, cut.dir);
      EXPECT_EQ(resumed.weights, straight.weights) << precision << ", stopped after " << stop;
      EXPECT_EQ(resumed.series("train", "loss"), straight.series("train", "loss"));
    }
  }
}

// A checkpoint does not depend on the device: begun on one and gone on with on the other, both
// ways, the run is that of the CPU within rounding.
TEST_F(DeviceTrainer, CheckpointsGoFromDeviceToDevice) {
  const Run here = train(cpu(), "");
  for (const Device first : {cpu(), device_under_test()}) {
    const Device second = first == cpu() ? device_under_test() : cpu();
    const Run cut = train(first, "train.max_updates = 5\n");
    // What one wrote the other holds, bit for bit.
    const TrainedModel loaded = load_trained((folder / cut.dir / "last.h5").string(), second);
    EXPECT_EQ(loaded.arena->values().all().to_vector<float>(), cut.weights);
    const Run rest = train(second, "", cut.dir);
    expect_near(rest.series("train", "loss"), here.series("train", "loss"), kCurve, "loss");
    expect_near(rest.series("validation", "loss"), here.series("validation", "loss"), kCurve,
                "validation");
  }
}

// Features 129 to 131 on a device: an overflow skips the update, the scale halves, rate and number
// of updates stay; the run recovers and learns as in f32.
TEST_F(DeviceTrainer, OverflowIsSkippedAndRecoveredFrom) {
  const std::string huge = "1073741824.0";  // 2^30
  const std::string half = "precision = 'fp16'\ntrain.epochs = 3\n";
  const Run forced = train(device_under_test(),
                           half + "scaler.initial = " + huge + "\nscaler.highest = " + huge + "\n");
  const std::vector<double> scales = forced.series("skipped", "loss_scale");
  ASSERT_GT(scales.size(), 1u);
  for (size_t i = 0; i < scales.size(); ++i)
    EXPECT_EQ(scales[i], std::ldexp(1.0, 30 - static_cast<int>(i)));
  size_t at_first = 0;  // skipped before the first update
  for (const data::JsonRecord& row : forced.log.rows()) {
    if (train::text_of(row, "kind") == "train") break;
    if (train::text_of(row, "kind") != "skipped") continue;
    EXPECT_EQ(train::number_of(row, "update"), 0);
    ++at_first;
  }
  ASSERT_GT(at_first, 1u);
  ASSERT_FALSE(forced.series("train", "lr").empty());
  const Run plain = train(device_under_test(), half);
  // The first update made has the first rate, and the count goes on from there.
  EXPECT_EQ(forced.series("train", "lr")[0], plain.series("train", "lr")[0]);
  EXPECT_EQ(forced.series("train", "update")[0], 1);
  EXPECT_EQ(forced.series("train", "skipped")[0], static_cast<double>(at_first));
  EXPECT_EQ(forced.series("train", "loss_scale")[0],
            std::ldexp(1.0, 30 - static_cast<int>(at_first)));
  // f16 against f32: 20 units of 2^-11, as MixedPrecision.GradientFollowsF32 derives.
  const Run full = train(device_under_test(), "train.epochs = 3\n");
  expect_near(plain.series("train", "loss"), full.series("train", "loss"), 20 * 0x1p-11, "fp16");
  const Run bf16 = train(device_under_test(), "precision = 'bf16'\ntrain.epochs = 3\n");
  expect_near(bf16.series("train", "loss"), full.series("train", "loss"), 20 * 0x1p-8, "bf16");
}

// Feature 184 on a device: what is no number ends the run some windows later, names the parameter
// and the op, and the weights are those from before.
TEST_F(DeviceTrainer, ANonFiniteGradientEndsTheRunAndNamesTensors) {
  const std::string more = "optim.lr = 1e30\noptim.schedule = 'constant'\noptim.clip = 0\n";
  for (const Device device : {cpu(), device_under_test()}) {
    const std::string text = message_of([&] { train(device, more); });
    EXPECT_THAT(text, AllOf(HasSubstr("gradient values are NaN or inf"),
                            HasSubstr("the first in the gradient of 'head.bias'"),
                            HasSubstr("in the forward pass the first was op "),
                            HasSubstr("the weights are untouched")));
  }
  // At the lowest scale of f16, too.
  const std::string text = message_of([&] {
    train(device_under_test(),
          more + "precision = 'fp16'\nscaler.initial = 2\nscaler.lowest = 1\n");
  });
  EXPECT_THAT(text, AllOf(HasSubstr("at the lowest loss scale, 1"),
                          HasSubstr("in the forward pass the first was op ")));
}

// Once a run is under way no update waits for the device: of two runs the longer one, with nothing
// in the log between, synchronises no more often.
TEST_F(DeviceTrainer, AnUpdateDoesNotWaitForTheDevice) {
  for (const std::string precision :
       {"'fp32'", "'fp16'",
        "'fp16'\ntrain.ema = 0.9\nmodel.levels = 2\nmodel.deep_supervision = 1"}) {
    const auto synchronisations = [&](int updates) {
      return count_synchronisations([&] {
        train(device_under_test(),
              "output.log_every = 1000\ntrain.batch = 1\nsplit.test = 0.5\n"
              "train.max_updates = " +
                  std::to_string(updates) + "\nprecision = " + precision + "\n");
      });
    };
    const int64_t few = synchronisations(7);
    EXPECT_GT(few, 0);  // the counter counts: weights go there and come back
    EXPECT_EQ(synchronisations(12), few) << precision;
  }
}

// The step replayed from a graph computes what the eager one does, bit for bit, also where epochs
// end with a smaller window, which is never captured.
TEST_F(DeviceTrainer, AGraphHasTheBitsOfTheEagerStep) {
  for (const char* more : {"precision = 'fp32'\n", "precision = 'fp16'\nscaler.interval = 3\n",
                           "precision = 'bf16'\noptim.kind = 'sgd'\nmodel.norm = 'batch'\n",
                           "precision = 'fp16'\ntrain.ema = 0.9\nmodel.levels = 2\n"
                           "model.deep_supervision = 1\n"}) {
    const Run eager = train(device_under_test(), std::string(more) + "train.step_graph = 'off'\n");
    Trainer trainer(config(more, "graph"), *self, {device_under_test()});
    ASSERT_NE(trainer.step_graph(), nullptr);
    trainer.run();
    EXPECT_EQ(trainer.step_graph()->way("step"), StepGraph::Way::replayed)
        << trainer.step_graph()->why_eager("step");
    EXPECT_EQ(trainer.arena().values().all().to_vector<float>(), eager.weights) << more;
    const Run graph{.dir = "graph", .weights = {}, .log = log_of("graph"), .position = {}};
    EXPECT_EQ(graph.series("train", "loss"), eager.series("train", "loss")) << more;
    EXPECT_EQ(graph.series("train", "lr"), eager.series("train", "lr")) << more;
    EXPECT_EQ(graph.series("validation", "loss"), eager.series("validation", "loss")) << more;
    std::filesystem::remove_all(folder / "graph");
  }
}

// Feature 146: early stopping looks at the same validation losses.
TEST_F(DeviceTrainer, StopsEarlyWhereTheCpuDoes) {
  const std::string more = "optim.lr = 0.0\ntrain.patience = 1\ntrain.epochs = 5\n";
  const Run here = train(cpu(), more), there = train(device_under_test(), more);
  EXPECT_TRUE(there.position.stopped_early);
  EXPECT_EQ(there.position.data.epoch, here.position.data.epoch);
}

// A dry run looks at the device's memory, and foretells what a run takes of it (in the emulator,
// where convolutions have no scratch).
TEST_F(DeviceTrainer, ADryRunForetellsTheDevicesMemory) {
  const Config c = config("train.step_graph = 'off'\ntrain.max_updates = 3\n", "planned");
  const Device device = device_under_test();
  const train::DryRun plan =
      train::dry_run([&] { return std::make_unique<WindTask>(c, *self); }, c, *self, {device});
  EXPECT_TRUE(plan.rank.on_device);
  EXPECT_FALSE(std::filesystem::exists(folder / "planned"));
  const int64_t before = memory_of(device).live;
  reset_memory_peaks(device);
  train(device, "train.step_graph = 'off'\ntrain.max_updates = 3\n");
  const auto got = static_cast<double>(memory_of(device).peak - before);
  EXPECT_NEAR(static_cast<double>(plan.rank.device()) / got, 1.0, 0.1)
      << plan.rank.device() << " foretold, " << got << " taken";
}

// A device's memory holds what belongs there: no step takes more of it than the one before.
TEST_F(DeviceTrainer, StepsTakeNoMoreMemory) {
  const auto backend_calls = [&](int updates) {
    const int64_t before = caching_allocator(device_under_test()).stats().n_backend_allocations;
    train(device_under_test(), "train.max_updates = " + std::to_string(updates) + "\n");
    return caching_allocator(device_under_test()).stats().n_backend_allocations - before;
  };
  backend_calls(4);
  EXPECT_EQ(backend_calls(9), 0);
}

}  // namespace
}  // namespace bora::unet3d
