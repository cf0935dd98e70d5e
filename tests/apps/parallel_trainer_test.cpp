// SPDX-License-Identifier: Apache-2.0
// The trainer itself on 1, 2 and 4 ranks, with every operation counted.
#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>

#include "apps/common/ordered_sums.hpp"
#include "apps/train/parallel.hpp"
#include "apps/unet3d/trainer.hpp"
#include "comm/broadcast_state.hpp"
#include "comm/bucket_plan.hpp"
#include "tests/support/counting_collective.hpp"
#include "tests/support/message_of.hpp"
#include "tests/support/mpi_main.hpp"
#include "tests/support/shared_folder.hpp"

namespace bora::unet3d {
namespace {

using bora::testing::CountingCollective;

class ParallelTrainer : public ::testing::Test {
 protected:
  std::unique_ptr<Collective> ranks = make_communicator(bora::testing::session());
  bora::testing::SharedFolder shared{*ranks};
  const std::string& folder = shared.path();

  /// Some 45 cases to train with.
  Config config(const std::string& more) const {
    Config c;
    config_load_text(c,
                     "data.root = 'samples/urban-wind'\ndata.shape = '32x32x16'\nmodel.base = 4\n"
                     "model.levels = 2\noptim.lr = 3e-3\nsplit.validation = 0.1\nsplit.test = 0.1\n"
                     "output.log_every = 1000\ntrain.epochs = 1\noutput.dir = '" +
                         folder + "/run'\noverwrite = true\n" + more,
                     "the test");
    return c;
  }
};

// Features 49, 180: while updates go on ranks meet for the gradients, and ten times a second to ask
// whether to stop; no barrier, no metrics between the lines of the log; and K micro-steps are one
// reduction.
TEST_F(ParallelTrainer, OnlyGradientsAreReducedInTheSteadyLoop) {
  const auto counts_of = [&](int updates) {
    CountingCollective counting(*ranks);
    Trainer trainer(
        config(detail::join("train.accumulate = 2\ntrain.max_updates = ", updates, "\n")),
        counting);
    EXPECT_TRUE(trainer.run());
    EXPECT_EQ(updates, trainer.updates());
    EXPECT_EQ(0, trainer.position().data.epoch);  // nothing was validated
    auto counts = counting.counts();
    counts.erase("stop request");
    return counts;
  };
  auto one = counts_of(1), three = counts_of(3);
  int buckets = 0;
  for (auto& [label, count] : three) {
    if (!label.starts_with("gradients, bucket ")) continue;
    ++buckets;
    EXPECT_EQ(1, one.at(label)) << label;
    EXPECT_EQ(3, count) << label;
    count = one.at(label) = 0;
  }
  EXPECT_GE(buckets, 1);
  EXPECT_EQ(one, three);
}

// Feature 52: the first update comes after K micro-batches, on every rank.
TEST_F(ParallelTrainer, TheFirstUpdateTakesAWholeWindow) {
  Trainer trainer(config("train.batch = 1\ntrain.accumulate = 4\ntrain.max_updates = 1\n"), *ranks);
  trainer.run();
  EXPECT_EQ(1, trainer.updates());
  EXPECT_EQ(4 * ranks->size(), trainer.position().data.position);
  EXPECT_EQ(1, trainer.exchange_counters().windows);
}

// Feature 41: plain batch norm has each rank's own running statistics while it trains (the
// control), and rank 0's on all ranks when it validates and saves.
TEST_F(ParallelTrainer, RankZerosRunningStatisticsAreValidatedAndSaved) {
  const auto buffers_agree = [&](const std::string& norm, int max_updates) {
    Trainer trainer(config("train.batch = 2\nmodel.norm = '" + norm + "'\n" +
                           detail::join("train.max_updates = ", max_updates, "\n")),
                    *ranks);
    trainer.run();
    std::vector<std::pair<std::string, Tensor>> buffers;
    for (const nn::NamedBuffer& b : nn::named_buffers(trainer.model()))
      buffers.emplace_back(b.name, *b.buffer);
    EXPECT_FALSE(buffers.empty());
    return bora::testing::message_of(
               [&] { check_same_everywhere(*ranks, buffers, "running statistics"); }) == "no error";
  };
  EXPECT_TRUE(buffers_agree("batch", 0));  // to the epoch's end: validated
  EXPECT_EQ(ranks->size() == 1, buffers_agree("batch", 1));
  EXPECT_TRUE(buffers_agree("sync_batch", 1));
}

// Feature 40: parameters and buffers keep the model's own names; nothing is put before them.
TEST_F(ParallelTrainer, NamesHaveNoPrefix) {
  const Config c = config("train.max_updates = 1\nmodel.norm = 'sync_batch'\n");
  UNet3d bare(1, 1, c.model);
  std::vector<std::string> wanted, got;
  for (const auto& p : nn::named_parameters(bare)) wanted.push_back(p.name);
  for (const auto& b : nn::named_buffers(bare)) wanted.push_back(b.name);
  Trainer trainer(c, *ranks);
  for (const auto& p : nn::named_parameters(trainer.model())) got.push_back(p.name);
  for (const auto& b : nn::named_buffers(trainer.model())) got.push_back(b.name);
  EXPECT_EQ(wanted, got);
}

// Gradients that travel in 16 bits train as those in 32 do: the same validation loss to a
// hundredth, from other bits.
TEST_F(ParallelTrainer, SixteenBitGradientsTrainAlike) {
  const auto loss_of = [&](const std::string& type) {
    Trainer trainer(config("comm.gradient_type = '" + type + "'\n"), *ranks);
    trainer.run();
    return trainer.position().best;
  };
  const double full = loss_of("f32");
  for (const char* type : {"f16", "bf16"}) {
    const double half = loss_of(type);
    EXPECT_NEAR(1.0, half / full, 1e-2) << type;
    EXPECT_EQ(ranks->size() == 1, half == full) << type;
  }
}

/// Whether an address lies in memory that is mapped shared ("rw-s" in the kernel's list).
bool lies_in_shared_memory(const void* address) {
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    unsigned long begin = 0, end = 0;
    char flags[5] = {};
    if (std::sscanf(line.c_str(), "%lx-%lx %4s", &begin, &end, flags) != 3) continue;
    const auto at = reinterpret_cast<unsigned long>(address);
    if (at >= begin && at < end) return flags[3] == 's';
  }
  return false;
}

// Where ranks share a host the gradients lie in their shared memory, which needs no copies; one
// rank's are its own.
TEST_F(ParallelTrainer, GradientsLieWhereReductionsNeedNoCopies) {
  Trainer trainer(config("train.max_updates = 1\n"), *ranks);
  trainer.run();
  EXPECT_EQ(ranks->size() > 1, lies_in_shared_memory(trainer.arena().gradients().all().raw()));
  EXPECT_FALSE(lies_in_shared_memory(trainer.arena().values().all().raw()));
}

// Feature 178: sums over samples that are spread unevenly - more ranks than samples, too - count
// each once, in the samples' order: the same bits as one rank's.
TEST(OrderedSums, DoNotKnowWhoHasWhat) {
  const auto ranks = make_communicator(bora::testing::session());
  const auto self = make_self_communicator();
  const auto value = [](int64_t i) { return 1.0 / (3.0 + static_cast<double>(i)); };
  for (const int64_t n : {0, 1, 3, 10}) {
    apps::OrderedSums all({"a", "b"}), mine({"a", "b"});
    double in_a_row = 0;
    for (int64_t i = n - 1; i >= 0; --i) {  // added backwards, summed forwards
      all.add(i, {value(i), 1.0}, {2.0, i == 2 ? 0.0 : 1.0});
      if (i % ranks->size() == ranks->rank())
        mine.add(i, {value(i), 1.0}, {2.0, i == 2 ? 0.0 : 1.0});
    }
    for (int64_t i = 0; i < n; ++i) in_a_row += value(i);
    const MetricSums one = all.reduce(*self, "one"), many = mine.reduce(*ranks, "many");
    EXPECT_EQ(in_a_row, many.at("a").sum);
    for (const char* name : {"a", "b"}) {
      EXPECT_EQ(one.at(name).sum, many.at(name).sum);
      EXPECT_EQ(one.at(name).count, many.at(name).count);
    }
    EXPECT_EQ(static_cast<double>(2 * n), many.at("a").count);
    EXPECT_EQ(static_cast<double>(n > 2 ? n - 1 : n), many.at("b").count);
  }
}

// gpu.md 4.4: the bucket before the last ends where the first two levels begin, whose gradients
// come last and are small: what is exposed after backward is short.
TEST(Buckets, TheTailIsTheFirstTwoLevels) {
  UNet3d net(1, 1, {.base = 32});
  std::vector<nn::NamedParameter> parameters = nn::named_parameters(net);
  FlatLayout layout;
  for (auto p = parameters.rbegin(); p != parameters.rend(); ++p)
    layout.add(p->name, p->parameter->shape);
  const auto buckets = plan_buckets(layout, DType::f32, {});
  ASSERT_GT(buckets.size(), 3u);
  const Bucket& tail = buckets.back();
  EXPECT_TRUE(layout.range(tail.first_range).name.starts_with("encoder1."));
  EXPECT_TRUE(layout.range(tail.first_range - 1).name.starts_with("encoder2."));
  EXPECT_LT(4 * (tail.end - tail.begin), int64_t{1} << 20);
  EXPECT_LT(4 * buckets[0].end, int64_t{2} << 20);  // the first starts early
}

}  // namespace
}  // namespace bora::unet3d
