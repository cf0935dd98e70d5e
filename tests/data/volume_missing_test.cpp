// SPDX-License-Identifier: Apache-2.0
// Rows 89, 93: a cell without a value in any one of its channels is left out.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/data/volume_fixture.hpp"

namespace bora::data::test {
namespace {

class VolumeMissing : public OneCaseTest {};

TEST_F(VolumeMissing, ACellThatLacksOneChannelIsLeftOut) {
  Tensor image = Tensor::full({2, 2, 2, 3}, 5, DType::f32);
  float* v = image.data<float>();
  v[1 * 3 + 0] = NAN;  // cell 1 lacks its first channel, 3 the second, 6 the last, 7 all
  v[3 * 3 + 1] = NAN;
  v[6 * 3 + 2] = NAN;
  for (int c = 0; c < 3; ++c) v[7 * 3 + c] = NAN;
  write("a_image.h5", "raw", image);
  write("a_label.h5", "label", Tensor::full({2, 2, 2}, 1, DType::u8));
  VolumesConfig config = pairs();
  config.order = "xyzc";
  config.missing = "mask";
  const Sample s = VolumeDataset(config).read(0, WindowChoice::centred());
  ASSERT_EQ(s.input.shape(), (Shape{2, 2, 2, 3}));
  for (int64_t i = 0; i < 8; ++i) {
    const bool lacks = i == 1 || i == 3 || i == 6 || i == 7;
    EXPECT_EQ(s.valid.data<uint8_t>()[i], lacks ? 0 : 1) << i;
    EXPECT_EQ(s.region.data<uint8_t>()[i], lacks ? 0 : 1) << i;
    // All of its channels hold the padding's value, not what is left of them.
    for (int64_t c = 0; c < 3; ++c)
      EXPECT_EQ(s.input.data<float>()[i * 3 + c], lacks ? 0 : 5) << i << " " << c;
  }
}

}  // namespace
}  // namespace bora::data::test
