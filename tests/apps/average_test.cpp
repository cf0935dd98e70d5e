// SPDX-License-Identifier: Apache-2.0
// The average of the weights in a run on 1, 2 and 4 ranks: what is validated, kept and loaded
// (features 135, 141, 183).
#include <gtest/gtest.h>

#include "apps/unet3d/setup.hpp"
#include "apps/unet3d/trainer.hpp"
#include "comm/broadcast_state.hpp"
#include "comm/communicator.hpp"
#include "tests/support/message_of.hpp"
#include "tests/support/mpi_main.hpp"
#include "tests/support/shared_folder.hpp"

namespace bora::unet3d {
namespace {

class Average : public ::testing::Test {
 protected:
  std::unique_ptr<Collective> ranks = make_communicator(bora::testing::session());
  bora::testing::SharedFolder shared{*ranks};
  const std::string& folder = shared.path();

  Config config(const std::string& more) const {
    Config c;
    config_load_text(c,
                     "data.root = 'samples/urban-wind'\ndata.shape = '32x32x16'\nmodel.base = 4\n"
                     "model.levels = 2\noptim.lr = 3e-3\nsplit.validation = 0.1\nsplit.test = 0.6\n"
                     "output.log_every = 1000\ntrain.epochs = 1\noutput.dir = '" +
                         folder + "/run'\n" + more,
                     "the test");
    return c;
  }
};

std::vector<float> values_of(const Tensor& t) { return t.to_vector<float>(); }

// All ranks have the same average; best.h5 was chosen by its loss, not by the weights'.
TEST_F(Average, IsValidatedAndTheSameEverywhere) {
  Trainer trainer(config("train.ema = 0.5\n"), *ranks);
  ASSERT_TRUE(trainer.average().on());
  EXPECT_TRUE(trainer.run());
  Tensor average = trainer.average().ema()->average().all(),
         weights = trainer.arena().values().all();
  check_same_everywhere(*ranks, {{"the average", average}, {"the weights", weights}},
                        "after a run");
  EXPECT_NE(values_of(average), values_of(weights));
  // The validation of the same weights without an average has another loss.
  Config beside = config("");
  beside.output.dir = folder + "/plain";  // the first one is still at work in its own
  Trainer plain(beside, *ranks);
  plain.run();
  EXPECT_FALSE(plain.average().on());
  EXPECT_EQ(values_of(plain.arena().values().all()), values_of(weights))
      << "an average must not change the training";
  EXPECT_NE(trainer.position().best, plain.position().best);
}

TEST_F(Average, IsWhatPredictionsLoadUnlessToldOtherwise) {
  std::vector<float> average, weights;
  {
    Trainer trainer(config("train.ema = 0.5\n"), *ranks);
    trainer.run();
    average = values_of(trainer.average().ema()->average().all());
    weights = values_of(trainer.arena().values().all());
  }
  ranks->barrier("saved");
  const std::string path = folder + "/run/last.h5";
  const TrainedModel automatic = load_trained(path), ema = load_trained(path, cpu(), Weights::ema),
                     model = load_trained(path, cpu(), Weights::model);
  EXPECT_EQ(automatic.weights, Weights::ema);
  EXPECT_EQ(values_of(automatic.arena->values().all()), average);
  EXPECT_EQ(values_of(ema.arena->values().all()), average);
  EXPECT_EQ(model.weights, Weights::model);
  EXPECT_EQ(values_of(model.arena->values().all()), weights);
  EXPECT_THROW(weights_from("best"), UsageError);
  ranks->barrier("loaded");
  {
    Trainer trainer(config("overwrite = true\ntrain.max_updates = 1\n"), *ranks);
    trainer.run();
  }
  ranks->barrier("saved");
  EXPECT_EQ(load_trained(path).weights, Weights::model);
  EXPECT_NE(bora::testing::message_of([&] {
              load_trained(path, cpu(), Weights::ema);
            }).find("no average of the weights"),
            std::string::npos);
}

// Switched on for a resumed run it begins with the weights there are; off, it is gone.
TEST_F(Average, BeginsAndEndsOnResume) {
  {
    Trainer first(config("overwrite = true\ntrain.max_updates = 1\n"), *ranks);
    first.run();
  }
  {
    Trainer on(config("resume = true\ntrain.ema = 0.9\ntrain.max_updates = 2\n"), *ranks);
    EXPECT_EQ(on.average().ema()->begun_after(), 1);
    EXPECT_EQ(values_of(on.average().ema()->average().all()), values_of(on.arena().values().all()));
    on.run();
    EXPECT_NE(values_of(on.average().ema()->average().all()), values_of(on.arena().values().all()));
  }
  {
    Trainer again(config("resume = true\ntrain.ema = 0.9\ntrain.max_updates = 2\n"), *ranks);
    EXPECT_EQ(again.average().ema()->begun_after(), 1);
    EXPECT_NE(values_of(again.average().ema()->average().all()),
              values_of(again.arena().values().all()));
  }
  Trainer off(config("resume = true\n"), *ranks);
  EXPECT_FALSE(off.average().on());
  off.run();
  ranks->barrier("saved");
  EXPECT_EQ(load_trained(folder + "/run/last.h5").weights, Weights::model);
}

}  // namespace
}  // namespace bora::unet3d
