// SPDX-License-Identifier: Apache-2.0
// Rows 75, 79, 90, 92: what a sample of volumes holds: weights, region, files that are wrong,
// caches, transforms.
#include <gmock/gmock.h>

#include <cmath>

#include "data/batch.hpp"
#include "tests/data/volume_fixture.hpp"
#include "tests/support/message_of.hpp"

namespace bora::data::test {
namespace {

using bora::testing::message_of;
using ::testing::AllOf;
using ::testing::HasSubstr;

class VolumeSamples : public OneCaseTest {};

TEST_F(VolumeSamples, WeightsComeWithTheirCells) {
  SyntheticVolumesOptions o;
  o.n_cases = 2;
  o.grid = {12, 11, 10};
  o.format = "h5";
  o.weights = true;
  write_synthetic_volumes(root, o);
  VolumesConfig config = synthetic();
  config.image_suffix = config.label_suffix = config.weight_suffix = ".h5";
  config.patch = {16, 6, 6};
  const VolumeDataset data(config);
  std::vector<Sample> samples;
  for (const int64_t i : {0, 1}) samples.push_back(data.read(i, WindowChoice::random(key(4))));
  for (const Sample& s : samples) {
    ASSERT_EQ(s.weight.shape(), (Shape{16, 6, 6}));
    for (int64_t i = 0; i < s.weight.numel(); ++i)
      EXPECT_EQ(s.weight.data<float>()[i], s.valid.data<uint8_t>()[i] == 0    ? 0
                                           : s.target.data<uint8_t>()[i] == 0 ? 1
                                                                              : 2);
  }
  const Batch batch = collate(samples);
  ASSERT_EQ(batch.weight.shape(), (Shape{2, 16, 6, 6}));
  samples[1].weight = Tensor();
  const Tensor joined = collate(samples).weight;  // no weights: 1 each
  EXPECT_EQ(joined.rows(1, 2).clone().to_vector<float>(), std::vector<float>(576, 1));
  samples[0].weight = Tensor();
  EXPECT_FALSE(collate(samples).weight.defined());
}

TEST_F(VolumeSamples, IgnoredLabelsAndMissingValuesAreLeftOutOfTheRegion) {
  Tensor image = places({4, 3, 2}), label = no_labels({4, 3, 2});
  image.data<float>()[5] = NAN;
  label.data<uint8_t>()[9] = 255;
  label.data<uint8_t>()[10] = 1;
  write_pair("a", image, label);
  VolumesConfig config = pairs();
  config.missing = "mask";
  config.label_map = {"1:1", "255:ignore"};
  const Sample s = VolumeDataset(config).read(0, WindowChoice::centred());
  for (int64_t i = 0; i < 24; ++i) {
    EXPECT_EQ(s.region.data<uint8_t>()[i], i == 5 || i == 9 ? 0 : 1) << i;
    EXPECT_EQ(s.valid.data<uint8_t>()[i], i == 5 ? 0 : 1) << i;
    EXPECT_EQ(s.target.data<uint8_t>()[i], i == 10 ? 1 : 0) << i;
    EXPECT_TRUE(std::isfinite(s.input.data<float>()[i])) << i;
  }
  EXPECT_EQ(s.input.data<float>()[5], 0);
}

TEST_F(VolumeSamples, BadValuesOfAPatchAreNamedWithTheirCellInTheFile) {
  Tensor image = places({6, 3, 2}), label = no_labels({6, 3, 2}),
         weight = Tensor::full({6, 3, 2}, 1, DType::f32);
  write_pair("a", image, label);
  write("a_weight.h5", "weight", weight);
  write_list("m.csv", "case,box\na,\"2:6,1:3,\"\n");
  VolumesConfig config = pairs();
  config.list = "m.csv";
  config.weight_suffix = "_weight.h5";
  config.preflight = "headers";
  const auto refusal = [&](const std::string& name, const std::string& variable, Tensor& t,
                           double value) {
    const int64_t at = (3 * 3 + 2) * 2 + 1;  // cell (3, 2, 1)
    const auto set = [&](double v) {
      if (t.dtype() == DType::u8)
        t.data<uint8_t>()[at] = static_cast<uint8_t>(v);
      else
        t.data<float>()[at] = static_cast<float>(v);
      write(name, variable, t);
    };
    const double before =
        t.dtype() == DType::u8 ? t.data<uint8_t>()[at] : static_cast<double>(t.data<float>()[at]);
    set(value);
    const VolumeDataset data(config);
    const std::string text = message_of([&] { data.read(0, WindowChoice::centred()); });
    set(before);
    return text;
  };
  EXPECT_THAT(refusal("a_label.h5", "label", label, 7),
              AllOf(HasSubstr("a_label.h5', variable 'label': 1 of 16 labels have no class, the "
                              "first is 7 at cell (3, 2, 1)")));
  EXPECT_THAT(refusal("a_image.h5", "raw", image, NAN),
              HasSubstr("missing (NaN), the first at cell (3, 2, 1)"));
  EXPECT_THAT(refusal("a_image.h5", "raw", image, INFINITY),
              HasSubstr("infinite value at cell (3, 2, 1)"));
  EXPECT_THAT(refusal("a_weight.h5", "weight", weight, -0.5),
              HasSubstr("a_weight.h5', variable 'weight': the weight at cell (3, 2, 1) is -0.5"));
  EXPECT_THAT(refusal("a_weight.h5", "weight", weight, NAN), HasSubstr("cell (3, 2, 1) is nan"));
}

TEST_F(VolumeSamples, AFileThatChangedIsNamed) {
  const VolumeDataset data = one_case({4, 4, 4}, {}, [](auto&) {});
  write("a_label.h5", "label", Tensor::zeros({4, 4, 5}, DType::u8));
  EXPECT_THAT(message_of([&] { data.read(0, WindowChoice::centred()); }),
              AllOf(HasSubstr("/a_label.h5'"), HasSubstr("changed")));
}

TEST_F(VolumeSamples, ACachedVolumeGivesTheSameBits) {
  SyntheticVolumesOptions o;
  o.n_cases = 2;
  o.grid = {14, 13, 12};
  write_synthetic_volumes(root, o);
  VolumesConfig config = synthetic();
  config.patch = {8, 8, 8};
  config.foreground = 0.5;
  const VolumeDataset plain(config);
  config.cache.kind = "ram";
  const VolumeDataset cached(config);
  ASSERT_NE(cached.cache(), nullptr);
  for (uint64_t k = 0; k < 20; ++k) {
    const auto choice = WindowChoice::random(key(k));
    const Sample a = plain.read(k % 2, choice), b = cached.read(k % 2, choice);
    EXPECT_EQ(a.input.to_vector<float>(), b.input.to_vector<float>());
    EXPECT_EQ(a.target.to_vector<uint8_t>(), b.target.to_vector<uint8_t>());
  }
  EXPECT_GT(cached.cache()->counts().from_cache, 0);
}

TEST_F(VolumeSamples, WindowsForPredictionLeaveTheLabelAlone) {
  const VolumeDataset data = one_case({4, 4, 4}, {{0, 0, 0}}, [](auto&) {});
  std::filesystem::remove(root + "/a_label.h5");
  const Sample s = data.read_image_window(0, {{4, 4, 4}, {3, 4, 4}, {-1, 0, 0}});
  EXPECT_EQ(s.input.data<float>()[16], 0);
  EXPECT_EQ(s.input.data<float>()[32], 10000);
  EXPECT_EQ(s.valid.data<uint8_t>()[0], 0);
  EXPECT_EQ(s.valid.data<uint8_t>()[16], 1);
  EXPECT_THAT(message_of([&] {
                data.read_image_window(0, {{5, 4, 4}, {3, 4, 4}, {}});
              }),
              HasSubstr("a window of a grid of 5x4x4, the case has 4x4x4"));
}

// Row 95: the transforms see image, label, region and weights together, and the patch keeps its
// size.
TEST_F(VolumeSamples, TransformsVaryImageAndLabelTogether) {
  SyntheticVolumesOptions o;
  o.n_cases = 1;
  o.grid = {24, 22, 20};
  o.noise = 0;
  write_synthetic_volumes(root, o);
  VolumesConfig config = synthetic();
  config.normalisation = "none";
  config.patch = {10, 10, 12};
  config.foreground = 1;
  config.transforms.flip_x = 0.5;
  config.transforms.quarter_turns = {"xy"};
  const VolumeDataset data(config);
  config.transforms.rotation = {30};
  config.transforms.rotation_probability = 1;
  const VolumeDataset turned(config);
  int64_t n_varied = 0;
  for (uint64_t k = 0; k < 30; ++k) {
    const auto choice = WindowChoice::random(key(k));
    const Sample s = data.read(0, choice);
    ASSERT_EQ(s.input.shape(), (Shape{10, 10, 12, 1}));
    // The image says which label belongs to it: 100 (class + 1).
    for (int64_t i = 0; i < s.valid.numel(); ++i)
      ASSERT_EQ(s.input.data<float>()[i],
                s.valid.data<uint8_t>()[i] ? 100.0f * (1 + s.target.data<uint8_t>()[i]) : 0.0f);
    n_varied +=
        s.input.to_vector<float>() != data.read_window(0, s.window).input.to_vector<float>();
    EXPECT_EQ(s.input.to_vector<float>(), data.read(0, choice).input.to_vector<float>());
    const Sample t = turned.read(0, choice);
    ASSERT_EQ(t.input.shape(), (Shape{10, 10, 12, 1}));
    ASSERT_EQ(t.target.shape(), (Shape{10, 10, 12, 1}));
    EXPECT_EQ(t.window, turned.patch_window(0, choice.key));
    // The image is interpolated, the label is that of the nearest cell: they agree to half a step
    // but for cells where three classes or the volume's end meet.
    int64_t n_valid = 0, n_alike = 0;
    for (int64_t i = 0; i < t.valid.numel(); ++i) {
      if (t.valid.data<uint8_t>()[i] == 0) continue;
      ++n_valid;
      const float wanted = 100.0f * (1 + t.target.data<uint8_t>()[i]);
      n_alike += std::abs(t.input.data<float>()[i] - wanted) <= 50;
    }
    EXPECT_GT(static_cast<double>(n_alike), 0.9 * static_cast<double>(n_valid));
    const auto region = t.region.to_vector<uint8_t>();
    EXPECT_GT(std::count(region.begin(), region.end(), 1), 600);
  }
  EXPECT_GT(n_varied, 10);
}

// Row 117: what the maker writes is the formula.
TEST_F(VolumeSamples, SyntheticVolumesAreTheirFormulaInEveryFormat) {
  for (const std::string format : {"nii", "nii.gz", "h5"}) {
    std::filesystem::remove_all(root);
    SyntheticVolumesOptions o;
    o.n_cases = 2;
    o.grid = {9, 11, 8};
    o.channels = 2;
    o.noise = 0;
    o.format = format;
    o.seed = 3;
    EXPECT_EQ(write_synthetic_volumes(root, o), (std::vector<std::string>{"case1", "case2"}));
    VolumesConfig config = synthetic();
    const bool hdf5 = format == "h5";
    config.image_suffix = hdf5 ? ".h5" : "_image." + format;
    config.label_suffix = hdf5 ? ".h5" : "_label." + format;
    config.normalisation = "none";
    const Sample s = VolumeDataset(config).read(1, WindowChoice::centred());
    ASSERT_EQ(s.input.shape(), (Shape{9, 11, 8, 2})) << format;
    const auto shapes = synthetic_shapes(o, 1);
    int64_t i = 0;
    std::set<int> classes;
    for (int x = 0; x < 9; ++x)
      for (int y = 0; y < 11; ++y)
        for (int z = 0; z < 8; ++z, ++i) {
          const uint8_t c = synthetic_class(shapes, x + 0.5, y + 0.5, z + 0.5);
          classes.insert(c);
          ASSERT_EQ(s.target.data<uint8_t>()[i], c) << format;
          ASSERT_EQ(s.input.data<float>()[2 * i], 100.0f * static_cast<float>(c + 1)) << format;
          ASSERT_EQ(s.input.data<float>()[2 * i + 1], 150.0f * static_cast<float>(c + 1)) << format;
        }
    EXPECT_EQ(classes.size(), 3U);
  }
  SyntheticVolumesOptions bad;
  bad.format = "png";
  EXPECT_THAT(message_of([&] { write_synthetic_volumes(root, bad); }),
              HasSubstr("the format nii, nii.gz or h5"));
}

// Feature 75: a slow or bad read is told with the files of its sample.
TEST_F(VolumeSamples, ACaseIsToldWithItsFiles) {
  for (const char* name : {"a", "b"}) {
    write_pair(name, places({4, 3, 2}), no_labels({4, 3, 2}));
    write(std::string(name) + "_weight.h5", "weight", Tensor::full({4, 3, 2}, 1, DType::f32));
  }
  VolumesConfig config = pairs();
  EXPECT_EQ(VolumeDataset(config).where(1),
            "b ('" + root + "/b_image.h5', '" + root + "/b_label.h5')");
  config.weight_suffix = "_weight.h5";
  const VolumeDataset data(config);
  EXPECT_EQ(Subset(data, {0}).where(0),
            "a ('" + root + "/a_image.h5', '" + root + "/a_label.h5', '" + root + "/a_weight.h5')");
}

// It compares with nothing: a label with it would pass for one that stands where its image does.
TEST_F(VolumeSamples, AnAffineThatIsNoNumberIsRefused) {
  write_pair("a", places({4, 3, 2}), no_labels({4, 3, 2}));
  {
    hdf5::Lock lock;
    hdf5::File file = hdf5::File::create(root + "/a_label.h5");
    file.write_dataset("label", no_labels({4, 3, 2}));
    file.open_dataset("label").set_attribute(
        "affine", std::vector<double>{1, 0, 0, 0, 0, NAN, 0, 0, 0, 0, 1, 0});
    file.close();
  }
  EXPECT_THAT(message_of([&] { find_volume_cases(pairs()); }),
              AllOf(HasSubstr("/a_label.h5'"), HasSubstr("attribute 'affine': number 6 is nan")));
}

}  // namespace
}  // namespace bora::data::test
