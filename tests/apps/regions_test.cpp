// SPDX-License-Identifier: Apache-2.0
// Regions and trivial predictors of an evaluation (features 112, 113, 115).
#include "apps/unet3d/regions.hpp"

#include <gtest/gtest.h>

#include "apps/unet3d/trivial.hpp"
#include "comm/communicator.hpp"

namespace bora::unet3d {
namespace {

Tensor bytes(const Shape& shape, std::vector<uint8_t> v) { return Tensor::from<uint8_t>(shape, v); }

int64_t count(const Tensor& mask) {
  int64_t n = 0;
  for (const uint8_t b : mask.to_vector<uint8_t>()) n += b;
  return n;
}

// 4 x 3 x 3 cells; one building from (1, 1) to (2, 1), two levels high.
TEST(Regions, AreLowCellsAndTheBoxAroundTheBuildings) {
  const Shape shape{4, 3, 3};
  Tensor building = Tensor::zeros(shape, DType::u8), open = Tensor::full(shape, 1, DType::u8);
  const auto at = [](int64_t x, int64_t y, int64_t z) { return (x * 3 + y) * 3 + z; };
  for (const int64_t x : {1, 2})
    for (int64_t z = 0; z < (x == 1 ? 2 : 1); ++z) {
      building.data<uint8_t>()[at(x, 1, z)] = 1;
      open.data<uint8_t>()[at(x, 1, z)] = 0;
    }
  const auto masks = region_masks(open, building, {10, 20, 30});
  EXPECT_EQ(count(masks[0]), 36 - 3);
  EXPECT_EQ(count(masks[1]), 24 - 3);
  EXPECT_EQ(count(masks[2]), 1);  // the box is (1..2, 1, 0..1): 4 cells, 3 of them building
  EXPECT_EQ(masks[2].data<uint8_t>()[at(2, 1, 1)], 1);
  EXPECT_THROW(region_masks(open, building, {10, 20}), Error);
  EXPECT_EQ(count(region_masks(open, Tensor::zeros(shape, DType::u8), {10, 20, 30})[2]), 0);
}

TEST(TrivialPredictors, AreTheMeansOverOpenCells) {
  TrivialPredictors fit(Dims3{2, 1, 2});
  fit.add(Tensor::from<float>({2, 1, 2}, std::vector<float>{1, 2, 3, 99}),
          bytes({2, 1, 2}, {1, 1, 1, 0}));
  fit.add(Tensor::from<float>({2, 1, 2}, std::vector<float>{5, 4, 98, 97}),
          bytes({2, 1, 2}, {1, 1, 0, 0}));
  const auto self = make_self_communicator();
  fit.reduce(*self);
  const auto fields = fit.fields();
  EXPECT_EQ(fields[0].to_vector<float>(), (std::vector<float>{3, 3, 3, 3}));
  EXPECT_EQ(fields[1].to_vector<float>(),
            (std::vector<float>{3, 3, 3, 3}));  // levels (1+3+5)/3 and (2+4)/2
  EXPECT_EQ(fields[2].to_vector<float>(), (std::vector<float>{3, 3, 3, 3}));
  fit.add(Tensor::from<float>({2, 1, 2}, std::vector<float>{0, 9, 0, 0}),
          bytes({2, 1, 2}, {0, 1, 0, 0}));
  const auto again = fit.fields();
  EXPECT_EQ(again[0].to_vector<float>()[0], 4);
  EXPECT_EQ(again[1].to_vector<float>(), (std::vector<float>{3, 5, 3, 5}));
  EXPECT_EQ(again[2].to_vector<float>(),
            (std::vector<float>{3, 5, 3, 5}));  // the never open cell takes its level's mean
}

TEST(TrivialPredictors, RefuseNothingAndNonsense) {
  TrivialPredictors fit(Dims3{1, 1, 1});
  EXPECT_THROW(fit.fields(), Error);
  EXPECT_THROW(fit.add(Tensor::full({1, 1, 1}, 1e6, DType::f32), bytes({1, 1, 1}, {1})), Error);
  EXPECT_THROW(fit.add(Tensor::full({1, 1, 2}, 1, DType::f32), bytes({1, 1, 2}, {1, 1})), Error);
}

}  // namespace
}  // namespace bora::unet3d
