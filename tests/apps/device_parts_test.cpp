// SPDX-License-Identifier: Apache-2.0
// The programs' parts that know of devices: upload, losses for the log, weights in and out, bench.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <functional>
#include <limits>

#include "apps/bench/step.hpp"
#include "apps/common/upload.hpp"
#include "apps/train/feed.hpp"
#include "apps/train/loss_log.hpp"
#include "apps/unet3d/exchange.hpp"
#include "apps/unet3d/setup.hpp"
#include "comm/communicator.hpp"
#include "nn/ops.hpp"
#include "tests/apps/device_runs.hpp"
#include "tests/apps/device_under_test.hpp"
#include "tests/apps/feed_trace.hpp"
#include "tests/support/message_of.hpp"

namespace bora::unet3d {
namespace {

using bora::testing::count_synchronisations;
using bora::testing::device_under_test;
using bora::testing::faults_of_feed;
using bora::testing::fed_batches;
using bora::testing::FedBatch;
using bora::testing::message_of;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::vector<float> numbers(int64_t n, float first) {
  std::vector<float> v(static_cast<size_t>(n));
  for (size_t i = 0; i < v.size(); ++i) v[i] = first + static_cast<float>(i);
  return v;
}

// Feature 76: the same data, in the same place each time, without a wait.
TEST(Uploader, BringsListsToOneFixedPlace) {
  apps::Uploader uploader(device_under_test());
  std::vector<const void*> places;
  const auto round = [&](float first) {
    const std::vector<float> a = numbers(1000, first), b = numbers(7, -first);
    uploader.send({Tensor::from<float>({10, 100}, a), Tensor::from<float>({7}, b),
                   Tensor::full({3}, 9, DType::u8), Tensor::zeros({0, 4}, DType::f32)});
    const std::vector<Tensor> there = uploader.take();
    ASSERT_EQ(there.size(), 4u);
    EXPECT_EQ(there[0].device(), device_under_test());
    EXPECT_EQ(there[0].shape(), Shape({10, 100}));
    EXPECT_EQ(there[0].to_vector<float>(), a);
    EXPECT_EQ(there[1].to_vector<float>(), b);
    EXPECT_EQ(there[2].to_vector<uint8_t>(), std::vector<uint8_t>(3, 9));
    EXPECT_EQ(there[3].numel(), 0);
    places.push_back(there[0].raw());
    places.push_back(there[1].raw());
  };
  for (const float first : {1.0f, 2.0f, 3.0f}) round(first);
  EXPECT_EQ(places[0], places[2]);
  EXPECT_EQ(places[1], places[5]);
  const Tensor x = Tensor::from<float>({1000}, numbers(1000, 5));
  EXPECT_EQ(count_synchronisations([&] {
              uploader.send({x});
              uploader.take();
            }),
            0);
}

// The next list may be sent while the last one is in use, not before it was taken.
TEST(Uploader, HasOneListUnderWay) {
  apps::Uploader uploader(device_under_test());
  const Tensor a = Tensor::from<float>({4}, numbers(4, 1)),
               b = Tensor::from<float>({4}, numbers(4, 8));
  EXPECT_THROW(uploader.take(), Error);
  uploader.send({a});
  EXPECT_THROW(uploader.send({b}), Error);
  const Tensor first = uploader.take()[0];
  uploader.send({b});
  EXPECT_EQ(first.to_vector<float>(), numbers(4, 1));  // until the next take
  uploader.drop();
  EXPECT_THROW(uploader.take(), Error);
  EXPECT_THAT(message_of([&] { uploader.send({a.to(device_under_test())}); }),
              HasSubstr("wants tensors on the host"));
  EXPECT_THROW(apps::Uploader{cpu()}, Error);
}

// A bigger list than before, as an epoch of larger samples would bring, moves to a bigger place.
TEST(Uploader, GrowsWithItsLists) {
  apps::Uploader uploader(device_under_test());
  for (const int64_t n : {int64_t{3}, int64_t{5000}, int64_t{1}, int64_t{0}, int64_t{200000}}) {
    uploader.send({Tensor::from<float>({n}, numbers(n, 2))});
    EXPECT_EQ(uploader.take()[0].to_vector<float>(), numbers(n, 2)) << n;
  }
}

/// Volumes of 6 x 5 x 4 cells, sample i counting from 1000 i, with weights of the cells.
class Counting final : public data::Dataset {
 public:
  int64_t size() const override { return 9; }
  data::Sample read(int64_t index, const data::WindowChoice&) const override {
    const auto first = static_cast<float>(1000 * index);
    data::Sample s;
    s.input = Tensor::from<float>({6, 5, 4, 1}, numbers(120, first));
    s.target = Tensor::full({6, 5, 4, 1}, static_cast<double>(index), DType::u8);
    s.weight = Tensor::from<float>({6, 5, 4}, numbers(120, first + 500));
    return s;
  }
};

/// What a loop as Trainer::train_window() leaves behind: `fault` runs between a computation and the
/// prefetch behind it.
struct FeedRun {
  std::vector<simt::TracedWork> trace;
  int64_t pageable = 0;
  std::vector<std::vector<float>> inputs, weights, doubled;
};
FeedRun run_feed(int threads, const std::function<void()>& fault) {
  const Counting data;
  const apps::WindowPlan plan({.n_samples = data.size(), .seed = 5}, {.batch = 2});
  train::BatchFeed feed(data, plan, 5, {.threads = threads}, device_under_test());
  const data::EpochPosition begin{};
  const auto n = static_cast<int64_t>(plan.updates_an_epoch());
  std::vector<Tensor> inputs, weights, doubled;
  FeedRun run;
  simt::begin_trace();
  const int64_t before = simt::counters().pageable_copies;
  feed.start(begin);
  for (int64_t k = 0; k < n; ++k) {
    const train::MicroStep step = feed.next();
    inputs.push_back(nn::relu(step.batch.input));  // the values are not negative
    weights.push_back(nn::relu(step.batch.weight));
    doubled.push_back(nn::add(step.batch.input, step.batch.input));
    fault();
    feed.prefetch();
  }
  run.trace = simt::end_trace();
  run.pageable = simt::counters().pageable_copies - before;
  for (int64_t k = 0; k < n; ++k) {
    const auto at = static_cast<size_t>(k);
    run.inputs.push_back(inputs[at].to_vector<float>());
    run.weights.push_back(weights[at].to_vector<float>());
    run.doubled.push_back(doubled[at].to_vector<float>());
  }
  return run;
}

// Feature 76: a batch goes to the device from pinned memory, while a device may compute with the
// one before, and its values arrive.
TEST(BatchFeed, CopiesABatchBesideTheComputationWithTheOneBefore) {
  const Counting data;
  const apps::WindowPlan plan({.n_samples = data.size(), .seed = 5}, {.batch = 2});
  const std::vector<data::Slot> slots = plan.slots({});
  for (const int threads : {0, 2}) {
    SCOPED_TRACE(threads);
    const FeedRun run = run_feed(threads, [] {});
    const std::vector<FedBatch> batches = fed_batches(run.trace);
    ASSERT_EQ(batches.size(), 5u);
    EXPECT_THAT(faults_of_feed(batches), IsEmpty());
    EXPECT_EQ(run.pageable, 0);
    for (const FedBatch& batch : batches) EXPECT_EQ(batch.kernels.size(), 3u);
    for (size_t i = 0; i < slots.size(); ++i) {
      if (slots[i].padding) continue;
      const data::Sample sample = data.read(slots[i].index, data::WindowChoice::centred());
      const auto part_of = [&](const std::vector<std::vector<float>>& all) {
        const auto begin = all[i / 2].begin() + static_cast<long>(i % 2 * 120);
        return std::vector<float>(begin, begin + 120);
      };
      EXPECT_EQ(part_of(run.inputs), sample.input.to_vector<float>()) << i;
      EXPECT_EQ(part_of(run.weights), sample.weight.to_vector<float>()) << i;
      for (const auto& [twice, once] : {std::pair{part_of(run.doubled), part_of(run.inputs)}})
        for (size_t k = 0; k < once.size(); ++k) ASSERT_EQ(twice[k], 2 * once[k]) << i;
    }
  }
}

// The test above would see a feed that waits: for the stream, or for an event of it.
TEST(BatchFeed, AWaitForTheComputationIsSeen) {
  const std::function<void()> waits[] = {
      [] { current_stream(device_under_test()).synchronize(); },
      [] { current_stream(device_under_test()).record().synchronize(); }};
  for (const auto& wait : waits)
    EXPECT_THAT(faults_of_feed(fed_batches(run_feed(2, wait).trace)),
                Contains("batch 1: is sent after the computation before it"));
}

// The same of the trainer's own loop: replayed as a graph, and work by work with two micro-steps.
TEST_F(DeviceTrainer, BatchesComeBesideTheComputation) {
  for (const auto& [way, accumulate] : {std::pair{"auto", "1"}, {"off", "2"}}) {
    SCOPED_TRACE(way);
    simt::begin_trace();
    const Run run = train(device_under_test(),
                          std::string("train.epochs = 1\ntrain.batch = 1\nsplit.test = 0.85\n") +
                              "split.validation = 0.05\ntrain.accumulate = " + accumulate +
                              "\ntrain.step_graph = '" + way + "'\n");
    const std::vector<FedBatch> batches = fed_batches(simt::end_trace());
    EXPECT_GE(batches.size(), static_cast<size_t>(run.updates));
    EXPECT_GE(run.updates, 2);
    EXPECT_THAT(faults_of_feed(batches), IsEmpty());
  }
}

// Losses of windows that have been reported are summed, later ones wait for their turn; what is
// not finite and what has no weight does not count.
TEST(LossLog, SumsWhatWasReported) {
  const auto self = make_self_communicator();
  const auto loss = [](float value, Device device) {
    train::Loss l;
    l.parts.emplace_back("loss", Tensor::full({}, static_cast<double>(value), DType::f32, device));
    return l;
  };
  for (const Device device : {cpu(), device_under_test()}) {
    train::LossLog log({"loss"}, device, 2);
    const auto window = [&](int64_t number, float a, float b, double weight_b) {
      log.keep(0, loss(a, device));
      log.note(2 * number, 2.0, loss(a, device));
      log.keep(1, loss(b, device));
      log.note(2 * number + 1, weight_b, loss(b, device));
      log.end_window(number);
    };
    window(1, 1.0f, 4.0f, 1.0);
    window(2, std::numeric_limits<float>::infinity(), 3.0f, 1.0);
    MetricSums sums = log.reduce(*self, 2, "losses");
    EXPECT_EQ(sums.mean("loss"), (2 * 1.0 + 4.0 + 3.0) / 4);
    window(3, 7.0f, 100.0f, 0.0);
    if (device != cpu()) window(4, 9.0f, 9.0f, 1.0);
    EXPECT_EQ(log.reduce(*self, 3, "losses").mean("loss"), 7.0);
    if (device != cpu()) {
      EXPECT_EQ(log.reduce(*self, 4, "losses").mean("loss"), 9.0);
    }
    EXPECT_EQ(count_synchronisations([&] { window(5, 1, 1, 1); }), 0);
  }
}

// Weights of a network on the device go to a file and come back, as those on the host do.
TEST(Exchange, OfANetworkOnTheDevice) {
  char name[] = "/tmp/bora_exchange_XXXXXX";
  ASSERT_NE(::mkdtemp(name), nullptr);
  const std::string path = std::string(name) + "/w.safetensors";
  const ModelConfig model{.base = 4, .levels = 1, .norm = "batch"};
  UNet3d here(1, 1, model), there(1, 1, model), back(1, 1, model);
  nn::ParameterArena a(here, DType::f32), b(there, DType::f32, device_under_test()),
      c(back, DType::f32, device_under_test());
  nn::initialise(here, 3);
  nn::initialise(there, 3);
  nn::initialise(back, 4);
  for (const nn::NamedBuffer& buffer : nn::named_buffers(there))
    EXPECT_EQ(buffer.buffer->device(), device_under_test()) << buffer.name;
  const auto mine = torch_tensors(here), theirs = torch_tensors(there);
  ASSERT_EQ(mine.size(), theirs.size());
  for (size_t i = 0; i < mine.size(); ++i)
    EXPECT_EQ(mine[i].tensor.to_vector<float>(), theirs[i].tensor.to_vector<float>())
        << mine[i].name;
  data::write_safetensors(path, theirs, {});
  load_torch_tensors(data::SafetensorsReader(path), back);
  EXPECT_EQ(c.values().all().to_vector<float>(), b.values().all().to_vector<float>());
  std::filesystem::remove_all(name);
}

// bench_step on the device: the loss of the CPU's step, the same with a graph and without, and no
// wait in a step.
TEST(Bench, StepsOnTheDevice) {
  const auto self = make_self_communicator();
  bench::StepConfig config;
  config.model.base = 4;
  config.model.levels = 1;
  config.size = {6, 5, 4};
  for (const char* way : {"auto", "off"}) {
    config.step_graph = way;
    bench::Step there(config, *self, {device_under_test()});
    bench::Step again(config, *self);
    for (int i = 0; i < 7; ++i) {
      there.run();
      again.run();
      EXPECT_NEAR(there.loss(), again.loss(), 1e-4 * again.loss()) << way << " step " << i;
    }
    EXPECT_STREQ(there.way(), std::string(way) == "auto" ? "replayed" : "eager");
    EXPECT_EQ(count_synchronisations([&] { there.run(); }), 0) << way;
    EXPECT_EQ(there.skipped(), 0);
  }
}

}  // namespace
}  // namespace bora::unet3d
