// SPDX-License-Identifier: Apache-2.0
// What a data set may leave open, and what it may not (feature 150).
#include "data/dataset.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "data/batch.hpp"
#include "tests/data/pipeline_support.hpp"

namespace bora::data {
namespace {

using test::message_of;
using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// Three cases of input and target, and whatever a test adds.
class Plain : public Dataset {
 public:
  int64_t size() const override { return 3; }
  Sample read(int64_t index, const WindowChoice&) const override {
    Sample s;
    s.input = Tensor::full({2, 3, 4, 5}, static_cast<double>(index), DType::f32);
    s.target = Tensor::full({2, 3, 4}, 1, DType::u8);
    if (change) change(s);
    return s;
  }
  std::function<void(Sample&)> change;
};

TEST(Dataset, NeedsNoMoreThanSizeAndRead) {
  const Plain plain;
  EXPECT_EQ(plain.name(2), "sample 2");
  EXPECT_EQ(plain.group(2), "sample 2");
  EXPECT_EQ(plain.n_channels(), 5);
  const Sample s = read_sample(plain, 2, WindowChoice::centred());
  EXPECT_EQ(s.name, "sample 2");
  EXPECT_EQ(s.index, 2);
  for (const Tensor& mask : {s.region, s.valid}) {
    EXPECT_EQ(mask.shape(), Shape({2, 3, 4}));
    EXPECT_THAT(mask.to_vector<uint8_t>(), Each(1));
  }
  const Batch batch = collate({s, read_sample(plain, 0, WindowChoice::centred())});
  EXPECT_EQ(batch.region.shape(), Shape({2, 2, 3, 4}));
  EXPECT_EQ(batch.target.shape(), Shape({2, 2, 3, 4}));
  EXPECT_THAT(batch.names, ElementsAre("sample 2", "sample 0"));
  EXPECT_THAT(batch.indices, ElementsAre(2, 0));
}

TEST(Dataset, KeepsWhatTheDataSetSays) {
  Plain plain;
  plain.change = [](Sample& s) {
    s.name = "mine";
    s.index = 7;
    s.region = Tensor::zeros({2, 3, 4}, DType::u8);
  };
  const Sample s = read_sample(plain, 1, WindowChoice::centred());
  EXPECT_EQ(s.name, "mine");
  EXPECT_EQ(s.index, 7);
  EXPECT_THAT(s.region.to_vector<uint8_t>(), Each(0));
  EXPECT_THAT(s.valid.to_vector<uint8_t>(), Each(1));
}

// Any rank of the input, and no cells.
TEST(Dataset, MasksFollowTheInput) {
  Plain plain;
  for (const Shape& cells : {Shape{}, Shape{7}, Shape{2, 0}, Shape{3, 1}}) {
    plain.change = [&](Sample& s) { s.input = Tensor::zeros(cells.append(2), DType::f32); };
    EXPECT_EQ(read_sample(plain, 0, WindowChoice::centred()).region.shape(), cells);
  }
}

TEST(Dataset, NamesTheSampleAndWhatIsWrongWithIt) {
  Plain plain;
  const auto refused = [&](std::function<void(Sample&)> change) {
    plain.change = std::move(change);
    return message_of([&] { read_sample(plain, 1, WindowChoice::centred()); });
  };
  EXPECT_THAT(refused([](Sample& s) { s.input = Tensor(); }), HasSubstr("sample 1 has no input"));
  EXPECT_THAT(refused([](Sample& s) { s.target = Tensor(); }), HasSubstr("sample 1 has no target"));
  EXPECT_THAT(refused([](Sample& s) { s.input = Tensor::zeros({}, DType::f32); }),
              HasSubstr("the input of sample 1 has no axes"));
  EXPECT_THAT(refused([](Sample& s) {
                s.region = Tensor::zeros({2, 3}, DType::u8);
              }),
              AllOf(HasSubstr("'region' of sample 1 is (2, 3)"), HasSubstr("wanted (2, 3, 4) u8")));
  EXPECT_THAT(refused([](Sample& s) {
                s.valid = Tensor::zeros({2, 3, 4}, DType::f32);
              }),
              HasSubstr("'valid' of sample 1 is (2, 3, 4) f32"));
}

}  // namespace
}  // namespace bora::data
