// SPDX-License-Identifier: Apache-2.0
// Rows 75, 89: image, label and weight that lie in one file are three fields to a cache, though
// image and weight have the same type, box and file.
#include <gtest/gtest.h>

#include "tests/data/volume_fixture.hpp"

namespace bora::data::test {
namespace {

class VolumeOneFile : public OneCaseTest, public ::testing::WithParamInterface<std::string> {};
INSTANTIATE_TEST_SUITE_P(Kinds, VolumeOneFile, ::testing::Values("ram", "shared", "disk"),
                         [](const auto& kind) { return kind.param; });

TEST_P(VolumeOneFile, ACacheKeepsItsFieldsApart) {
  const Dims3 grid{9, 8, 7};
  {
    hdf5::File file = hdf5::File::create(root + "/a.h5");
    file.write_dataset("raw", places(grid));
    file.write_dataset("label", Tensor::full({9, 8, 7}, 1, DType::u8));
    file.write_dataset("weight", Tensor::full({9, 8, 7}, 0.5, DType::f32));
    file.close();
  }
  VolumesConfig config = pairs();
  config.image_suffix = config.label_suffix = config.weight_suffix = ".h5";
  config.patch = {4, 4, 4};
  config.cache = {.kind = GetParam(), .limit_gib = 1, .folder = root + "/cache"};
  const VolumeDataset data(config);
  for (uint64_t k = 0; k < 4; ++k) {
    const Sample s = data.read(0, WindowChoice::random(key(k)));
    const Dims3 at = s.window.begin;
    for (int64_t i = 0; i < 64; ++i) {
      const int64_t x = at.d + i / 16, y = at.h + i / 4 % 4, z = at.w + i % 4;
      ASSERT_EQ(s.input.data<float>()[i], static_cast<float>(10000 * x + 100 * y + z));
      ASSERT_EQ(s.target.data<uint8_t>()[i], 1);
      ASSERT_EQ(s.weight.data<float>()[i], 0.5f);
    }
  }
  EXPECT_EQ(data.cache()->counts().kept, 3);
  EXPECT_EQ(data.cache()->counts().from_file, 0);
}

}  // namespace
}  // namespace bora::data::test
