// SPDX-License-Identifier: Apache-2.0
// Ranks that train on devices of their own: emulated ones, joined by the communicator over the
// double of NCCL (tests/nccl_double).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <mutex>
#include <optional>
#include <set>

#include "apps/unet3d/trainer.hpp"
#include "comm/broadcast_state.hpp"
#include "comm/communicator.hpp"
#include "comm/nccl_communicator.hpp"
#include "core/backend.hpp"
#include "kernels/simt/emulator.hpp"
#include "tests/nccl_double/nccl_double.hpp"
#include "tests/support/counting_collective.hpp"
#include "tests/support/message_of.hpp"
#include "tests/support/mpi_main.hpp"
#include "tests/support/shared_folder.hpp"

namespace bora::unet3d {
namespace {

using bora::testing::CountingCollective;
using bora::testing::message_of;
using bora::testing::session;
using ::testing::HasSubstr;

/// The doubles without their backend: tensors are the emulated device's.
class Doubles final : public ::testing::Environment {
 public:
  void SetUp() override { nccl_double::start(); }
  void TearDown() override {
    const auto left = nccl_double::counters();
    EXPECT_EQ(0, left.communicators);
    EXPECT_EQ(0, left.misuses);
    nccl_double::stop();
  }
};
::testing::Environment* const kDoubles = ::testing::AddGlobalTestEnvironment(new Doubles);

/// What travels between the devices, by label.
class Labels final : public NcclObserver {
 public:
  void issued(const NcclNote& note) override {
    const std::lock_guard lock(mutex_);
    labels_.insert(note.label);
  }
  void finished(const NcclNote&) override {}
  void failed(const std::string&) override {}
  std::set<std::string> labels() {
    const std::lock_guard lock(mutex_);
    return labels_;
  }

 private:
  std::mutex mutex_;
  std::set<std::string> labels_;
};

const std::string& text_of(const std::string& label) { return label; }
const std::string& text_of(const std::pair<const std::string, int>& count) { return count.first; }

class DeviceRanks : public ::testing::Test {
 protected:
  // Each rank sees one device, as a scheduler shows it, and no two the same.
  DeviceRanks() {
    nccl_double::set_devices({"of rank " + std::to_string(session().rank())});
    host_ = make_communicator(session());
    // The emulator's work is done when it is issued, so that only NCCL's must be waited for; its
    // streams are not the double's.
    options_.wait = NcclWait::host;
    options_.observer = labels_;
    options_.timeout_s = options_.first_timeout_s = 60;
    nccl_ = make_nccl_communicator(*host_, nccl_place(session()), options_);
    shared_.emplace(*host_);
    folder_ = shared_->path();
  }
  int rank() const { return host_->rank(); }
  int size() const { return host_->size(); }

  Config config(const std::string& more, const std::string& run) const {
    Config c;
    config_load_text(c,
                     "data.root = 'samples/urban-wind'\ndata.shape = '9x8x6'\nmodel.base = 4\n"
                     "model.levels = 1\noptim.lr = 3e-3\nsplit.validation = 0.1\n"
                     "split.test = 0.75\noutput.log_every = 1\ntrain.epochs = 1\n"
                     "loader.threads = 0\noutput.dir = '" +
                         folder_ + "/" + run + "'\n",
                     "the test");
    config_load_text(c, more, "the test");  // over it
    return c;
  }

  StreamScope plain_{{cuda(0), nullptr}};
  std::shared_ptr<Labels> labels_ = std::make_shared<Labels>();
  NcclOptions options_;
  std::unique_ptr<Collective> host_;
  std::unique_ptr<NcclCommunicator> nccl_;
  std::optional<bora::testing::SharedFolder> shared_;
  std::string folder_;
};

// Feature 38 on devices: ranks with batch b train as one rank with batch N b; gradients and weights
// travel between the devices, the rest between the hosts; all ranks hold the same weights.
TEST_F(DeviceRanks, TrainAsOneRankDoes) {
  for (const char* norm : {"group", "sync_batch"}) {
    SCOPED_TRACE(norm);
    const std::string more = std::string("model.norm = '") + norm + "'\n";
    CountingCollective counting(*host_);
    Trainer many(config(more + "train.batch = 2\n", std::string("many-") + norm), counting,
                 {cuda(0), nccl_.get()});
    many.run();
    const auto self = make_self_communicator();
    Trainer one(config(more + "train.batch = " + std::to_string(2 * size()) + "\n",
                       "one-" + std::to_string(rank()) + norm),
                *self, {cuda(0)});
    one.run();
    EXPECT_EQ(many.updates(), one.updates());
    // Sums in another order: see DeviceTrainer.CurveFollowsTheCpus for 1e-3.
    EXPECT_NEAR(many.position().best / one.position().best, 1.0, 1e-3);

    const Tensor weights = many.arena().values().all().to(cpu());
    EXPECT_NO_THROW(check_same_everywhere(*host_, {{"weights", weights}}, "weights"));
    const std::set<std::string> between_devices = labels_->labels();
    EXPECT_EQ(between_devices.count("gradients, bucket 0"), 1u);
    EXPECT_EQ(between_devices.count("buffer 0"), 1u);
    for (const auto& [label, n] : counting.counts()) {
      EXPECT_FALSE(label.starts_with("gradients, bucket")) << label;
      EXPECT_FALSE(label.starts_with("buffer ")) << label;
      EXPECT_FALSE(label.starts_with("batch_norm")) << label;
    }
    const auto counts = counting.counts();
    const auto some = [](const auto& labels, const char* begin) {
      return std::any_of(labels.begin(), labels.end(),
                         [&](const auto& label) { return text_of(label).starts_with(begin); });
    };
    for (const char* begin : {"validation:", "training loss:"}) {
      EXPECT_TRUE(some(counts, begin)) << begin;
      EXPECT_FALSE(some(between_devices, begin)) << begin;
    }
  }
}

// Feature 130 on devices: an overflow on one rank's samples is all ranks' overflow.
TEST_F(DeviceRanks, AgreeOnSkippedUpdates) {
  Trainer trainer(config("train.epochs = 3\nprecision = 'fp16'\nscaler.initial = 268435456.0\n"
                         "scaler.highest = 268435456.0\n",
                         "half"),
                  *host_, {cuda(0), nccl_.get()});
  trainer.run();
  EXPECT_GT(trainer.updates(), 0);
  const Tensor weights = trainer.arena().values().all().to(cpu());
  EXPECT_NO_THROW(check_same_everywhere(*host_, {{"weights", weights}}, "weights"));
}

// What cannot be done between devices is refused before anything starts.
TEST_F(DeviceRanks, RefuseWhatIsMadeForTheHost) {
  const train::ComputePlace place{cuda(0), nccl_.get()};
  EXPECT_THAT(message_of([&] {
                Trainer(config("comm.all_reduce = 'reproducible'\n", "no"), *host_, place);
              }),
              HasSubstr("reproducible with device=cuda"));
  if (size() > 1) {
    EXPECT_THAT(
        message_of([&] { Trainer(config("comm.gradient_type = 'bf16'\n", "no"), *host_, place); }),
        HasSubstr("comm.gradient_type=bf16"));
  }
}

}  // namespace
}  // namespace bora::unet3d
