// SPDX-License-Identifier: Apache-2.0
// Row 94 for volumes: how images are scaled, by the case's statistics.
#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <thread>

#include "comm/communicator.hpp"
#include "data/checkpoint.hpp"
#include "data/volume_read.hpp"
#include "tests/data/held_lock.hpp"
#include "tests/data/volume_fixture.hpp"
#include "tests/support/map_visitor.hpp"
#include "tests/support/message_of.hpp"

namespace bora::data::test {
namespace {

using bora::testing::MapVisitor;
using bora::testing::message_of;
using ::testing::AllOf;
using ::testing::HasSubstr;

class VolumeNormaliseTest : public VolumeTest {
 protected:
  /// Case "a" with these values along x, grid (n, 1, 1).
  VolumesConfig one(const std::vector<float>& values) const {
    const auto n = static_cast<int64_t>(values.size());
    write_pair("a", Tensor::from(Shape{n, 1, 1}, values), no_labels({n, 1, 1}));
    return pairs();
  }
  static std::vector<float> scaled(const VolumesConfig& config) {
    return VolumeDataset(config).read(0, WindowChoice::centred()).input.to_vector<float>();
  }
};

// numpy's default: a straight line between the values at floor and ceiling of p / 100 (n - 1).
double percentile(std::vector<float> v, double p) {
  std::sort(v.begin(), v.end());
  const double place = p / 100 * static_cast<double>(v.size() - 1);
  const auto low = static_cast<size_t>(place);
  const size_t high = std::min(low + 1, v.size() - 1);
  return v[low] + (place - static_cast<double>(low)) * (v[high] - static_cast<double>(v[low]));
}

TEST_F(VolumeNormaliseTest, ZscoreIsByTheVolumesOwnMeanAndSigma) {
  VolumesConfig config = one({0, 0, 2, 4});
  config.normalisation = "zscore";
  // Mean 1.5, variance 11 / 4; population sigma as everywhere in this program.
  const double sigma = std::sqrt(11.0 / 4);
  std::vector<float> wanted;
  for (const double x : {0, 0, 2, 4}) wanted.push_back(static_cast<float>((x - 1.5) / sigma));
  EXPECT_EQ(scaled(config), wanted);
  config.normalise_cells = "nonzero";  // 2 and 4: mean 3, sigma 1; zeros are scaled alike
  EXPECT_EQ(scaled(config), (std::vector<float>{-3, -3, -1, 1}));
}

TEST_F(VolumeNormaliseTest, PercentilesClipAndScale) {
  std::vector<float> values(101);
  for (size_t i = 0; i < values.size(); ++i) values[(i * 37) % 101] = static_cast<float>(i) - 20;
  VolumesConfig config = one(values);
  config.normalisation = "percentile";
  config.percentiles = {10, 90};  // -10 and 70
  const std::vector<float> unit = scaled(config);
  for (size_t i = 0; i < values.size(); ++i)
    EXPECT_EQ(unit[i], static_cast<float>((std::clamp(values[i], -10.0f, 70.0f) + 10) / 80.0));
  config.percentile_to = "zscore";
  double mean = 0, m2 = 0;
  for (const float v : values) mean += std::clamp(v, -10.0f, 70.0f) / 101.0;
  for (const float v : values) m2 += std::pow(std::clamp(v, -10.0f, 70.0f) - mean, 2);
  const std::vector<float> z = scaled(config);
  for (size_t i = 0; i < values.size(); ++i)
    // Sums in another order: a few f64 roundings, far below one of f32.
    EXPECT_FLOAT_EQ(z[i], static_cast<float>((std::clamp(values[i], -10.0f, 70.0f) - mean) /
                                             std::sqrt(m2 / 101)));
}

TEST_F(VolumeNormaliseTest, FixedIsAsSaid) {
  VolumesConfig config = one({1, 3, 5});
  config.normalisation = "fixed";
  config.fixed_mean = {3};
  config.fixed_sigma = {4};
  EXPECT_EQ(scaled(config), (std::vector<float>{-0.5, 0, 0.5}));
  config.fixed_mean = {3, 1};
  config.fixed_sigma = {4, 1};
  EXPECT_THAT(message_of([&] { scaled(config); }),
              HasSubstr("volumes.fixed_mean has 2 numbers, case 'a' has 1 channels"));
}

TEST_F(VolumeNormaliseTest, ConstantVolumesGiveZerosAndNoNaN) {
  for (const float value : {0.0f, 7.0f})
    for (const std::string mode : {"zscore", "percentile", "global"})
      for (const std::string cells : {"all", "nonzero"})
        for (const std::string to : {"unit", "zscore"}) {
          VolumesConfig config = one({value, value, value});
          config.normalisation = mode;
          config.normalise_cells = cells;
          config.percentile_to = to;
          config.padding = "minimum";
          config.patch = {4, 2, 2};
          VolumeDataset data(config);
          const auto self = make_self_communicator();
          if (mode == "global" && cells == "nonzero" && value == 0) {
            EXPECT_THAT(message_of([&] { data.fit_normaliser({0}, *self); }),
                        HasSubstr("channel 0 has no cell to count in 1 training cases"));
            continue;
          }
          data.fit_normaliser({0}, *self);
          EXPECT_EQ(data.read(0, WindowChoice::random({1, 2})).input.to_vector<float>(),
                    std::vector<float>(16, 0))
              << mode << ' ' << cells << ' ' << to << ' ' << value;
        }
}

TEST_F(VolumeNormaliseTest, ChannelsHaveStatisticsOfTheirOwn) {
  write_pair("a", Tensor::from(Shape{2, 3, 1, 1}, std::vector<float>{0, 1, 2, 10, 30, 50}),
             no_labels({3, 1, 1}));
  VolumesConfig config = pairs();
  config.order = "cxyz";
  config.normalisation = "percentile";
  config.percentiles = {0, 100};
  EXPECT_EQ(scaled(config), (std::vector<float>{0, 0, 0.5, 0.5, 1, 1}));
  const VolumeDataset data(config);
  EXPECT_EQ(data.n_channels(), 2);
  EXPECT_EQ(data.scalings(0)[1].shift, 10);
}

TEST_F(VolumeNormaliseTest, StatisticsAreThoseOfTheBoxNotOfThePatchOrTheFile) {
  const VolumesConfig whole = one({1000, 2, 4, 2, 4, 2, 4});
  write_list("m.csv", "case,box\na,\"1:7,,\"\n");
  VolumesConfig config = whole;
  config.list = "m.csv";
  config.normalisation = "zscore";
  config.patch = {1, 1, 1};
  const VolumeDataset data(config);
  for (uint64_t k = 0; k < 20; ++k)
    EXPECT_EQ(std::abs(data.read(0, WindowChoice::random({1, k})).input.data<float>()[0]), 1);
}

TEST_F(VolumeNormaliseTest, ModesThatThereAreNotAreNamed) {
  VolumesConfig config = one({1, 3});
  config.normalisation = "minmax";
  EXPECT_THAT(
      message_of([&] { VolumeDataset data(config); }),
      HasSubstr("volumes.normalisation is 'minmax', wanted none, global, zscore, percentile "
                "or fixed"));
}

// A file that does not answer ends the fit, and is named; so does a signal while it is waited for.
TEST_F(VolumeNormaliseTest, AFitIsBoundedInTime) {
  VolumesConfig config = one({1, 3});
  config.normalisation = "global";
  config.preflight = "headers";
  VolumeDataset data(config);
  const auto self = make_self_communicator();
  {
    const HeldLock hangs;
    EXPECT_THAT(message_of([&] { data.fit_normaliser({0}, *self, {.silence_s = 0.05}); }),
                AllOf(HasSubstr("no answer for a long time from the file system"),
                      HasSubstr(root + "/a_image.h5'")));
    EXPECT_THAT(message_of([&] {
                  data.fit_normaliser({0}, *self,
                                      {.may_go_on = [] { throw Error("told to stop"); }});
                }),
                HasSubstr("told to stop"));
  }
  data.fit_normaliser({0}, *self);
  EXPECT_EQ(data.normaliser().moments()[0].mean, 2);
}

TEST_F(VolumeNormaliseTest, GlobalNeedsAFitAndIsSaved) {
  VolumesConfig config = one({1, 3});
  config.normalisation = "global";
  VolumeDataset data(config);
  EXPECT_THAT(message_of([&] { data.read(0, WindowChoice::centred()); }),
              HasSubstr("global statistics are asked for before they were fitted"));
  const auto self = make_self_communicator();
  data.fit_normaliser({0}, *self);
  EXPECT_EQ(data.read(0, WindowChoice::centred()).input.to_vector<float>(),
            (std::vector<float>{-1, 1}));

  const std::string file = root + "/state.h5";
  save_checkpoint(file, [&](StateVisitor& v) { data.normaliser().state(v); });
  VolumeDataset again(config);
  load_checkpoint(file, [&](StateVisitor& v) { again.normaliser().state(v); });
  EXPECT_EQ(again.scalings(0)[0].shift, 2);
  EXPECT_EQ(again.scalings(0)[0].scale, 1);
  config.normalisation = "zscore";
  VolumeDataset other(config);
  EXPECT_THAT(message_of([&] {
                load_checkpoint(file, [&](StateVisitor& v) { other.normaliser().state(v); });
              }),
              HasSubstr("the checkpoint was made with 'global', the configuration says 'zscore'"));
}

TEST_F(VolumeNormaliseTest, StatisticsThatContradictThemselvesAreNamed) {
  VolumesConfig config = one({1, 3});
  config.normalisation = "global";
  VolumeDataset data(config);
  data.fit_normaliser({0}, *make_self_communicator());
  MapVisitor::Map saved;
  MapVisitor save(saved, false);
  data.normaliser().state(save);
  saved.at("normalisation.m2") = std::vector<double>{1, 2};
  EXPECT_THAT(message_of([&] {
                MapVisitor load(saved, true);
                VolumeNormaliser(config).state(load);
              }),
              HasSubstr("normalisation: the checkpoint has 1 counts, 1 means and 2 spreads"));
  saved.at("normalisation.m2") = std::vector<double>{1};
  MapVisitor load(saved, true);
  VolumeNormaliser(config).state(load);
}

TEST_F(VolumeNormaliseTest, StatisticsOfOneCaseAreFoundOnceByWhicheverThread) {
  SyntheticVolumesOptions o;
  o.n_cases = 1;
  o.grid = {20, 20, 20};
  write_synthetic_volumes(root, o);
  const VolumeDataset data(synthetic());
  std::vector<std::vector<float>> found(4);
  std::vector<std::thread> threads;
  for (size_t t = 0; t < 4; ++t)
    threads.emplace_back(
        [&, t] { found[t] = data.read(0, WindowChoice::centred()).input.to_vector<float>(); });
  for (std::thread& t : threads) t.join();
  for (size_t t = 1; t < 4; ++t) EXPECT_EQ(found[t], found[0]);
}

TEST(VolumeStatistics, SlabsOfAnySizeGiveExactPercentiles) {
  const Dims3 grid{13, 5, 3};
  const RngKey key{4, 5};
  std::vector<float> values(static_cast<size_t>(grid.count()) * 2);
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = i % 7 == 0 ? 0 : static_cast<float>(key.normal(i)) * (i % 2 ? 1000.0f : 1e-3f);
  values[9] = NAN;
  const Tensor image = Tensor::from(Shape{13, 5, 3, 2}, values);
  for (const bool nonzero : {false, true})
    for (const int64_t slab : {1, 61, 100000}) {
      const auto found = volume_statistics(
          {{}, grid}, 2,
          [&](const Box& b) { return image.rows(b.begin.d, b.begin.d + b.count.d).clone(); },
          {.nonzero = nonzero, .percentiles = {2.5, 97}}, slab);
      for (size_t c = 0; c < 2; ++c) {
        std::vector<float> counted;
        double minimum = INFINITY;
        for (size_t i = c; i < values.size(); i += 2) {
          if (std::isnan(values[i])) continue;
          minimum = std::min(minimum, static_cast<double>(values[i]));
          if (!(nonzero && values[i] == 0)) counted.push_back(values[i]);
        }
        EXPECT_EQ(found[c].moments.n, static_cast<int64_t>(counted.size()));
        EXPECT_EQ(found[c].minimum, minimum);
        EXPECT_DOUBLE_EQ(found[c].low, percentile(counted, 2.5)) << slab;
        EXPECT_DOUBLE_EQ(found[c].high, percentile(counted, 97)) << slab;
        double mean = 0;
        for (const float v : counted) mean += v / static_cast<double>(counted.size());
        // 195 sums of numbers up to 3000 in f64.
        EXPECT_NEAR(found[c].moments.mean, mean, 195 * 3000 * 2.3e-16);
        EXPECT_EQ(found[c].clipped.n, found[c].moments.n);
        EXPECT_LT(found[c].clipped.variance(), found[c].moments.variance());
      }
    }
}

TEST(VolumeRead, SlabsCoverTheBoxInOrder) {
  for (const int64_t most : {1, 30, 59, 1000}) {
    int64_t next = 2;
    each_slab(
        {{2, 1, 0}, {7, 3, 5}}, 2,
        [&](const Box& b) {
          EXPECT_EQ(b.begin, (Dims3{next, 1, 0}));
          EXPECT_EQ(b.count.h, 3);
          EXPECT_TRUE(b.count.d == 1 || b.count.count() * 2 <= most);
          next += b.count.d;
        },
        most);
    EXPECT_EQ(next, 9);
  }
}

}  // namespace
}  // namespace bora::data::test
