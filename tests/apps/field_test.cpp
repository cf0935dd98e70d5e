// SPDX-License-Identifier: Apache-2.0
// Fields of whole cases: which windows, mirror images, slabs, buildings (features 97, 114).
#include "apps/unet3d/field.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "core/allocator.hpp"
#include "core/tape.hpp"
#include "data/augment.hpp"
#include "data/hdf5.hpp"
#include "data/synthetic.hpp"
#include "tests/apps/device_under_test.hpp"
#include "tests/data/pipeline_support.hpp"

namespace bora::unet3d {
namespace {

using bora::testing::device_under_test;
using data::test::message_of;
using data::test::TempFolder;
using ::testing::AllOf;
using ::testing::HasSubstr;

TrainedModel untrained(int64_t channels = 1) {
  TrainedModel t;
  t.path = "run/best.h5";
  t.config.model = {.base = 4, .levels = 1};
  t.config.data.angle_channels = channels == 3;
  t.model = make_model(t.config, channels);
  t.arena = std::make_unique<nn::ParameterArena>(*t.model, DType::f32, device_under_test());
  nn::initialise(*t.model, 3);
  return t;
}

FieldConfig with_flips(const std::string& flips) {
  FieldConfig config;
  config.flips = flips;
  return config;
}
FieldConfig with_window(const std::string& window) {
  FieldConfig config;
  config.window = window;
  return config;
}

/// Masks of 0.3 buildings.
Tensor random_input(const Shape& shape, uint64_t seed = 5) {
  const RngKey key{seed, 5};
  Tensor t = Tensor::full(shape, 1.0, DType::f32);
  for (int64_t i = 0; i < t.numel(); i += shape[3])
    if (key.uniform(static_cast<uint64_t>(i)) < 0.3) t.data<float>()[i] = -1.0f;
  return t;
}

Tensor turned(const Tensor& input, const data::Variation& v) {
  data::Sample s;
  s.input = input;
  s.target = s.region = s.valid =
      Tensor::zeros({input.size(0), input.size(1), input.size(2)}, DType::u8);
  data::vary(s, v);
  return s.input;
}

// The mirror image of a case gives the mirror image of its field, to the bit, which the network
// alone does not; in both axes, too.
TEST(PredictWindow, AveragesOverFlipsAreSymmetric) {
  TrainedModel t = untrained();
  const Tensor input = random_input({6, 5, 4, 1});
  for (const Flips flips : {Flips{}, Flips{.y = true}, Flips{.x = true, .y = true}})
    for (const data::Variation v :
         {data::Variation{.flip_y = true}, data::Variation{.flip_x = true},
          data::Variation{.flip_x = true, .flip_y = true}}) {
      const Tensor a = predict_window(t, input, 0, {.flips = flips});
      const Tensor b = predict_window(t, turned(input, v), 0, {.flips = flips});
      const bool symmetric = (!v.flip_x || flips.x) && (!v.flip_y || flips.y);
      EXPECT_EQ(turned(b, v).to_vector<float>() == a.to_vector<float>(), symmetric);
    }
}

// A flip of a case at 30 degrees is a case at 150 (x), -30 (y): the network is told so.
TEST(PredictWindow, TheAngleTurnsWithTheFlip) {
  TrainedModel t = untrained(3);
  Tensor input = random_input({6, 5, 4, 3});
  data::set_angle_channels(input, 30);
  const Tensor averaged = predict_window(t, input, 30, {.flips = {.x = true, .y = true}});
  std::vector<double> sum(static_cast<size_t>(averaged.numel()), 0.0);
  struct Image {
    data::Variation variation;
    double angle;
  };
  for (const auto& [v, angle] :
       {Image{{}, 30}, Image{{.flip_x = true}, 150}, Image{{.flip_y = true}, -30},
        Image{{.flip_x = true, .flip_y = true}, 210}}) {
    // Mirror the mask alone, and write the angle by hand.
    Tensor mask = Tensor::empty({6, 5, 4, 1}, DType::f32);
    for (int64_t i = 0; i < mask.numel(); ++i) mask.data<float>()[i] = input.data<float>()[3 * i];
    mask = turned(mask, v);
    Tensor image = Tensor::empty({6, 5, 4, 3}, DType::f32);
    for (int64_t i = 0; i < mask.numel(); ++i) image.data<float>()[3 * i] = mask.data<float>()[i];
    data::set_angle_channels(image, angle);
    const Tensor y = turned(predict_window(t, image, angle, {}), v);
    for (size_t i = 0; i < sum.size(); ++i) sum[i] += double{y.data<float>()[i]} / 4;
  }
  // Two roundings of averages of numbers below 16.
  for (size_t i = 0; i < sum.size(); ++i) EXPECT_NEAR(averaged.data<float>()[i], sum[i], 2e-6);
}

TEST(Flips, ThatWouldBeFalseAreRefusedByTheirReason) {
  TrainedModel t = untrained();
  const auto flips = [&](const char* kind) { return flips_of(with_flips(kind), t); };
  const auto reason = [&](const char* kind) {
    return message_of<UsageError>([&] { flips(kind); });
  };
  EXPECT_EQ(flips("none"), Flips{});
  EXPECT_THAT(reason("y"), AllOf(HasSubstr("run/best.h5 did not train on mirrored cases"),
                                 HasSubstr("data.augment.flip_y")));
  EXPECT_THAT(reason("x"), HasSubstr("the wind blows along +x in every file"));
  t.config.data.augment.flip_y = true;
  EXPECT_EQ(flips("y"), (Flips{.y = true}));
  FieldConfig mirrored;
  mirrored.mirror = true;
  EXPECT_EQ(flips_of(mirrored, t), (Flips{.y = true}));
  EXPECT_THAT(reason("xy"), HasSubstr("the wind blows along +x in every file"));
  t.config.data.wind_direction = "angle";
  EXPECT_THAT(reason("y"), HasSubstr("which the network is not told"));
  t.config.data.angle_channels = true;
  EXPECT_EQ(flips("y"), (Flips{.y = true}));
  EXPECT_THAT(reason("xy"), HasSubstr("data.augment.flip_x"));
  t.config.data.augment.flip_x = true;
  EXPECT_EQ(flips("xy"), (Flips{.x = true, .y = true}));
}

TEST(FieldPlan, SaysWhichWindowsAndWhy) {
  TrainedModel t = untrained();
  const auto plan = [&](const char* window, Dims3 grid = {20, 9, 8}) {
    return plan_field(with_window(window), t, grid);
  };
  FieldPlan p = plan("auto");  // trained on whole grids
  EXPECT_EQ(p.layout.count(), 1);
  EXPECT_TRUE(p.area.is_whole_grid());
  EXPECT_THAT(p.text, HasSubstr("the whole grid of 20x9x8 cells at once (the run was trained on "
                                "whole grids)"));
  t.config.data.shape = {8, 12, 6};  // narrower in x and z, wider in y
  p = plan("auto");
  EXPECT_EQ(p.area.shape, (Dims3{20, 9, 6}));
  EXPECT_EQ(p.layout.window, (Dims3{8, 12, 6}));
  EXPECT_EQ(p.layout.begins[0], (std::vector<int64_t>{0, 4, 8, 12}));
  EXPECT_EQ(p.layout.begins[1], (std::vector<int64_t>{-1}));
  EXPECT_EQ(p.layout.begins[2], (std::vector<int64_t>{0}));
  EXPECT_THAT(p.text,
              AllOf(HasSubstr("4 windows of 8x12x6, overlap 0.5"),
                    HasSubstr("trained on windows of 8x12x6"), HasSubstr("the 2 levels above")));
  p = plan("centred");
  EXPECT_EQ(p.area.shape, (Dims3{8, 9, 6}));
  EXPECT_EQ(p.area.begin, (Dims3{6, 0, 0}));
  EXPECT_EQ(p.layout.count(), 1);
  EXPECT_THAT(p.text, HasSubstr("cells beside the window stay empty"));
  p = plan("whole");
  EXPECT_EQ(p.layout.window, (Dims3{20, 9, 6}));
  p = plan("10x0x6");
  EXPECT_EQ(p.layout.window, (Dims3{10, 9, 6}));
  EXPECT_EQ(plan("10x9x0").layout.window, (Dims3{10, 9, 6}));
  // A network that has learned where the ground is must not be shown boxes in the air.
  EXPECT_THAT(message_of<UsageError>([&] { plan("10x9x3"); }),
              HasSubstr("trained on 6 levels from the ground up"));
  EXPECT_THAT(message_of<UsageError>([&] { plan("1x9x0"); }), HasSubstr("at least 2"));
  for (const char* nonsense : {"8x8", "8x8x8x8", "-8x8x8", "8,8,8", "x8x8", "8x8x8 ", "all", ""})
    EXPECT_THAT(message_of<UsageError>([&] { plan(nonsense); }), HasSubstr("three extents"))
        << nonsense;
}

/// Cases of a grid that no window divides.
class FieldTest : public ::testing::Test {
 protected:
  data::WindDataset cases(Dims3 grid) {
    data::SyntheticWindOptions options;
    options.n_layouts = 1;
    options.grid = grid;
    data::write_synthetic_wind(folder_.path(), options);
    data::WindConfig config;
    config.root = folder_.path();
    config.normalisation = "none";
    return data::WindDataset(config);
  }
  FieldJob job(const data::WindDataset& cases, const TrainedModel& t, const char* window) {
    return {.cases = &cases,
            .index = 0,
            .plan = plan_field(with_window(window), t, cases.at(0).grid),
            .scaling = {.mean = 2.0, .sigma = 3.0},
            .mode = {}};
  }
  TempFolder folder_;
};

// Against the same windows, read one by one, blended in f64 in memory.
TEST_F(FieldTest, SlabsOfMasksGiveTheBlendOfAllWindows) {
  const data::WindDataset data = cases({17, 9, 6});
  for (const char* window : {"6x12x0", "7x4x6", "20x5x0", "whole"}) {
    TrainedModel t = untrained();
    const FieldJob j = job(data, t, window);
    const Tensor field = predict_whole_field(t, j);
    ASSERT_EQ(field.shape(), Shape({17, 9, 6}));
    const WindowLayout& l = j.plan.layout;
    std::vector<double> sum(17 * 9 * 6, 0.0), weight(17 * 9 * 6, 0.0);
    const std::vector<double> wx = blend_profile(l.window.d), wy = blend_profile(l.window.h),
                              wz = blend_profile(l.window.w);
    for (int64_t i = 0; i < l.count(); ++i) {
      const data::Window w = l.at(i);
      const Tensor y = predict_window(t, data.read_window(0, w).input, 0, {});
      for (int64_t c = 0; c < y.numel(); ++c) {
        const int64_t z = c % w.shape.w, h = c / w.shape.w % w.shape.h,
                      x = c / w.shape.w / w.shape.h;
        const int64_t gx = x + w.begin.d, gy = h + w.begin.h, gz = z + w.begin.w;
        if (gx < 0 || gy < 0 || gz < 0 || gx >= 17 || gy >= 9 || gz >= 6) continue;
        const double s =
            wx[static_cast<size_t>(x)] * wy[static_cast<size_t>(h)] * wz[static_cast<size_t>(z)];
        const auto at = static_cast<size_t>((gx * 9 + gy) * 6 + gz);
        sum[at] += s * double{y.data<float>()[c]};
        weight[at] += s;
      }
    }
    const data::Sample whole = data.read_window(0, data::centred_window({17, 9, 6}, {0, 0, 0}));
    int64_t n_buildings = 0;
    for (size_t i = 0; i < sum.size(); ++i) {
      const bool building = whole.input.data<float>()[i] < 0;
      n_buildings += building;
      // Sums of at most 36 values below 16, times sigma = 3.
      EXPECT_NEAR(field.data<float>()[i], building ? 0.0 : 2 + 3 * sum[i] / weight[i], 1e-4)
          << window << " " << i;
    }
    EXPECT_GT(n_buildings, 10);
  }
}

class PredictField : public FieldTest {};

TEST_F(PredictField, IsInPhysicalUnitsAndCalmInsideBuildings) {
  const data::WindDataset data = cases({16, 10, 6});
  TrainedModel t = untrained();
  const Tensor field = predict_whole_field(t, job(data, t, "auto"));
  const data::Sample s = data.read_window(0, data::centred_window({16, 10, 6}, {0, 0, 0}));
  const NoGrad no_grad;
  const std::vector<float> raw =
      t.model->forward(s.input.reshape({1, 16, 10, 6, 1}).to(device_under_test()))
          .to_vector<float>();
  for (size_t i = 0; i < raw.size(); ++i)
    // Two roundings of numbers below 16: at most 2 x 2^-21.
    EXPECT_NEAR(field.data<float>()[i], s.region.data<uint8_t>()[i] ? 2.0f + 3.0f * raw[i] : 0.0f,
                1e-6)
        << i;
}

TEST_F(FieldTest, AreaOfACentredWindowIsThatWindow) {
  const data::WindDataset data = cases({16, 10, 6});
  TrainedModel t = untrained();
  t.config.data.shape = {8, 6, 4};
  const FieldJob j = job(data, t, "centred");
  const Tensor field = predict_whole_field(t, j);
  const data::Sample s = data.read_window(0, data::centred_window({16, 10, 6}, {8, 6, 4}));
  const Tensor y = predict_window(t, s.input, 0, {});
  ASSERT_EQ(field.shape(), Shape({8, 6, 4}));
  for (int64_t i = 0; i < y.numel(); ++i)
    EXPECT_NEAR(field.data<float>()[i],
                s.input.data<float>()[i] < 0 ? 0 : 2 + 3 * y.data<float>()[i], 1e-5);
}

TEST_F(FieldTest, APredictionThatIsNoNumberIsNamed) {
  const data::WindDataset data = cases({16, 10, 6});
  TrainedModel t = untrained();
  Tensor weights = t.arena->values().all();
  t.arena->values().all().copy_from(
      Tensor::full(weights.shape(), std::nan(""), DType::f32).to(weights.device()));
  FieldJob j = job(data, t, "whole");
  const std::string text = message_of([&] { predict_whole_field(t, j); });
  EXPECT_THAT(text,
              AllOf(HasSubstr(data.at(0).mask_path), HasSubstr("prediction is nan at cell (")));
}

// Masks come and fields go slab by slab.
TEST_F(FieldTest, MemoryDoesNotGrowWithTheLengthOfTheVolume) {
  const auto peak_of = [&](int64_t length) {
    const data::WindDataset data = cases({length, 12, 8});
    TrainedModel t = untrained();
    FieldJob j = job(data, t, "8x8x0");
    int64_t planes = 0;
    j.take = [&](int64_t, const Tensor& slab) { planes += slab.size(0); };
    CachingAllocator& memory = caching_allocator(cpu());
    predict_field(t, j);  // caches of libraries
    planes = 0;
    memory.reset_peak();
    const int64_t before = memory.stats().live, read = data::hdf5::bytes_read();
    predict_field(t, j);
    EXPECT_EQ(planes, length);
    // Each plane of the mask is in at most two slabs of 8 at a stride of 4; the last one is
    // shifted.
    EXPECT_LE(data::hdf5::bytes_read() - read, 4 * 12 * 8 * (2 * length + 8));
    return memory.stats().peak - before;
  };
  const int64_t at_20 = peak_of(20);
  EXPECT_EQ(peak_of(100), at_20);
}

}  // namespace
}  // namespace bora::unet3d
