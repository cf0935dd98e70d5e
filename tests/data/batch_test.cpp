// SPDX-License-Identifier: Apache-2.0
// Feature rows 74 (padding has no weight), 75 (same batches for any threads), 79 (random streams).
#include "data/batch.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <set>

#include "tests/data/pipeline_support.hpp"

namespace bora::data {
namespace {

using test::message_of;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

/// Five cases of 2x3x4 cells; the input is noise that depends on the choice and the index.
class NoiseDataset : public Dataset {
 public:
  int64_t size() const override { return 5; }
  int64_t n_channels() const override { return 2; }
  std::string name(int64_t index) const override { return "case" + std::to_string(index); }
  Sample read(int64_t index, const WindowChoice& choice) const override {
    Sample s;
    s.input = Tensor::empty({2, 3, 4, 2}, DType::f32);
    for (int64_t i = 0; i < s.input.numel(); ++i)
      s.input.data<float>()[i] = static_cast<float>(100 * index + i) +
                                 (choice.is_random ? choice.key.uniform(uint64_t(i)) : 0.0f);
    s.target = Tensor::full({2, 3, 4, 1}, static_cast<double>(index), DType::f32);
    s.region = Tensor::full({2, 3, 4}, 1, DType::u8);
    s.valid = Tensor::full({2, 3, index == odd_case ? 5 : 4}, 1, DType::u8);
    s.scaling = {1.0 + static_cast<double>(index), 2.0};
    s.angle_deg = 30;
    s.name = name(index);
    s.index = index;
    return s;
  }
  int64_t odd_case = -1;
};

std::vector<float> all_inputs(int n_threads, Reading reading, int64_t epoch, uint64_t seed) {
  const NoiseDataset dataset;
  const DistributedSampler sampler({.n_samples = 5, .seed = 4});
  Loader<Sample> loader({.n_threads = n_threads}, sample_reader(dataset, reading, seed),
                        sample_namer(dataset));
  loader.start(sampler.slots({epoch, 0}));
  std::vector<float> all;
  while (const auto batch = next_batch(loader, 2)) {
    const auto values = batch->input.to_vector<float>();
    all.insert(all.end(), values.begin(), values.end());
  }
  return all;
}

TEST(Batch, JoinsSamplesInOrder) {
  const NoiseDataset dataset;
  const auto read = [&](int64_t i) { return dataset.read(i, WindowChoice::centred()); };
  const Batch batch = collate({read(3), read(1), read(4)});
  EXPECT_EQ(batch.input.shape(), Shape({3, 2, 3, 4, 2}));
  EXPECT_EQ(batch.target.shape(), Shape({3, 2, 3, 4, 1}));
  EXPECT_EQ(batch.region.shape(), Shape({3, 2, 3, 4}));
  EXPECT_EQ(batch.valid.dtype(), DType::u8);
  EXPECT_EQ(batch.input.data<float>()[0], 300.0f);
  EXPECT_EQ(batch.input.data<float>()[48 + 47], 147.0f);
  EXPECT_EQ(batch.target.data<float>()[48], 4.0f);
  EXPECT_THAT(batch.names, ElementsAre("case3", "case1", "case4"));
  EXPECT_THAT(batch.indices, ElementsAre(3, 1, 4));
  EXPECT_THAT(batch.weights, ElementsAre(1, 1, 1));
  EXPECT_EQ(batch.scalings[1].mean, 2.0);
  EXPECT_EQ(batch.angles_deg[2], 30.0);
}

TEST(Batch, OfOneSampleSharesItsBytes) {
  const NoiseDataset dataset;
  const Sample sample = dataset.read(2, WindowChoice::centred());
  const Batch batch = collate({sample});
  EXPECT_EQ(batch.input.shape(), Shape({1, 2, 3, 4, 2}));
  EXPECT_EQ(batch.input.raw(), sample.input.raw());
}

TEST(Batch, NamesSamplesThatDoNotFitTogether) {
  NoiseDataset dataset;
  dataset.odd_case = 1;
  const auto read = [&](int64_t i) { return dataset.read(i, WindowChoice::centred()); };
  EXPECT_THAT(message_of([&] {
                collate({read(0), read(1)});
              }),
              AllOf(HasSubstr("case1 is (2, 3, 5) u8"), HasSubstr("case0 is (2, 3, 4) u8"),
                    HasSubstr("data.shape")));
  EXPECT_THROW(collate({}), Error);
  EXPECT_THROW(collate({read(0)}, {1, 1}), Error);
}

TEST(Batch, IsShorterAtTheEndAndWeighsPaddingZero) {
  const NoiseDataset dataset;
  Loader<Sample> loader({.n_threads = 2}, sample_reader(dataset, Reading::centred, 0));
  const DistributedSampler sampler({.n_samples = 5, .n_ranks = 2, .rank = 1, .shuffle = false});
  loader.start(sampler.slots({}));  // slots 1, 3 and, as padding, 5
  const auto first = next_batch(loader, 2), second = next_batch(loader, 2);
  ASSERT_TRUE(first && second);
  EXPECT_THAT(first->indices, ElementsAre(1, 3));
  EXPECT_THAT(first->weights, ElementsAre(1, 1));
  EXPECT_THAT(second->indices, ElementsAre(0));
  EXPECT_THAT(second->weights, ElementsAre(0));
  EXPECT_FALSE(next_batch(loader, 2).has_value());
  EXPECT_THROW(next_batch(loader, 0), Error);
}

TEST(Batch, HasTheSameBitsForAnyNumberOfThreads) {
  const auto reference = all_inputs(0, Reading::random, 3, 9);
  ASSERT_EQ(reference.size(), 5u * 48);
  for (const int n_threads : {1, 2, 4})
    EXPECT_EQ(all_inputs(n_threads, Reading::random, 3, 9), reference);
}

TEST(Batch, DrawsOtherNumbersForEachEpochSeedAndSample) {
  const NoiseDataset dataset;
  std::set<float> drawn;
  for (const uint64_t seed : {0, 1})
    for (const int64_t epoch : {0, 1})
      for (const int64_t index : {0, 1})
        drawn.insert(sample_reader(dataset, Reading::random, seed)({0, index, epoch, false})
                         .input.data<float>()[0] -
                     100.0f * static_cast<float>(index));
  EXPECT_EQ(drawn.size(), 8u);
}

}  // namespace
}  // namespace bora::data
