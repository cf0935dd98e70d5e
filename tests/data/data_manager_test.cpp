// SPDX-License-Identifier: Apache-2.0
// Rows 72 and 174 (epochs that were not told apart), 81 (sampler and loader as one object).
#include "data/data_manager.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "tests/data/pipeline_support.hpp"

namespace bora::data {
namespace {

using testing::AllOf;
using testing::HasSubstr;

/// One cell a case: its number, plus noise where training may vary it.
class Numbers : public Dataset {
 public:
  explicit Numbers(int64_t n) : n_(n) {}
  int64_t size() const override { return n_; }
  int64_t n_channels() const override { return 1; }
  std::string name(int64_t index) const override { return "case" + std::to_string(index); }
  Sample read(int64_t index, const WindowChoice& choice) const override {
    Sample s;
    s.input = Tensor::full(
        {1, 1, 1, 1},
        static_cast<double>(index) + (choice.is_random ? choice.key.uniform(0) : 0.0f), DType::f32);
    s.target = Tensor::zeros({1, 1, 1, 1}, DType::f32);
    s.region = s.valid = Tensor::full({1, 1, 1}, 1, DType::u8);
    s.index = index;
    s.name = name(index);
    return s;
  }

 private:
  int64_t n_;
};

using Batches = std::vector<std::vector<float>>;  // the inputs of each

Batches drain(DataManager& data) {
  Batches all;
  while (const auto batch = data.next()) all.push_back(batch->input.to_vector<float>());
  return all;
}

TEST(DataManager, RanksTogetherReadEachSampleOnceInTheSamplersOrder) {
  const Numbers ten(10);
  std::multiset<float> seen;
  for (int rank = 0; rank < 2; ++rank) {
    DataManager data(
        ten, {.n_ranks = 2, .rank = rank, .batch = 2, .seed = 3, .reading = Reading::centred});
    const auto slots = data.sampler().slots({4, 0});
    data.begin({4, 0});
    const Batches batches = drain(data);
    ASSERT_EQ(batches.size(), 3u);
    EXPECT_EQ(batches[2].size(), 1u);
    size_t i = 0;
    for (const auto& batch : batches)
      for (const float v : batch) {
        EXPECT_EQ(v, static_cast<float>(slots[i++].index));
        seen.insert(v);
      }
  }
  EXPECT_EQ(seen.size(), 10u);
  EXPECT_EQ(std::set<float>(seen.begin(), seen.end()).size(), 10u);
}

TEST(DataManager, GivesTheSameBatchesForAnyNumberOfThreadsAndGoesOnInsideAnEpoch) {
  const Numbers nine(9);
  const auto with = [&](int n_threads) {
    return DataManagerOptions{
        .n_ranks = 1, .batch = 2, .seed = 5, .loader = {.n_threads = n_threads}};
  };
  DataManager straight(nine, with(0));
  straight.begin({2, 0});
  const Batches wanted = drain(straight);
  EXPECT_EQ(straight.position(), (EpochPosition{3, 0}));
  for (const int n_threads : {1, 3}) {
    DataManager data(nine, with(n_threads));
    data.begin({2, 0});
    EXPECT_EQ(data.next()->input.to_vector<float>(), wanted[0]);
    EXPECT_EQ(data.next()->input.to_vector<float>(), wanted[1]);
    const EpochPosition stopped = data.position();
    EXPECT_EQ(stopped, (EpochPosition{2, 4}));
    DataManager resumed(nine, with(n_threads));
    resumed.begin(stopped);
    EXPECT_EQ(drain(resumed), Batches(wanted.begin() + 2, wanted.end()));
  }
}

TEST(DataManager, ALoopThatForgetsTheEpochGetsAnotherOrderEachTime) {
  const Numbers many(30);
  DataManager forgetful(many, {.batch = 4}), careful(many, {.batch = 4});
  Batches last;
  for (int64_t epoch = 0; epoch < 3; ++epoch) {
    const Batches here = drain(forgetful);
    EXPECT_NE(here, last);
    careful.begin({epoch, 0});
    EXPECT_EQ(here, drain(careful)) << epoch;
    last = here;
  }
}

TEST(DataManager, AnEpochBegunTwiceIsTheSameAndIsToldOnce) {
  const Numbers many(30);
  DataManager data(many, {.batch = 4});
  testing::internal::CaptureStderr();
  data.begin({0, 0});
  const Batches first = drain(data);
  data.begin({1, 0});
  data.begin({1, 8});  // goes on inside it: nothing to tell
  drain(data);
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
  testing::internal::CaptureStderr();
  data.begin({1, 0});
  data.begin({1, 0});
  const std::string told = testing::internal::GetCapturedStderr();
  EXPECT_THAT(told, AllOf(HasSubstr("epoch 1 is begun again"), HasSubstr("same order")));
  EXPECT_EQ(told.find("epoch 1"), told.rfind("epoch 1"));
  data.begin({0, 0});
  EXPECT_EQ(drain(data), first);
}

TEST(DataManager, RefusesWhatSamplerAndLoaderRefuse) {
  EXPECT_THROW(DataManager(Numbers(0), {}), UsageError);
  EXPECT_THROW(DataManager(Numbers(3), {.batch = 0}), UsageError);
  EXPECT_THROW(DataManager(Numbers(3), {.n_ranks = 2, .batch = 2, .tail = Tail::drop}), UsageError);
  EXPECT_THROW(DataManager(Numbers(3), {.loader = {.n_threads = -1}}), UsageError);
}

}  // namespace
}  // namespace bora::data
