// SPDX-License-Identifier: Apache-2.0
// The parts of task=segmentation: scores and their policy for empty classes, the loss in pieces,
// windows with padding, label values, written volumes, the options of its network.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>

#include "apps/unet3d/class_scores.hpp"
#include "apps/unet3d/class_windows.hpp"
#include "apps/unet3d/label_values.hpp"
#include "apps/unet3d/segmentation_loss.hpp"
#include "apps/unet3d/setup.hpp"
#include "apps/unet3d/volume_output.hpp"
#include "core/rng.hpp"
#include "data/volume_file.hpp"
#include "nn/parameter_arena.hpp"
#include "tests/data/pipeline_support.hpp"

namespace bora::unet3d {
namespace {

template <class T>
Tensor draw(const Shape& shape, DType type, uint64_t seed, uint32_t below) {
  Tensor out = Tensor::empty(shape, type);
  const RngKey key{seed, 1};
  for (int64_t i = 0; i < out.numel(); ++i)
    out.data<T>()[i] = static_cast<T>(key.below(below, static_cast<uint64_t>(i)));
  return out;
}

// ---- scores

TEST(ClassScores, AreTheFormulas) {
  const ClassCounts c{.both = 6, .truth = 10, .predicted = 8};
  EXPECT_DOUBLE_EQ(dice(c, EmptyClass::skip), 2.0 * 6 / 18);
  EXPECT_DOUBLE_EQ(iou(c, EmptyClass::skip), 6.0 / 12);
  EXPECT_DOUBLE_EQ(precision(c), 6.0 / 8);
  EXPECT_DOUBLE_EQ(recall(c), 6.0 / 10);
}

TEST(ClassScores, OfAClassThatIsNowhereFollowThePolicy) {
  const ClassCounts nothing;
  for (const auto score : {dice, iou}) {
    EXPECT_TRUE(std::isnan(score(nothing, EmptyClass::skip)));
    EXPECT_EQ(score(nothing, EmptyClass::one), 1);
    EXPECT_EQ(score(nothing, EmptyClass::zero), 0);
    // Where one of both has it the overlap is 0, whatever the policy.
    for (const EmptyClass empty : {EmptyClass::skip, EmptyClass::one, EmptyClass::zero}) {
      EXPECT_EQ(score({.both = 0, .truth = 0, .predicted = 1}, empty), 0);
      EXPECT_EQ(score({.both = 0, .truth = 1, .predicted = 0}, empty), 0);
    }
  }
  EXPECT_TRUE(std::isnan(precision(nothing)) && std::isnan(recall(nothing)));
  EXPECT_EQ(empty_class_from("skip"), EmptyClass::skip);
  EXPECT_THROW(empty_class_from("nan"), UsageError);
}

TEST(ClassScores, MeansCountNumbersAlone) {
  EXPECT_DOUBLE_EQ(mean_of_numbers({0.5, NAN, 1.0}), 0.75);
  EXPECT_TRUE(std::isnan(mean_of_numbers({NAN})) && std::isnan(mean_of_numbers({})));
}

TEST(ClassScores, CountCellsOfTheRegionAlone) {
  const Tensor truth = Tensor::from<uint8_t>({6}, {0, 1, 1, 2, 2, 2});
  const Tensor predicted = Tensor::from<uint8_t>({6}, {0, 1, 2, 2, 0, 1});
  const Tensor region = Tensor::from<uint8_t>({6}, {1, 1, 1, 1, 1, 0});
  std::vector<ClassCounts> counts(3);
  count_classes(truth, predicted, region, "a", counts);
  EXPECT_EQ(counts[0], (ClassCounts{1, 1, 2}));
  EXPECT_EQ(counts[1], (ClassCounts{1, 2, 1}));
  EXPECT_EQ(counts[2], (ClassCounts{1, 2, 2}));
  count_classes(truth, predicted, {}, "a", counts);  // adds; everywhere
  EXPECT_EQ(counts[2], (ClassCounts{2, 5, 4}));
  std::vector<ClassCounts> two(2);
  EXPECT_THROW(count_classes(truth, predicted, {}, "a", two), Error);
}

TEST(ClassScores, TakeTheFirstOfEqualLogitsAndNoNaN) {
  const Tensor logits = Tensor::from<float>({3, 3}, {0, 1, 1, 5, -1, 5, -3, -2, -1});
  const Tensor classes = largest_class(logits, "a");
  EXPECT_EQ(classes.shape(), Shape({3}));
  EXPECT_EQ(classes.data<uint8_t>()[0], 1);
  EXPECT_EQ(classes.data<uint8_t>()[1], 0);
  EXPECT_EQ(classes.data<uint8_t>()[2], 2);
  EXPECT_THROW(largest_class(Tensor::from<float>({1, 2}, {0, NAN}), "a"), Error);
  EXPECT_THROW(largest_class(Tensor::from<float>({1, 2}, {NAN, 0}), "a"), Error);
}

// ---- the loss

TEST(SegmentationLoss, OfACaseInPiecesIsThatOfTheWhole) {
  const int64_t x = 5, y = 4, z = 3, k = 3;
  const Tensor labels = draw<uint8_t>({x, y, z}, DType::u8, 1, 3);
  const Tensor region = draw<uint8_t>({x, y, z}, DType::u8, 2, 2);
  const Tensor weights = draw<float>({x, y, z}, DType::f32, 3, 4);
  const Tensor logits = draw<float>({x, y, z, k}, DType::f32, 4, 7);
  for (const bool weighted : {false, true})
    for (const bool background : {false, true}) {
      SegmentationConfig config;
      config.dice_weight = 0.7;
      config.include_background = background;
      const Tensor w = weighted ? weights : Tensor();
      const train::Loss whole =
          compute_loss(config, logits.reshape({1, x, y, z, k}), labels.reshape({1, x, y, z, 1}),
                       region.reshape({1, x, y, z}), weighted ? w.reshape({1, x, y, z}) : w);
      CaseLoss pieces(k);
      for (const auto& [first, n] : {std::pair<int64_t, int64_t>{0, 2}, {2, 1}, {3, 2}})
        pieces.add(logits.rows(first, first + n), labels.rows(first, first + n),
                   region.rows(first, first + n), weighted ? w.rows(first, first + n) : w);
      const train::Loss joined = pieces.value(config);
      ASSERT_EQ(joined.parts.size(), loss_names(config).size());
      for (size_t i = 0; i < joined.parts.size(); ++i) {
        EXPECT_EQ(joined.parts[i].first, loss_names(config)[i]);
        EXPECT_EQ(whole.parts[i].first, loss_names(config)[i]);
        // Sums in f64 of the same f32 terms, one rounding to f32 each; the total has three more.
        EXPECT_NEAR(joined.value(i), whole.value(i), 4 * 6e-8 * std::abs(whole.value(i)));
      }
    }
}

TEST(SegmentationLoss, TellsPartsThatHaveAWeight) {
  SegmentationConfig config;
  config.dice_weight = 0;
  EXPECT_EQ(loss_names(config), (std::vector<std::string>{"loss", "cross_entropy"}));
  config.cross_entropy_weight = 0;
  EXPECT_THROW(check_loss(config), UsageError);
  CaseLoss bad(2);
  bad.add(Tensor::zeros({1, 1, 1, 2}, DType::f32), Tensor::full({1, 1, 1}, 2, DType::u8), {});
  EXPECT_THROW(bad.value({}), Error);
}

// ---- windows

TEST(ClassWindows, GiveBackWhatTheyRead) {
  // Longer than the window along x, shorter along z: windows blend, and padding is dropped.
  const Dims3 volume{11, 6, 3};
  const Tensor image = draw<float>({11, 6, 3, 2}, DType::f32, 5, 100);
  for (const char* rule : {"zero", "minimum"}) {
    const ClassPlan plan = plan_classes({4, 6, 8}, volume, {0.5});
    EXPECT_EQ(plan.frame.shape, (Dims3{11, 6, 8}));
    const Tensor frame = framed(image, plan.frame, padding_of(image, rule));
    EXPECT_EQ(plan.frame.begin, (Dims3{0, 0, -2}));
    EXPECT_EQ(frame.data<float>()[1], padding_of(image, rule)[1]);
    int64_t done = 0;
    slide(plan.layout,
          {.read = [&](const data::Window& w) { return cut_from_frame(frame, 0, plan, w); },
           .predict = [](const Tensor& window) { return window; },
           .take =
               [&](int64_t first, Tensor& slab) {
                 EXPECT_EQ(first, done);
                 done += slab.size(0);
                 for (int64_t i = 0; i < slab.numel(); ++i)
                   EXPECT_NEAR(slab.data<float>()[i], image.data<float>()[first * 36 + i],
                               1e-4);  // values up to 100
               }});
    EXPECT_EQ(done, 11);
  }
  EXPECT_EQ(padding_of(image, "zero"), (std::vector<float>{0, 0}));
  // The least of each channel, wherever it lies.
  EXPECT_EQ(padding_of(Tensor::from<float>({1, 1, 3, 2}, {2, -5, -1, 7, 4, 0}), "minimum"),
            (std::vector<float>{-1, -5}));
  EXPECT_EQ(padding_of(Tensor::from<float>({1, 1, 3, 2}, {2, 8, 3, 7, 4, -3}), "minimum"),
            (std::vector<float>{2, -3}));
  // NaN is no value, also where it comes first.
  EXPECT_EQ(padding_of(Tensor::from<float>({1, 1, 3, 2}, {NAN, 8, 3, NAN, 4, -3}), "minimum"),
            (std::vector<float>{3, -3}));
  EXPECT_EQ(padding_of(Tensor::from<float>({1, 1, 2, 2}, {NAN, 8, NAN, 9}), "minimum"),
            (std::vector<float>{0, 8}));
  EXPECT_THROW(framed(image, plan_classes({4, 6, 8}, {11, 6, 4}, {0.5}).frame, {0, 0}), Error);
}

// ---- labels and files

TEST(LabelValues, AreRestoredWhereEachClassHasOne) {
  data::VolumesConfig config;
  config.classes = {"background", "left", "right"};
  EXPECT_TRUE(label_values(config).of_class.empty());
  config.label_map = {"7:1", "1000:2", "255:ignore"};
  const LabelValues values = label_values(config);
  EXPECT_EQ(values.of_class, (std::vector<int64_t>{0, 7, 1000}));
  EXPECT_EQ(values.type, DType::i32);
  const Tensor restored = values.restore(Tensor::from<uint8_t>({3}, {2, 0, 1}));
  EXPECT_EQ(restored.data<int32_t>()[0], 1000);
  EXPECT_EQ(restored.data<int32_t>()[2], 7);
  config.label_map = {"1-999:1", "1000:2"};
  EXPECT_TRUE(label_values(config).of_class.empty());
  EXPECT_NE(label_values(config).text.find("1-999:1"), std::string::npos);
  config.label_map = {"5:1"};
  EXPECT_TRUE(label_values(config).of_class.empty());
}

TEST(VolumeOutput, IsReadBackAsItWasWritten) {
  const data::test::TempFolder dir;
  data::VolumeInfo like;
  like.grid = {5, 4, 3};
  const Tensor labels = draw<uint8_t>({5, 4, 3}, DType::u8, 6, 3);
  for (const char* order : {"", "xyz"}) {
    const std::string path = dir.path() + "/a" + order + ".h5";
    const auto out = make_volume_output(path, like, {.order = order});
    out->write(labels.rows(0, 2));
    EXPECT_THROW(out->close(), Error);  // three planes are missing
    out->write(labels.rows(2, 5));
    out->close();
    const Tensor back = data::open_volume({.path = path, .variable = "label", .order = order})
                            ->read({}, like.grid, DType::u8);
    ASSERT_EQ(back.numel(), labels.numel());
    for (int64_t i = 0; i < labels.numel(); ++i)
      EXPECT_EQ(back.data<uint8_t>()[i], labels.data<uint8_t>()[i]);
  }
  EXPECT_EQ(output_ending("a/b.nii.gz"), ".nii.gz");
  EXPECT_EQ(output_ending("b.NII"), ".nii");
  EXPECT_EQ(output_ending("b.hdr"), ".nii.gz");
  EXPECT_EQ(output_ending("b.npy"), ".h5");
  EXPECT_EQ(output_ending("b.nc"), ".nc");
  like.source.path = "b.npy";
  EXPECT_THROW(make_volume_output(dir.path() + "/a.nii.gz", like, {}), UsageError);
  EXPECT_THROW(make_volume_output(dir.path() + "/a.png", like, {}), UsageError);
}

// ---- settings and network

TEST(SegmentationConfig, KeysOfTheOtherTaskAreRefused) {
  Config config;
  check_task_keys(config);
  config.volumes.root = "x";
  EXPECT_THROW(check_task_keys(config), UsageError);
  config.task = "segmentation";
  check_task_keys(config);
  config.loss.kind = "mse";
  EXPECT_THROW(check_task_keys(config), UsageError);
  // A settings file of before has no such tables.
  Config old;
  config_load_text(old, "[data]\nroot = \"a\"\n[model]\nbase = 8\n", "old.toml");
  EXPECT_EQ(old.task, "wind");
  check_task_keys(old);
}

TEST(UNet3dOptions, ChannelsAreBoundedAndNamesStay) {
  ModelConfig config;
  config.base = 8;
  UNet3d plain(1, 1, config);
  EXPECT_EQ(nn::parameter_count(plain), 1358113);
  config.max_channels = 32;
  config.activation = "leaky_relu";
  config.norm = "instance";
  UNet3d bounded(1, 2, config);
  const auto a = nn::named_parameters(plain), b = nn::named_parameters(bounded);
  // Where the channels do not double a block has no projection.
  std::vector<std::string> names;
  for (const auto& p : a)
    if (p.name != "encoder3.shortcut.weight" && p.name != "bottleneck.shortcut.weight")
      names.push_back(p.name);
  ASSERT_EQ(b.size(), names.size());
  for (size_t i = 0; i < b.size(); ++i) EXPECT_EQ(b[i].name, names[i]);
  for (const auto& p : b) EXPECT_LE(p.parameter->shape[0], 32) << p.name;
  nn::ParameterArena arena(bounded, DType::f32);
  nn::initialise(bounded, 1);
  EXPECT_EQ(bounded.forward(Tensor::zeros({1, 16, 17, 18, 1}, DType::f32)).shape(),
            Shape({1, 16, 17, 18, 2}));
  config.activation = "relu";
  EXPECT_THROW(UNet3d(1, 1, config), UsageError);
}

TEST(UNet3dOptions, LeakyReluLetsAHundredthThrough) {
  // With all convolutions zero but the head's bias the output is the bias; so look at a block.
  ModelConfig config;
  config.activation = "leaky_relu";
  config.norm = "instance";
  ResConvBlock block(1, 1, config);
  nn::ParameterArena arena(block, DType::f32);
  nn::initialise(block, 1);
  for (const auto& p : nn::named_parameters(block))
    if (p.name == "norm2.gamma" || p.name == "norm2.beta") {
      Tensor value = p.parameter->value.detach();
      value.fill(0);
    }
  // What is left is act(x + 0).
  const Tensor y = block.forward(Tensor::from<float>({1, 1, 1, 2, 1}, {-3.0f, 2.0f}));
  EXPECT_FLOAT_EQ(y.detach().data<float>()[0], -0.03f);
  EXPECT_FLOAT_EQ(y.detach().data<float>()[1], 2.0f);
}

}  // namespace
}  // namespace bora::unet3d
