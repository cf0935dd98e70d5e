// SPDX-License-Identifier: Apache-2.0
// Rows 89, 91: HDF5 fields with a channel axis in any place, and an order that is given beside
// the file's own names.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "data/hdf5.hpp"
#include "data/volume_file.hpp"
#include "tests/data/pipeline_support.hpp"

namespace bora::data::test {
namespace {

using ::testing::ElementsAre;

/// A data set of these extents that counts its elements.
hdf5::Dataset counted(hdf5::File& file, const Shape& shape) {
  std::vector<int32_t> values(static_cast<size_t>(shape.numel()));
  std::iota(values.begin(), values.end(), 0);
  return file.write_dataset("raw", Tensor::from(shape, values));
}

TEST(Hdf5Axes, SpacingsSkipTheChannelAxisWhereverItStands) {
  TempFolder folder;
  const std::string path = folder.file("a.h5");
  // x is 5 cells of 1 um, y 4 of 2 um, z 3 of 4 um; 2 channels.
  struct Case {
    const char* order;
    Shape shape;
    std::vector<double> sizes;
  };
  for (const Case& c : {Case{"czyx", {2, 3, 4, 5}, {4, 2, 1}},
                        {"czyx", {2, 3, 4, 5}, {7, 4, 2, 1}},
                        {"zcyx", {3, 2, 4, 5}, {4, 2, 1}},
                        {"zcyx", {3, 2, 4, 5}, {4, 7, 2, 1}},
                        {"xyzc", {5, 4, 3, 2}, {1, 2, 4}},
                        {"xyzc", {5, 4, 3, 2}, {1, 2, 4, 7}},
                        {"yxcz", {4, 5, 2, 3}, {2, 1, 4}}})
    for (const char* name : {"spacing", "element_size_um"}) {
      hdf5::File file = hdf5::File::create(path);
      counted(file, c.shape).set_attribute(name, c.sizes);
      file.close();
      const auto volume = open_volume({path, "raw", c.order});
      EXPECT_EQ(volume->info().grid, (Dims3{5, 4, 3})) << c.order;
      EXPECT_EQ(volume->info().channels, 2) << c.order;
      EXPECT_THAT(volume->info().spacing, ElementsAre(1, 2, 4)) << c.order << " " << name;
    }
}

TEST(Hdf5Axes, AnOrderThatIsGivenWinsOverTheNamesInTheFile) {
  TempFolder folder;
  const std::string path = folder.file("a.h5");
  hdf5::File file = hdf5::File::create(path);
  counted(file, {2, 3, 4})
      .set_attribute("DIMENSION_LABELS", std::vector<std::string>{"x", "y", "z"});
  file.close();
  EXPECT_EQ(open_volume({path, "raw", ""})->info().grid, (Dims3{2, 3, 4}));
  const auto turned = open_volume({path, "raw", "zyx"});
  EXPECT_EQ(turned->info().grid, (Dims3{4, 3, 2}));
  // The cell (x, y, z) of the order zyx is the element [z][y][x].
  EXPECT_EQ(turned->read({3, 2, 1}, {1, 1, 1}, DType::i32).item(), (1 * 3 + 2) * 4 + 3);
}

}  // namespace
}  // namespace bora::data::test
