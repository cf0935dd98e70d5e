// SPDX-License-Identifier: Apache-2.0
// Runs of the trainer on a device and on the CPU, in a folder that goes with the test.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "apps/train/run_log.hpp"
#include "apps/unet3d/trainer.hpp"
#include "comm/communicator.hpp"
#include "tests/apps/device_under_test.hpp"

namespace bora::unet3d {

using bora::testing::device_under_test;

class DeviceTrainer : public ::testing::Test {
 protected:
  std::unique_ptr<Collective> self = make_self_communicator();
  std::filesystem::path folder;
  int n_runs = 0;

  void SetUp() override {
    if (device_under_test() == cpu()) GTEST_SKIP() << "there is no CUDA device here";
    char name[] = "/tmp/bora_device_XXXXXX";
    ASSERT_NE(::mkdtemp(name), nullptr);
    folder = name;
  }
  void TearDown() override {
    if (!folder.empty()) std::filesystem::remove_all(folder);
  }

  /// A network and windows so small that an emulated device trains them in seconds.
  Config config(const std::string& more, const std::string& run) const {
    Config c;
    config_load_text(c,
                     "data.root = 'samples/urban-wind'\ndata.shape = '9x8x6'\nmodel.base = 4\n"
                     "model.levels = 1\noptim.lr = 3e-3\nsplit.validation = 0.1\n"
                     "split.test = 0.75\noutput.log_every = 1\ntrain.epochs = 2\n"
                     "train.batch = 2\nloader.threads = 1\noutput.dir = '" +
                         (folder / run).string() + "'\n",
                     "the test");
    config_load_text(c, more, "the test");  // over it
    return c;
  }
  struct Run {
    std::string dir;
    std::vector<float> weights;
    train::RunLog log;
    train::Position position;
    int64_t updates = 0;
    std::vector<double> series(const std::string& kind, const std::string& key) const {
      std::vector<double> values;
      for (const data::JsonRecord* row : log.of(kind))
        values.push_back(train::number_of(*row, key).value());
      return values;
    }
  };
  /// Trains in a folder of its own, or goes on in `dir`.
  Run train(Device device, const std::string& more, std::string dir = {}) {
    const bool resume = !dir.empty();
    if (!resume) dir = "run" + std::to_string(n_runs++);
    Trainer trainer(config(more + (resume ? "\nresume = true\n" : "\n"), dir), *self, {device});
    EXPECT_EQ(trainer.arena().device(), device);
    trainer.run();
    return {dir, trainer.arena().values().all().to_vector<float>(), log_of(dir), trainer.position(),
            trainer.updates()};
  }
  train::RunLog log_of(const std::string& dir) const {
    return train::RunLog::read((folder / dir / "metrics.jsonl").string());
  }
  static void expect_near(const std::vector<double>& got, const std::vector<double>& wanted,
                          double relative, const char* what) {
    ASSERT_EQ(got.size(), wanted.size()) << what;
    ASSERT_GT(got.size(), 0u) << what;
    for (size_t i = 0; i < got.size(); ++i)
      EXPECT_NEAR(got[i], wanted[i], relative * std::fabs(wanted[i])) << what << " " << i;
  }
};

// Both compute in f32 with sums in other orders: losses and gradients differ by some 100 roundings
// of 2^-24, 1e-5, from the start.  AdamW's first updates have the size of the rate whatever the
// gradient's: where one is near 0 its sign may differ, so that weights (not the loss) part by up to
// 2 lr, and the loss follows by the gradient there, which is near 0.  1e-3 leaves room for 20
// updates; a wrong gradient or rate shows in the first digits.
inline constexpr double kCurve = 1e-3;

}  // namespace bora::unet3d
