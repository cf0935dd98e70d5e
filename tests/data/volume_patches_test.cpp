// SPDX-License-Identifier: Apache-2.0
// Rows 75, 79, 90, 92: patches of volumes, as a pure function of a key.
#include <gmock/gmock.h>

#include <cmath>
#include <thread>

#include "data/batch.hpp"
#include "tests/data/volume_fixture.hpp"
#include "tests/support/message_of.hpp"

namespace bora::data::test {
namespace {

using bora::testing::message_of;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class VolumePatches : public OneCaseTest {};

bool contains(const Window& w, const Dims3& cell) {
  for (int i = 0; i < 3; ++i)
    if (cell[i] < w.begin[i] || cell[i] >= w.begin[i] + w.shape[i]) return false;
  return true;
}

TEST_F(VolumePatches, ACaseIsReadWholeAsItIs) {
  const VolumeDataset data = one_case({5, 4, 3}, {{4, 3, 2}}, [](auto& c) { c.patch = {2, 2, 2}; });
  const Sample s = read_sample(data, 0, WindowChoice::centred());
  EXPECT_EQ(s.input.shape(), (Shape{5, 4, 3, 1}));
  EXPECT_EQ(s.input.to_vector<float>(), places({5, 4, 3}).to_vector<float>());
  EXPECT_EQ(s.target.shape(), (Shape{5, 4, 3, 1}));
  EXPECT_EQ(s.target.dtype(), DType::u8);
  EXPECT_EQ(s.target.data<uint8_t>()[59], 1);
  EXPECT_EQ(s.target.data<uint8_t>()[58], 0);
  EXPECT_EQ(s.region.to_vector<uint8_t>(), std::vector<uint8_t>(60, 1));
  EXPECT_FALSE(s.weight.defined());
  EXPECT_TRUE(s.window.is_whole_grid());
  EXPECT_EQ(s.name, "a");
}

TEST_F(VolumePatches, ImageLabelAndWindowOfAPatchBelongTogether) {
  const VolumeDataset data = one_case({9, 8, 7}, {{4, 3, 2}}, [](auto& c) { c.patch = {3, 2, 4}; });
  for (uint64_t k = 0; k < 50; ++k) {
    const Sample s = data.read(0, WindowChoice::random(key(k)));
    const Window& w = s.window;
    ASSERT_EQ(s.input.shape(), (Shape{3, 2, 4, 1}));
    int64_t i = 0;
    for (int64_t x = 0; x < 3; ++x)
      for (int64_t y = 0; y < 2; ++y)
        for (int64_t z = 0; z < 4; ++z, ++i) {
          const Dims3 cell{w.begin.d + x, w.begin.h + y, w.begin.w + z};
          EXPECT_EQ(s.input.data<float>()[i],
                    static_cast<float>(10000 * cell.d + 100 * cell.h + cell.w));
          EXPECT_EQ(s.target.data<uint8_t>()[i], cell == Dims3(4, 3, 2) ? 1 : 0);
        }
  }
}

TEST_F(VolumePatches, EveryPlaceComesEquallyOften) {
  const VolumeDataset data = one_case({5, 4, 3}, {}, [](auto& c) { c.patch = {3, 4, 2}; });
  std::map<std::array<int64_t, 3>, int64_t> counts;
  const int64_t n = 6000;
  for (int64_t k = 0; k < n; ++k) {
    const Window w = data.patch_window(0, key(static_cast<uint64_t>(k)));
    ++counts[{w.begin.d, w.begin.h, w.begin.w}];
  }
  ASSERT_EQ(counts.size(), 3U * 1U * 2U);  // so every cell is in some patch
  const double p = 1.0 / 6, five_sigma = 5 * std::sqrt(static_cast<double>(n) * p * (1 - p));
  for (const auto& [begin, count] : counts)
    EXPECT_NEAR(static_cast<double>(count), static_cast<double>(n) * p, five_sigma);
}

TEST_F(VolumePatches, TheShareOfForegroundPatchesIsAsAsked) {
  // One labelled cell in a corner of a large volume: a patch anywhere holds it with chance
  // 1 / 30^3, so whether it is there says how the patch was drawn.
  const Dims3 cell{31, 31, 31};
  const VolumeDataset data = one_case({32, 32, 32}, {cell}, [](auto& c) {
    c.patch = {3, 3, 3};
    c.foreground = 0.3;
  });
  const int64_t n = 3000;
  int64_t hits = 0;
  for (int64_t k = 0; k < n; ++k) {
    const Window w = data.patch_window(0, key(static_cast<uint64_t>(k)));
    EXPECT_FALSE(w.has_padding());
    hits += contains(w, cell);
  }
  const double p = 0.3, five_sigma = 5 * std::sqrt(static_cast<double>(n) * p * (1 - p));
  EXPECT_NEAR(static_cast<double>(hits), static_cast<double>(n) * p, five_sigma);
}

TEST_F(VolumePatches, LabelledCellsAtTheEdgeAreInThePatchThatIsMovedToFit) {
  for (const Dims3 cell : {Dims3{0, 0, 0}, Dims3{8, 7, 6}, Dims3{0, 7, 3}, Dims3{4, 0, 6}}) {
    const VolumeDataset data = one_case({9, 8, 7}, {cell}, [](auto& c) {
      c.patch = {4, 5, 7};
      c.foreground = 1;
    });
    const Sample s = data.read(0, WindowChoice::random(key(1)));
    EXPECT_TRUE(contains(s.window, cell)) << cell;
    EXPECT_FALSE(s.window.has_padding());
    const auto labels = s.target.to_vector<uint8_t>();
    EXPECT_EQ(std::count(labels.begin(), labels.end(), 1), 1);
  }
}

TEST_F(VolumePatches, APatchIsCentredOnItsCellWhereThereIsRoom) {
  const VolumeDataset data = one_case({20, 20, 20}, {{10, 9, 8}}, [](auto& c) {
    c.patch = {5, 4, 3};
    c.foreground = 1;
  });
  EXPECT_EQ(data.patch_window(0, key(3)).begin, (Dims3{10 - 2, 9 - 2, 8 - 1}));
}

TEST_F(VolumePatches, EachClassHasTheSameChanceByClass) {
  Tensor label = no_labels({30, 3, 3});
  for (int64_t i = 0; i < 9 * 20; ++i) label.data<uint8_t>()[i] = 1;  // x < 20
  label.data<uint8_t>()[9 * 29] = 3;                                  // cell (29, 0, 0)
  write_pair("a", places({30, 3, 3}), label);
  VolumesConfig config = pairs();
  config.classes = {"none", "large", "absent", "small"};
  config.patch = {1, 1, 1};
  config.foreground = 1;
  const double n = 3000;
  for (const bool by_class : {false, true}) {
    config.foreground_by_class = by_class;
    const VolumeDataset data(config);
    int64_t small = 0;
    for (uint64_t k = 0; k < 3000; ++k) {
      const Window w = data.patch_window(0, key(k));
      EXPECT_TRUE(w.begin.d < 20 || w.begin == Dims3(29, 0, 0));
      small += w.begin.d == 29;
    }
    const double p = by_class ? 0.5 : 1.0 / 181;
    EXPECT_NEAR(static_cast<double>(small), n * p, 5 * std::sqrt(n * p * (1 - p)));
  }
}

TEST_F(VolumePatches, AVolumeWithoutForegroundIsDrawnFromAnywhereAndToldOnce) {
  const VolumeDataset data = one_case({9, 8, 7}, {}, [](auto& c) {
    c.patch = {4, 4, 4};
    c.foreground = 1;
  });
  ::testing::internal::CaptureStderr();
  std::set<int64_t> begins;
  for (uint64_t k = 0; k < 200; ++k) begins.insert(data.patch_window(0, key(k)).begin.d);
  const std::string log = ::testing::internal::GetCapturedStderr();
  EXPECT_EQ(begins.size(), 6U);
  const std::string line = "no labelled cell in '" + root + "/a_label.h5'";
  ASSERT_THAT(log, HasSubstr(line));
  EXPECT_THAT(log.substr(log.find(line) + 1), Not(HasSubstr(line)));
}

TEST_F(VolumePatches, WhatIsSmallerThanThePatchIsPadded) {
  const VolumeDataset data = one_case({3, 8, 2}, {{0, 0, 0}}, [](auto& c) {
    c.patch = {6, 4, 5};
    c.foreground = 1;
    c.padding = "minimum";
    c.normalisation = "fixed";
    c.fixed_mean = {100};
    c.fixed_sigma = {2};
  });
  const Sample s = data.read(0, WindowChoice::random(key(2)));
  EXPECT_EQ(s.window.begin, (Dims3{-1, 0, -1}));
  int64_t i = 0, n_inside = 0;
  for (int64_t x = 0; x < 6; ++x)
    for (int64_t y = 0; y < 4; ++y)
      for (int64_t z = 0; z < 5; ++z, ++i) {
        const bool inside = x >= 1 && x < 4 && z >= 1 && z < 3;
        n_inside += inside;
        EXPECT_EQ(s.valid.data<uint8_t>()[i], inside);
        EXPECT_EQ(s.region.data<uint8_t>()[i], inside);
        const double value = inside ? static_cast<double>(10000 * (x - 1) + 100 * y + z - 1) : 0;
        EXPECT_EQ(s.input.data<float>()[i], static_cast<float>((value - 100) / 2));
        EXPECT_EQ(s.target.data<uint8_t>()[i], x == 1 && y == 0 && z == 1 ? 1 : 0);
      }
  EXPECT_EQ(n_inside, 3 * 4 * 2);
}

TEST_F(VolumePatches, ABoxIsAVolumeOfItsOwn) {
  write_pair("a", places({6, 5, 4}), no_labels({6, 5, 4}));
  write_list("m.csv", "case,image,box\nlow,a_image.h5,\"0:3,,\"\nhigh,a_image.h5,\"3:6,1:4,2:\"\n");
  VolumesConfig config = pairs();
  config.list = "m.csv";
  config.patch = {2, 2, 2};
  const VolumeDataset data(config);
  ASSERT_EQ(data.name(0), "high");
  const Sample whole = data.read(0, WindowChoice::centred());
  EXPECT_EQ(whole.input.shape(), (Shape{3, 3, 2, 1}));
  EXPECT_EQ(whole.input.data<float>()[0], 30102);
  for (uint64_t k = 0; k < 50; ++k) {
    const Sample s = data.read(0, WindowChoice::random(key(k)));
    const Dims3 b = s.window.begin;
    EXPECT_EQ(s.input.data<float>()[0], static_cast<float>(30102 + 10000 * b.d + 100 * b.h + b.w));
    EXPECT_LT(data.read(1, WindowChoice::random(key(k))).input.data<float>()[7], 30000);
  }
}

TEST_F(VolumePatches, TheSameBitsFromAnyThreadAndLoader) {
  SyntheticVolumesOptions o;
  o.n_cases = 3;
  o.grid = {14, 13, 12};
  write_synthetic_volumes(root, o);
  VolumesConfig config = synthetic();
  config.patch = {8, 8, 8};
  config.foreground = 0.5;
  config.patches_per_volume = 4;
  const VolumeDataset data(config);
  const std::vector<int64_t> patches = data.patches_of({0, 1, 2});
  EXPECT_EQ(patches.size(), 12U);
  const Subset training(data, patches);
  const DistributedSampler sampler({.n_samples = training.size(), .seed = 1});
  std::vector<std::vector<float>> wanted;
  for (const int threads : {0, 1, 4}) {
    const VolumeDataset fresh(config);  // labelled cells are found again, by other threads
    const Subset mine(fresh, patches);
    Loader<Sample> loader({.n_threads = threads}, sample_reader(mine, Reading::random, 9),
                          sample_namer(mine));
    loader.start(sampler.slots({}));
    std::vector<std::vector<float>> found;
    while (std::optional<Sample> s = loader.next()) {
      found.push_back(s->input.to_vector<float>());
      for (const uint8_t label : s->target.to_vector<uint8_t>()) found.back().push_back(label);
    }
    if (wanted.empty()) wanted = found;
    EXPECT_EQ(found, wanted) << threads << " threads";
  }
  // Patches of one volume differ within an epoch.
  EXPECT_EQ(std::set<std::vector<float>>(wanted.begin(), wanted.end()).size(), 12U);
}

TEST_F(VolumePatches, ARepeatedDrawOfASampleIsAnotherPatch) {
  const VolumeDataset data = one_case({20, 20, 20}, {}, [](auto& c) { c.patch = {4, 4, 4}; });
  const auto read = sample_reader(data, Reading::random, 1);
  const Slot first{.slot = 0, .index = 0}, again{.slot = 1, .index = 0, .repeat = 1};
  EXPECT_FALSE(read(first).window == read(again).window);
}

TEST(ForegroundCells, OfManyCellsEachIsKeptWithTheSameChance) {
  // 8000 cells of class 1 in slabs of 1000, 10,000 kept at most: all; 40,000: a quarter of each
  // tenth, within five standard deviations of the hypergeometric count.
  const int64_t n = 40000;
  ForegroundCells cells({{}, {40, 1000, 1}}, 2);
  for (int slab = 0; slab < 40; ++slab) cells.add(Tensor::full({1, 1000, 1}, 1, DType::u8));
  EXPECT_EQ(cells.count(), n);
  ASSERT_EQ(cells.kept(1).size(), 10000U);
  std::vector<int64_t> tenth(10, 0);
  for (const int64_t i : cells.kept(1)) ++tenth[static_cast<size_t>(i / 4000)];
  EXPECT_EQ(std::set<int64_t>(cells.kept(1).begin(), cells.kept(1).end()).size(), 10000U);
  const double sigma = std::sqrt(10000 * 0.1 * 0.9 * 0.75);
  for (const int64_t count : tenth) EXPECT_NEAR(static_cast<double>(count), 1000, 5 * sigma);

  ForegroundCells few({{}, {8, 1000, 1}}, 2);
  for (int slab = 0; slab < 8; ++slab) few.add(Tensor::full({1, 1000, 1}, 1, DType::u8));
  EXPECT_EQ(few.kept(1).size(), 8000U);
  std::set<int64_t> drawn;  // every one of 60 cells comes
  ForegroundCells all({{}, {3, 4, 5}}, 2);
  all.add(Tensor::full({3, 4, 5}, 1, DType::u8));
  for (uint64_t k = 0; k < 2000; ++k) {
    const Dims3 c = *all.draw({1, k}, false);
    drawn.insert((c.d * 4 + c.h) * 5 + c.w);
  }
  EXPECT_EQ(drawn.size(), 60U);
}

TEST(ForegroundCells, MemoryIsBoundedForManyClasses) {
  ForegroundCells cells({{}, {254, 400, 1}}, 254);
  for (int c = 0; c < 254; ++c) cells.add(Tensor::full({1, 400, 1}, c, DType::u8));
  int64_t kept = 0;
  for (int64_t c = 1; c < 254; ++c) kept += static_cast<int64_t>(cells.kept(c).size());
  EXPECT_LE(kept, ForegroundCells::kMostCellsInAll);
  EXPECT_GE(kept, 253 * 64);
}

}  // namespace
}  // namespace bora::data::test
