// SPDX-License-Identifier: Apache-2.0
// Runs of a ToyTask on all ranks of a test, in a folder that goes with it.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <unistd.h>

#include <csignal>
#include <memory>
#include <string>
#include <vector>

#include "apps/common/stop.hpp"
#include "apps/train/trainer.hpp"
#include "comm/communicator.hpp"
#include "core/profile.hpp"
#include "tests/apps/toy_task.hpp"
#include "tests/support/message_of.hpp"
#include "tests/support/mpi_main.hpp"
#include "tests/support/shared_folder.hpp"

namespace bora::train {

using bora::testing::message_of;
using bora::testing::Moment;
using bora::testing::ToyOptions;
using bora::testing::ToyTask;
using ::testing::HasSubstr;

class Loop : public ::testing::Test {
 protected:
  std::unique_ptr<Collective> ranks = make_communicator(bora::testing::session());
  bora::testing::SharedFolder shared{*ranks};
  const std::string& folder = shared.path();

  void SetUp() override { apps::catch_stop_signals(); }
  void TearDown() override { apps::forget_stop_signal(); }

  RunConfig config(const std::string& name, const std::string& more = {}) const {
    RunConfig c;
    config_load_text(c,
                     "optim.lr = 3e-2\noutput.log_every = 1\ntrain.epochs = 4\n"
                     "train.patience = 0\nloader.threads = 1\noutput.dir = '" +
                         folder + "/" + name + "'\n",
                     "the test");
    config_load_text(c, more, "this test");
    return c;
  }
  static Trainer::MakeTask task(const RunConfig& config, const ToyOptions& options) {
    return [=] { return std::make_unique<ToyTask>(config, options); };
  }

  struct Result {
    bool done = false;
    int64_t updates = 0;
    Position position;
    std::vector<float> weights;
  };
  static Result train(const RunConfig& config, Collective& group, const ToyOptions& options = {}) {
    Trainer trainer(task(config, options), config, group);
    Result r;
    r.done = trainer.run();
    r.updates = trainer.updates();
    r.position = trainer.position();
    r.weights = trainer.arena().values().all().to_vector<float>();
    return r;
  }
};

}  // namespace bora::train
