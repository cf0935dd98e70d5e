// SPDX-License-Identifier: Apache-2.0
// Rows 89 to 97, 99 and 101 on samples read from files.
#include "data/wind_dataset.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <thread>

#include "comm/communicator.hpp"
#include "data/netcdf.hpp"
#include "data/split.hpp"
#include "data/synthetic.hpp"
#include "tests/data/pipeline_support.hpp"
#include "tests/data/reference_values.hpp"
#include "tests/data/wind_fixture.hpp"

namespace bora::data::test {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;

// Row 117: the values of the known formula arrive where they belong.
TEST_F(WindDatasetTest, SamplesHoldTheKnownField) {
  const WindDataset data(config_);
  ASSERT_EQ(data.size(), 6);
  for (int64_t i = 0; i < data.size(); ++i) {
    const Sample s = data.read(i, WindowChoice::centred());
    const int angle = static_cast<int>(s.angle_deg);
    const auto buildings = synthetic_layout(options_, std::stoi(data.group(i)), angle);
    EXPECT_EQ(s.name, bora::detail::join(angle, "VF", data.group(i)));
    ASSERT_EQ(s.input.shape(), Shape({12, 9, 7, 1}));
    ASSERT_EQ(s.target.shape(), Shape({12, 9, 7, 1}));
    ASSERT_EQ(s.region.shape(), Shape({12, 9, 7}));
    int64_t k = 0, n_open = 0;
    for (int x = 0; x < 12; ++x)
      for (int y = 0; y < 9; ++y)
        for (int z = 0; z < 7; ++z, ++k) {
          const double px = 5 * (x + 0.5), py = 5 * (y + 0.5), pz = 5 * (z + 0.5);
          const bool open = synthetic_open(buildings, px, py, pz);
          n_open += open;
          EXPECT_EQ(s.input.data<float>()[k], open ? 1.0f : -1.0f);
          EXPECT_EQ(s.region.data<uint8_t>()[k], open);
          EXPECT_EQ(s.valid.data<uint8_t>()[k], 1);
          EXPECT_EQ(s.target.data<float>()[k],
                    static_cast<float>(synthetic_wind(buildings, px, py, pz)));
        }
    EXPECT_GT(n_open, 0);
    EXPECT_LT(n_open, k);
  }
}

// Rows 92, 93.
TEST_F(WindDatasetTest, WindowsCropAndPadAllArraysAlike) {
  const Sample whole = WindDataset(config_).read(2, WindowChoice::centred());
  for (const Dims3& shape : {Dims3{4, 4, 4}, Dims3{12, 9, 7}, Dims3{16, 16, 16}, Dims3{20, 4, 7}}) {
    config_.shape = shape;
    const WindDataset data(config_);
    for (uint64_t k = 0; k < 4; ++k) {
      const Sample s =
          data.read(2, k == 0 ? WindowChoice::centred() : WindowChoice::random({9, k}));
      ASSERT_EQ(s.region.shape(), Shape({shape.d, shape.h, shape.w}));
      EXPECT_EQ(s.window.begin.w, 0);
      for (int64_t i = 0; i < s.region.numel(); ++i) {
        const int64_t x = s.window.begin.d + i / (shape.h * shape.w);
        const int64_t y = s.window.begin.h + i / shape.w % shape.h, z = i % shape.w;
        const bool inside = x >= 0 && x < 12 && y >= 0 && y < 9 && z < 7;
        const int64_t j = (x * 9 + y) * 7 + z;
        EXPECT_EQ(s.input.data<float>()[i], inside ? whole.input.data<float>()[j] : -1.0f);
        EXPECT_EQ(s.target.data<float>()[i], inside ? whole.target.data<float>()[j] : 0.0f);
        EXPECT_EQ(s.region.data<uint8_t>()[i], inside ? whole.region.data<uint8_t>()[j] : 0);
        EXPECT_EQ(s.valid.data<uint8_t>()[i], inside ? 1 : 0);
      }
    }
  }
}

// Row 93: statistics and samples do not depend on how much padding there is.
TEST_F(WindDatasetTest, PaddingNeverEntersStatistics) {
  config_.normalisation = "per_sample";
  const Sample exact = WindDataset(config_).read(1, WindowChoice::centred());
  config_.shape = {32, 32, 32};
  const WindDataset padded(config_);
  const Sample s = padded.read(1, WindowChoice::centred());
  EXPECT_EQ(s.scaling.mean, exact.scaling.mean);
  EXPECT_EQ(s.scaling.sigma, exact.scaling.sigma);
  const Moments m = padded.moments(1);
  EXPECT_EQ(m.mean, exact.scaling.mean);
  const Tensor back = put_back(s.target.reshape(Shape{32, 32, 32}), s.window, 7);
  EXPECT_EQ(std::memcmp(back.raw(), exact.target.raw(), static_cast<size_t>(back.bytes())), 0);
}

/// Bytes that this process has read from files so far.
int64_t bytes_from_files() {
  std::ifstream in("/proc/self/io");
  std::string name;
  int64_t value = 0;
  in >> name >> value;
  return name == "rchar:" ? value : -1;
}

// Row 91: only kept levels are read, counted by us and by the kernel.
TEST(WindDataset, OnlyKeptLevelsAreRead) {
  TempFolder folder;
  SyntheticWindOptions options;
  options.n_layouts = 1;
  options.grid = {8, 8, 256};
  write_synthetic_wind(folder.path(), options);
  // Level by level in the file, not compressed: z is the slowest axis there.
  const std::string path = folder.file("wind_speed_filled/0VF1_ws_filled.nc");
  {
    const Tensor t = NetcdfFile::open(path).read("wind_speed", {"z", "y", "x"}, {});
    NetcdfWriter out(path);
    for (const char* d : {"z", "y", "x"}) out.dimension(d, *d == 'z' ? 256 : 8);
    hdf5::Storage storage;
    storage.chunk = {1, 8, 8};
    out.variable("wind_speed", {"z", "y", "x"}, t, storage);
    out.close();
  }
  WindConfig config;
  config.root = folder.path();
  config.normalisation = "none";
  const auto cost = [&](int64_t levels) {
    config.shape = {8, 8, levels};
    const WindDataset data(config);
    const int64_t ours = hdf5::bytes_read(), kernel = bytes_from_files();
    data.read(0, WindowChoice::centred());
    return std::pair{hdf5::bytes_read() - ours, bytes_from_files() - kernel};
  };
  const auto [few, few_kernel] = cost(16);
  const auto [all, all_kernel] = cost(256);
  EXPECT_EQ(few, 2 * 8 * 8 * 16 * 4);  // wind and mask
  EXPECT_EQ(all, 2 * 8 * 8 * 256 * 4);
  if (few_kernel < 0) GTEST_SKIP() << "no /proc/self/io here";
  // 240 chunks of 256 bytes are not touched.
  EXPECT_LE(few_kernel, all_kernel - 240 * 256);
}

int64_t open_files() {
  return std::distance(fs::directory_iterator("/proc/self/fd"), fs::directory_iterator());
}
int64_t resident_bytes() {
  std::ifstream in("/proc/self/statm");
  int64_t total = 0, resident = 0;
  in >> total >> resident;
  return resident * ::sysconf(_SC_PAGESIZE);
}

// Row 90.
TEST_F(WindDatasetTest, NoHandleStaysOpenAndMemoryStaysFlat) {
  config_.shape = {8, 8, 4};
  const WindDataset data(config_);
  const auto read = [&](uint64_t k) {
    data.read(static_cast<int64_t>(k) % data.size(), WindowChoice::random({1, k}));
    EXPECT_EQ(hdf5::open_objects(), 0);
  };
  for (uint64_t k = 0; k < 100; ++k) read(k);
  const int64_t files = open_files(), memory = resident_bytes();
  for (uint64_t k = 0; k < 1000; ++k) read(k);
  EXPECT_EQ(open_files(), files);
  // A leak of one sample's arrays (about 3 kB of data) a read would be 3 MB.
#if !defined(__SANITIZE_ADDRESS__)  // its quarantine keeps freed memory
  EXPECT_LT(resident_bytes() - memory, 2'000'000);
#else
  static_cast<void>(memory);
#endif
}

TEST_F(WindDatasetTest, TheSameBitsFromAnyThread) {
  config_.shape = {8, 6, 5};
  config_.normalisation = "per_sample";
  config_.augment.flip_y = true;
  const WindDataset data(config_);
  std::vector<Sample> wanted;
  for (uint64_t k = 0; k < 60; ++k)
    wanted.push_back(data.read(static_cast<int64_t>(k % 6), WindowChoice::random({3, k})));
  std::vector<int> wrong(4, 0);
  std::vector<std::thread> threads;
  for (size_t t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (uint64_t i = 0; i < 60; ++i) {
        const uint64_t k = (i * 7 + t * 13) % 60;
        wrong[t] +=
            !same(wanted[k], data.read(static_cast<int64_t>(k % 6), WindowChoice::random({3, k})));
      }
    });
  for (std::thread& t : threads) t.join();
  EXPECT_THAT(wrong, Each(0));
}

TEST_F(WindDatasetTest, RandomSamplesAreMirroredInY) {
  config_.augment.flip_y = true;
  const WindDataset data(config_);
  const Sample plain = data.read(3, WindowChoice::centred());
  int n_mirrored = 0;
  for (uint64_t k = 0; k < 20; ++k) {
    const Sample s = data.read(3, WindowChoice::random({5, k}));
    const bool mirrored = draw_variation(config_.augment, {5, k}).flip_y;
    n_mirrored += mirrored;
    for (int64_t i = 0; i < s.region.numel(); ++i) {
      const int64_t x = i / 63, y = i / 7 % 9, z = i % 7;
      const int64_t j = (x * 9 + (mirrored ? 8 - y : y)) * 7 + z;
      ASSERT_EQ(s.target.data<float>()[i], plain.target.data<float>()[j]);
      ASSERT_EQ(s.input.data<float>()[i], plain.input.data<float>()[j]);
      ASSERT_EQ(s.region.data<uint8_t>()[i], plain.region.data<uint8_t>()[j]);
    }
    EXPECT_EQ(s.angle_deg, mirrored ? 330 : 30);
  }
  EXPECT_GT(n_mirrored, 3);
  EXPECT_LT(n_mirrored, 17);
}

// Row 101: training reads are noisy, each in its own way, evaluation is not.
TEST_F(WindDatasetTest, OnlyTrainingInputsAreNoisy) {
  const Sample plain = WindDataset(config_).read(3, WindowChoice::centred());
  config_.augment.noise = 0.2;
  config_.augment.flip_y = true;
  const WindDataset data(config_);
  EXPECT_TRUE(same(plain, data.read(3, WindowChoice::centred())));
  const Sample a = data.read(3, WindowChoice::random({5, 1}));
  EXPECT_TRUE(same(a, data.read(3, WindowChoice::random({5, 1}))));
  EXPECT_NE(a.input.to_vector<float>(),
            data.read(3, WindowChoice::random({5, 2})).input.to_vector<float>());
  WindConfig quiet = config_;
  quiet.augment.noise = 0;
  const Sample b = WindDataset(quiet).read(3, WindowChoice::random({5, 1}));
  EXPECT_EQ(a.target.to_vector<float>(), b.target.to_vector<float>());
  EXPECT_EQ(a.region.to_vector<uint8_t>(), b.region.to_vector<uint8_t>());
  for (int64_t i = 0; i < a.input.numel(); ++i) {
    ASSERT_NE(a.input.data<float>()[i], b.input.data<float>()[i]);
    ASSERT_EQ(a.input.data<float>()[i] < 0, b.input.data<float>()[i] < 0);
  }
}

// Row 99.
TEST_F(WindDatasetTest, AngleChannels) {
  config_.angle_channels = true;
  const WindDataset data(config_);
  EXPECT_EQ(data.n_channels(), 3);
  const Sample s = data.read(3, WindowChoice::centred());
  ASSERT_EQ(s.input.shape(), Shape({12, 9, 7, 3}));
  const Sample plain = [&] {
    WindConfig c = config_;
    c.angle_channels = false;
    return WindDataset(c).read(3, WindowChoice::centred());
  }();
  for (int64_t i = 0; i < plain.input.numel(); ++i) {
    EXPECT_EQ(s.input.data<float>()[3 * i], plain.input.data<float>()[i]);
    EXPECT_NEAR(s.input.data<float>()[3 * i + 1], 0.5, 1e-7);
    EXPECT_NEAR(s.input.data<float>()[3 * i + 2], std::sqrt(0.75), 1e-7);
  }
}

// Row 94.
TEST_F(WindDatasetTest, ClipCutsBeforeNormalisingAndWarnsOnce) {
  const Sample plain = WindDataset(config_).read(0, WindowChoice::centred());
  config_.clip = {1, 3};
  const WindDataset data(config_);
  ::testing::internal::CaptureStderr();
  const Sample s = data.read(0, WindowChoice::centred());
  data.read(0, WindowChoice::centred());
  const std::string log = ::testing::internal::GetCapturedStderr();
  EXPECT_THAT(log, AllOf(HasSubstr("clip [1, 3] m/s cut"), HasSubstr(wind("0VF1"))));
  EXPECT_EQ(log.find("clip", log.find("clip") + 1), std::string::npos);
  int64_t n_cut = 0;
  for (int64_t i = 0; i < s.target.numel(); ++i) {
    const float v = plain.target.data<float>()[i];
    EXPECT_EQ(s.target.data<float>()[i], std::min(3.0f, std::max(1.0f, v)));
    n_cut += s.region.data<uint8_t>()[i] && (v < 1 || v > 3);
  }
  EXPECT_THAT(log, HasSubstr("cut " + std::to_string(n_cut) + " of"));
  EXPECT_LE(data.moments(0).mean, 3);
}

// Rows 96, 97: through the whole way and back to m/s in a file.
TEST_F(WindDatasetTest, APredictionIsWrittenInTheInputsFormat) {
  const auto self = make_self_communicator();
  config_.normalisation = "global";
  config_.shape = {16, 6, 10};  // padded in x and z, cropped in y
  WindDataset data(config_);
  EXPECT_THAT(message_of([&] { data.read(0, WindowChoice::centred()); }),
              HasSubstr("before they were fitted"));
  data.fit_normaliser({0, 1, 2}, *self);
  Sample s = data.read(4, WindowChoice::centred());
  Tensor wind_again = s.target.reshape(Shape{16, 6, 10}).clone();
  denormalise(wind_again, s.scaling);
  const Tensor grid = put_back(wind_again, s.window, std::nan(""));
  const std::string path = folder_.file("prediction.nc");
  write_prediction(path, config_, data.at(4), grid, {{"history", "predicted"}});

  const Volume truth = data.read_wind(4),
               found = NetcdfFile::open(path).read_volume("wind_speed", {"x", "y", "z"});
  EXPECT_EQ(found.units, "m s-1");
  for (size_t a = 0; a < 3; ++a) EXPECT_EQ(found.axes[a].centres, truth.axes[a].centres);
  for (int64_t i = 0; i < truth.values.numel(); ++i) {
    const int64_t y = i / 7 % 9;
    const float v = found.values.data<float>()[i], w = truth.values.data<float>()[i];
    if (y < 1 || y > 6)
      EXPECT_TRUE(std::isnan(v));
    else
      EXPECT_LE(std::abs(v - w), 0x1p-23 * (std::abs(w) + std::abs(s.scaling.mean)));
  }
  EXPECT_THAT(message_of([&] { write_prediction(path, config_, data.at(4), wind_again); }),
              AllOf(HasSubstr("(16, 6, 10)"), HasSubstr("12x9x7")));
}

TEST_F(WindDatasetTest, ACaseWithoutTruthCanBeRead) {
  const WindDataset data(config_, {open_wind_case(config_, mask("0VF1"))});
  const Sample s = data.read(0, WindowChoice::centred());
  const Sample full = WindDataset(config_).read(0, WindowChoice::centred());
  EXPECT_EQ(s.input.to_vector<float>(), full.input.to_vector<float>());
  EXPECT_EQ(s.region.to_vector<uint8_t>(), full.region.to_vector<uint8_t>());
  EXPECT_THAT(s.target.to_vector<float>(), Each(0.0f));
  EXPECT_THAT(message_of([&] { data.moments(0); }), HasSubstr("no wind file"));
  write_prediction(folder_.file("p.nc"), config_, data.at(0),
                   Tensor::zeros(Shape{12, 9, 7}, DType::f32));
  EXPECT_EQ(NetcdfFile::open(folder_.file("p.nc")).info("wind_speed").extents[1], 9);
}

// Real files against numpy: cells, means, sigmas, a window.
TEST(WindDataset, StatisticsOfTheSampleEqualNumpys) {
  WindConfig config;
  config.root = kSample;
  WindDataset whole(config);
  config.shape = {40, 21, 8};
  config.normalisation = "none";
  const WindDataset low(config);
  const auto index_of = [&](const std::string& name) {
    for (int64_t i = 0; i < low.size(); ++i)
      if (low.name(i) == name) return i;
    BORA_FAIL("no case ", name);
  };
  std::ifstream in(kReference + "wind_statistics.csv");
  std::string line;
  std::getline(in, line);
  std::vector<int64_t> pool;
  int n_lines = 0;
  // numpy sums pairwise, we in order: n additions of u each, with room for its own error.
  const double tolerance = 131072 * 0x1p-53 * 2;
  while (std::getline(in, line)) {
    ++n_lines;
    const std::vector<std::string> p = parts_of(line, ',');
    Moments m8;
    if (p[0] == "pooled") {
      const auto self = make_self_communicator();
      Normaliser n(NormMode::global);
      n.fit(
          pool, [&](int64_t i) { return low.moments(i); }, *self);
      m8 = n.moments();
    } else {
      const int64_t i = index_of(p[0]);
      pool.push_back(i);
      const Moments m = whole.moments(i);
      EXPECT_EQ(m.n, std::stol(p[1]));
      EXPECT_NEAR(m.mean / std::stod(p[2]), 1, tolerance);
      EXPECT_NEAR(m.scaling().sigma / std::stod(p[3]), 1, tolerance);
      m8 = low.moments(i);
      const Sample s = low.read(i, WindowChoice::centred());
      int64_t n = 0;
      double sum = 0;
      for (int64_t k = 0; k < s.region.numel(); ++k)
        if (s.region.data<uint8_t>()[k]) ++n, sum += s.target.data<float>()[k];
      EXPECT_EQ(n, std::stol(p[7]));
      EXPECT_NEAR(sum / std::stod(p[8]), 1, tolerance);
    }
    EXPECT_EQ(m8.n, std::stol(p[4]));
    EXPECT_NEAR(m8.mean / std::stod(p[5]), 1, tolerance);
    EXPECT_NEAR(m8.scaling().sigma / std::stod(p[6]), 1, tolerance);
  }
  EXPECT_EQ(n_lines, 6);
}

TEST(WindDataset, TheSampleSplitsByLayout) {
  WindConfig config;
  config.root = kSample;
  const WindDataset data(config);
  const Split split = make_split(data, {});
  EXPECT_EQ(split.train.size() + split.validation.size(), 57u);
  for (int64_t t : split.train)
    for (int64_t v : split.validation) EXPECT_NE(data.group(t), data.group(v));
  const Subset validation(data, split.validation);
  EXPECT_EQ(validation.size(), static_cast<int64_t>(split.validation.size()));
  EXPECT_EQ(validation.name(0), data.name(split.validation[0]));
  EXPECT_THROW(Subset(data, {57}), Error);
}

}  // namespace
}  // namespace bora::data::test
