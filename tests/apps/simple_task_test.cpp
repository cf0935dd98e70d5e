// SPDX-License-Identifier: Apache-2.0
// A network, a data set and a loss of somebody else, trained on 1, 2 and 3 ranks (features 137,
// 150, 173, 174).
#include "apps/train/simple_task.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <mutex>
#include <set>

#include "apps/train/trainer.hpp"
#include "comm/communicator.hpp"
#include "nn/layers/conv3d.hpp"
#include "nn/layers/norm.hpp"
#include "nn/ops.hpp"
#include "tests/support/counting_collective.hpp"
#include "tests/support/message_of.hpp"
#include "tests/support/mpi_main.hpp"
#include "tests/support/shared_folder.hpp"

namespace bora::train {
namespace {

using bora::testing::message_of;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

struct Settings : RunConfig {
  int64_t width = 2;
  static constexpr auto fields() {
    return std::tuple_cat(std::tuple{field("width", &Settings::width, "channels", positive)},
                          RunConfig::fields());
  }
};

/// What was read: (index, first number of the key), under a lock, since threads read.
struct Log {
  std::mutex mutex;
  std::vector<std::pair<int64_t, double>> reads;
};

/// n cases of 3x3x3 cells: input is noise of the key, target the index.
class Noise final : public data::Dataset {
 public:
  Noise(int64_t n, std::shared_ptr<Log> log) : n_(n), log_(std::move(log)) {}
  int64_t size() const override { return n_; }
  data::Sample read(int64_t index, const data::WindowChoice& choice) const override {
    const RngKey key =
        choice.is_random ? choice.key : RngKey{7, rng_stream("t", static_cast<uint64_t>(index))};
    data::Sample s;
    s.input = Tensor::empty({3, 3, 3, 1}, DType::f32);
    for (int64_t i = 0; i < 27; ++i)
      s.input.data<float>()[i] = static_cast<float>(key.normal(static_cast<uint64_t>(i)));
    s.target = Tensor::full({3, 3, 3, 1}, static_cast<double>(index), DType::f32);
    const std::scoped_lock lock(log_->mutex);
    if (choice.is_random) log_->reads.emplace_back(index, key.uniform(0));
    return s;
  }

 private:
  int64_t n_;
  std::shared_ptr<Log> log_;
};

class Net final : public nn::Module {
 public:
  Net(int64_t width, nn::NormKind kind)
      : conv_(1, width, Dims3::all(3), nn::Bias::no, {.padding = Dims3::all(1)}),
        norm_(kind, width),
        head_(width, 1, Dims3::all(1), nn::Bias::yes) {}
  Tensor forward(const Tensor& x) {
    return head_.forward(norm_.forward(conv_.forward(x), {.activation = nn::Activation::silu}));
  }
  void visit(nn::Visitor& v) override {
    v.child("conv", conv_);
    v.child("norm", norm_);
    v.child("head", head_);
  }

 private:
  nn::Conv3d conv_;
  nn::Norm norm_;
  nn::Conv3d head_;
};

Tensor squared(const Tensor& prediction, const data::Batch& batch) {
  const Tensor error = nn::add(prediction, nn::scale(batch.target, -1));
  return nn::mean(nn::mul(error, error));
}

class SimpleTasks : public ::testing::Test {
 protected:
  std::unique_ptr<Collective> ranks = make_communicator(bora::testing::session());
  bora::testing::SharedFolder shared{*ranks};
  const std::string& folder = shared.path();
  std::shared_ptr<Log> log = std::make_shared<Log>();

  Settings settings(const std::string& more = "") const {
    Settings s;
    config_load_text(s,
                     "train.epochs = 2\noutput.log_every = 1\noverwrite = true\noutput.dir = '" +
                         folder + "/run'\n" + more,
                     "the test");
    return s;
  }
  std::vector<std::string> lines() const {
    std::ifstream in(folder + "/run/metrics.jsonl");
    std::vector<std::string> all;
    for (std::string line; std::getline(in, line);) all.push_back(line);
    return all;
  }
};

// Features 150, 174: each epoch has each sample once, over all ranks, with draws of its own, though
// nobody tells the data set which epoch it is; the draws are the same for any number of ranks.
TEST_F(SimpleTasks, EveryEpochDrawsAnewWithoutBeingTold) {
  const Settings s = settings("loader.threads = 2\n");
  {
    Trainer trainer(
        [&] {
          return make_task(s, std::make_unique<Net>(s.width, nn::NormKind::group), Noise(6, log),
                           NoData{}, squared);
        },
        s, *ranks);
    EXPECT_TRUE(trainer.run());
  }
  std::string mine;
  for (const auto& [index, draw] : log->reads) mine += detail::join(index, " ", draw, "\n");
  std::multiset<std::string> all;
  for (int r = 0; r < ranks->size(); ++r) {
    std::istringstream text(ranks->broadcast_text(mine, r, "reads"));
    for (std::string line; std::getline(text, line);) all.insert(line);
  }
  std::multiset<std::string> wanted;
  for (uint64_t epoch = 0; epoch < 2; ++epoch)
    for (uint64_t i = 0; i < 6; ++i)
      wanted.insert(detail::join(i, " ", RngKey{0, rng_stream("augment", epoch, i)}.uniform(0)));
  EXPECT_EQ(all, wanted);
  EXPECT_EQ(std::set<std::string>(all.begin(), all.end()).size(), 12u);
}

/// Noise whose cases 0 and 1 are a group each, and all others one.
class GroupedNoise final : public data::Dataset {
 public:
  GroupedNoise(int64_t n, std::shared_ptr<Log> log) : noise_(n, std::move(log)) {}
  int64_t size() const override { return noise_.size(); }
  std::string group(int64_t index) const override {
    return std::to_string(std::min(index, int64_t{2}));
  }
  data::Sample read(int64_t index, const data::WindowChoice& choice) const override {
    return noise_.read(index, choice);
  }

 private:
  Noise noise_;
};

// Row 71: with train.sampling = geometry an epoch is as many draws as there are samples, the same
// for any number of ranks; a run that was stopped in the middle of an epoch, at an odd place, goes
// on with the draws that are left, and repeats of a sample have random numbers of their own.
TEST_F(SimpleTasks, GeometrySamplingDrawsGroupsAlikeAndResumes) {
  // Global batches of 6 samples for 1, 2 and 3 ranks: 7 draws an epoch are an update of 6 and one
  // of 1.
  const std::string batch = "train.global_batch = 6\ntrain.sampling = 'geometry'\n";
  const auto run = [&](const std::string& more, bool resume) {
    Settings s = settings(batch + more);
    s.resume = resume;
    s.overwrite = !resume;
    Trainer trainer(
        [&] {
          return make_task(s, std::make_unique<Net>(s.width, nn::NormKind::group),
                           GroupedNoise(7, log), NoData{}, squared);
        },
        s, *ranks);
    trainer.run();
  };
  run("train.max_updates = 1\n", false);
  ranks->barrier("stopped");
  run("", true);
  std::string mine;
  for (const auto& [index, draw] : log->reads) mine += detail::join(index, " ", draw, "\n");
  std::multiset<std::string> all;
  for (int r = 0; r < ranks->size(); ++r) {
    std::istringstream text(ranks->broadcast_text(mine, r, "reads"));
    for (std::string line; std::getline(text, line);) all.insert(line);
  }
  const std::vector<double> weights{1, 1, 0.2, 0.2, 0.2, 0.2, 0.2};
  size_t n_repeats = 0;
  for (int64_t epoch = 0; epoch < 2; ++epoch) {
    std::vector<uint64_t> seen(7, 0);
    for (const int64_t i : data::weighted_order(weights, 0, epoch)) {
      uint64_t& repeat = seen[static_cast<size_t>(i)];
      const RngKey key{
          0, rng_stream("augment", static_cast<uint64_t>(epoch), static_cast<uint64_t>(i), repeat)};
      n_repeats += repeat > 0;
      ++repeat;
      EXPECT_GE(all.count(detail::join(i, " ", key.uniform(0))), 1u) << "epoch " << epoch;
      all.erase(detail::join(i, " ", key.uniform(0)));
    }
  }
  EXPECT_TRUE(all.empty()) << "only the draws of the two epochs: " << *all.begin();
  EXPECT_GE(n_repeats, 2u);
}

TEST_F(SimpleTasks, WeightedSamplingWantsWeights) {
  const Settings s = settings("train.sampling = 'weighted'\n");
  EXPECT_THAT(message_of([&] {
                Trainer(
                    [&] {
                      return make_task(s, std::make_unique<Net>(s.width, nn::NormKind::group),
                                       Noise(6, log), NoData{}, squared);
                    },
                    s, *ranks)
                    .run();
              }),
              HasSubstr("train.sampling=weighted, but the samples have no weights"));
}

// Features 137, 173: scores are joined over all ranks by sums and counts, whatever a rank has; one
// rank writes.
TEST_F(SimpleTasks, ScoresArePooledAndWrittenOnce) {
  const Settings s = settings();
  const Score share{"share", "cells", [](const Tensor& prediction, const data::Batch& batch) {
                      EXPECT_EQ(prediction.dtype(), DType::f32);
                      EXPECT_EQ(prediction.device(), cpu());
                      const double target = batch.target.to_vector<float>()[0];
                      return Ratio{target * target, target};  // case 0 has nothing to count
                    }};
  Trainer trainer(
      [&] {
        return make_task(s, std::make_unique<Net>(s.width, nn::NormKind::group), Noise(6, log),
                         Noise(4, log), squared, {share});
      },
      s, *ranks);
  EXPECT_TRUE(trainer.run());
  ranks->barrier("the log is written");
  int validations = 0;
  for (const std::string& line : lines()) {
    if (line.find("\"validation\"") == line.npos) continue;
    ++validations;
    EXPECT_THAT(line, HasSubstr("\"share\":2.33333333333333"))
        << "(0 + 1 + 4 + 9) / (0 + 1 + 2 + 3)";
  }
  EXPECT_EQ(validations, 2);
}

// A rank without a sample takes part, and the loss is never asked about nothing: with one sample an
// update on three ranks two have none.
TEST_F(SimpleTasks, RanksWithoutSamplesTakePart) {
  const Settings s = settings();
  const auto strict = [](const Tensor& prediction, const data::Batch& batch) {
    BORA_CHECK(batch.size() > 0, "the loss of no samples was asked for");
    return squared(prediction, batch);
  };
  bora::testing::CountingCollective counting(*ranks);
  Trainer trainer(
      [&] {
        return make_task(s, std::make_unique<Net>(s.width, nn::NormKind::sync_batch), Noise(4, log),
                         Noise(1, log), strict);
      },
      s, counting);
  EXPECT_TRUE(trainer.run());
  EXPECT_EQ(trainer.updates(), trainer.total_updates());
  // A synchronised batch norm has got the ranks, without a word from the task.
  auto counts = counting.counts();
  const int wanted = ranks->size() > 1 ? static_cast<int>(trainer.updates()) : 0;
  EXPECT_EQ(counts["batch_norm.forward"], wanted);
  EXPECT_EQ(counts["batch_norm.backward"], wanted);
}

TEST_F(SimpleTasks, LossOfAnotherShapeIsRefusedOnAllRanks) {
  const Settings s = settings();
  EXPECT_THAT(message_of([&] {
                Trainer trainer(
                    [&] {
                      return make_task(s, std::make_unique<Net>(s.width, nn::NormKind::group),
                                       Noise(6, log), NoData{},
                                       [](const Tensor& p, const data::Batch&) { return p; });
                    },
                    s, *ranks);
                trainer.run();
              }),
              HasSubstr("wanted () (nn::mean or nn::sum make it)"));
}

// The settings of the program are in the record, and a resumed run with others says so.
TEST_F(SimpleTasks, OwnSettingsAreRecorded) {
  Settings s = settings("width = 3\n");
  const auto make = [&] {
    return make_task(s, std::make_unique<Net>(s.width, nn::NormKind::group), Noise(6, log),
                     NoData{}, squared);
  };
  Trainer(make, s, *ranks).run();
  ranks->barrier("written");
  std::ifstream in(folder + "/run/config.toml");
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  EXPECT_THAT(text, HasSubstr("width = 3"));
  s.resume = true;
  s.overwrite = false;
  s.width = 4;
  EXPECT_THAT(message_of([&] { Trainer(make, s, *ranks).run(); }), HasSubstr("conv.weight"))
      << "another network";
}

}  // namespace
}  // namespace bora::train
