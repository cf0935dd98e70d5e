// SPDX-License-Identifier: Apache-2.0
// Rows 88, 89, 96: every kind of damage to files of wind is told by name, the same on all ranks;
// the statistics of the pre-flight have the bits of those read for themselves.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <bit>
#include <filesystem>
#include <limits>

#include "comm/communicator.hpp"
#include "data/netcdf.hpp"
#include "data/synthetic.hpp"
#include "data/wind_dataset.hpp"
#include "tests/data/pipeline_support.hpp"
#include "tests/support/mpi_main.hpp"
#include "tests/support/shared_folder.hpp"

namespace bora::data::test {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::SizeIs;

constexpr int kCases = 18;
constexpr int64_t kX = 24, kY = 20, kZ = 12;

class WindDamage : public ::testing::Test {
 protected:
  WindDamage() {
    ranks_->agree("writing cases", [&] {
      if (ranks_->rank() != 0) return;
      SyntheticWindOptions options;
      options.n_layouts = kCases;
      options.grid = {kX, kY, kZ};
      write_synthetic_wind(shared_.path(), options);
    });
    config_.root = shared_.path();
  }
  std::string wind(int layout) const {
    return shared_.path() + "/wind_speed_filled/0VF" + std::to_string(layout) + "_ws_filled.nc";
  }
  std::string mask(int layout) const {
    return shared_.path() + "/mask_buildings/0VF" + std::to_string(layout) + "_ws_building_mask.nc";
  }
  template <class Change>
  void spoil(const std::string& path, const std::string& variable, Change change) {
    Tensor t = NetcdfFile::open(path).read(variable, {"x", "y", "z"}, {});
    change(t.data<float>());
    const std::string copy = path + ".copy";
    fs::copy(path, copy);
    write_netcdf_like(path, copy, variable, {"x", "y", "z"}, variable, t);
    fs::remove(copy);
  }
  /// A wind file with other storage or another grid, without coordinates.
  void write(const std::string& path, const Dims3& grid, const hdf5::Storage& storage) {
    NetcdfWriter out(path);
    out.dimension("x", grid.d);
    out.dimension("y", grid.h);
    out.dimension("z", grid.w);
    Tensor t = Tensor::zeros({grid.d, grid.h, grid.w}, DType::f32);
    for (int64_t i = 0; i < t.numel(); ++i) t.data<float>()[i] = static_cast<float>(i % 97) / 8;
    out.variable("wind_speed", {"x", "y", "z"}, t, storage);
    out.close();
  }
  static void flip(const std::string& path, const std::string& what, size_t n) {
    std::string bytes = read_file(path);
    const size_t at = what.empty() ? bytes.size() * 3 / 4 : bytes.find(what);
    ASSERT_LT(at, bytes.size() - n);
    for (size_t i = 0; i < n; ++i) bytes[at + i] = static_cast<char>(~bytes[at + i]);
    write_file(path, bytes);
  }
  /// As floats stand in the file.
  static std::string bytes_of(std::initializer_list<float> values) {
    std::string text;
    for (const float v : values) {
      const uint32_t bits = std::bit_cast<uint32_t>(v);
      for (int i = 0; i < 4; ++i) text.push_back(static_cast<char>(bits >> (8 * i)));
    }
    return text;
  }
  void damage() {
    const std::string whole = read_file(wind(1));
    write_file(wind(1), whole.substr(0, whole.size() / 2));  // truncated
    flip(wind(2), "", 48);                                   // inside a deflated chunk
    write(wind(3), {kX, kY, kZ}, {.chunk = {kX, kY, kZ}, .fletcher32 = true});
    flip(wind(3), bytes_of({4.0f, 4.125f, 4.25f}), 1);  // checksum of a chunk
    write_file(wind(4), "Dear reader, this is no data set at all, but a letter.\n");
    write_file(wind(5), "");
    fs::remove(wind(6));
    fs::create_symlink("/nowhere/at/all", wind(6));
    fs::remove(wind(7));
    fs::create_directory(wind(7));
    spoil(wind(8), "wind_speed", [](float* v) {
      for (int64_t i = 0; i < kX * kY * kZ; ++i) v[i] = std::numeric_limits<float>::quiet_NaN();
    });
    write(wind(9), {kX, kY, kZ - 1}, {});
    fs::create_directory(shared_.path() + "/wind_speed_filled/more");
    fs::copy(wind(10), shared_.path() + "/wind_speed_filled/more");
    fs::remove(mask(11));
    spoil(mask(12), "building_mask", [](float* v) { v[5] = 0.5f; });
    spoil(wind(13), "wind_speed",
          [](float* v) { v[kZ - 1] = std::numeric_limits<float>::infinity(); });
    spoil(wind(14), "wind_speed", [](float* v) { v[kZ - 1] = 250; });
    fs::permissions(wind(15), fs::perms::none);
    fs::remove(wind(16));
    ASSERT_EQ(::system(("mkfifo " + wind(16)).c_str()), 0);
  }

  std::unique_ptr<Collective> ranks_ = make_communicator(bora::testing::session());
  bora::testing::SharedFolder shared_{*ranks_};
  WindConfig config_;
};

TEST_F(WindDamage, EachKindIsToldByNameTheSameOnAllRanks) {
  const bool is_root = ::geteuid() == 0;
  ranks_->agree("spoiling cases", [&] {
    if (ranks_->rank() != 0) return;
    damage();
    ASSERT_EQ(::system(("chmod -R go+rX " + shared_.path() + " && chmod 0 " + wind(15)).c_str()),
              0);
  });
  config_.files.range = {0, 100};
  config_.files.on_bad_files = "skip";
  // root may read anything: look as somebody else.
  if (is_root) {
    ASSERT_EQ(::seteuid(65534), 0);
  }
  WindFiles files;
  std::string refusal;
  try {
    files = find_wind_files(config_, ranks_.get());
    config_.files.on_bad_files = "refuse";
    refusal = message_of([&] { find_wind_files(config_, ranks_.get()); });
  } catch (const std::exception& e) {
    ADD_FAILURE() << e.what();
  }
  if (is_root) {
    ASSERT_EQ(::seteuid(0), 0);
  }

  EXPECT_THAT(files.cases, SizeIs(kCases - 16));
  EXPECT_THAT(files.problems, SizeIs(16));
  EXPECT_EQ(hdf5::open_objects(), 0);
  const auto one = [&](auto... what) {
    EXPECT_THAT(files.problems, Contains(AllOf(HasSubstr(what)...)));
  };
  one(wind(1), "truncated");
  one(wind(2), "wind_speed");
  one(wind(3), "wind_speed");
  one(wind(4), "HDF5");
  one(wind(5), "0 bytes");
  one(wind(6), "link to '/nowhere/at/all'", "No such file");
  one(mask(7), "has no wind file");  // a folder is looked through, not taken for a file
  one(wind(8), "missing (NaN or fill value) in open cells", "the first at cell");
  one(wind(9), "24x20x11", "its mask", "24x20x12");
  one("case '0VF10' occurs 2 times", "more/0VF10");
  one(wind(11), "has no mask");
  one(mask(12), "1 of 5760 values are neither -1 (building) nor 1 (open)", "0.5 at cell (0, 0, 5)");
  one(wind(13), "1 of 5760 values are infinite", "cell (0, 0, 11)");
  one(wind(14), "1 of 5760 values are outside data.files.range = [0, 100] m/s", "the first is 250");
  one(wind(15), "may not be read", "Permission denied");
  one(wind(16), "is a pipe, wanted a file");
  EXPECT_THAT(refusal, AllOf(HasSubstr("16 problem(s) with the files in '" + config_.root + "'"),
                             HasSubstr("on_bad_files")));
  std::string all = refusal;
  for (const std::string& p : files.problems) all += p + "\n";
  for (const WindCase& c : files.cases) all += c.name + "\n";
  EXPECT_THAT(ranks_->all_gather_text(all, "lists"), Each(all));
}

TEST_F(WindDamage, WhatHeadersDoNotSayIsLeftToTheFirstRead) {
  ranks_->agree("spoiling a case", [&] {
    if (ranks_->rank() == 0) spoil(mask(12), "building_mask", [](float* v) { v[5] = 0.5f; });
  });
  config_.files.preflight = "headers";
  config_.normalisation = "none";
  const WindDataset data(config_, ranks_.get());
  ASSERT_EQ(data.size(), kCases);
  EXPECT_EQ(data.at(0).moments.has_value(), false);
  int n_bad = 0;
  for (int64_t i = 0; i < kCases; ++i) {
    try {
      data.read(i, WindowChoice::centred());
    } catch (const Error& e) {
      EXPECT_THAT(e.what(), HasSubstr(mask(12)));
      ++n_bad;
    }
  }
  EXPECT_EQ(n_bad, 1);
  config_.files.preflight = "full";
  EXPECT_THAT(message_of([&] { WindDataset(config_, ranks_.get()); }), HasSubstr(mask(12)));
}

TEST_F(WindDamage, AFileThatChangesLaterIsRefusedWhenItIsRead) {
  const WindDataset data(config_, ranks_.get());
  ranks_->agree("changing a file", [&] {
    if (ranks_->rank() == 0) spoil(wind(1), "wind_speed", [](float* v) { v[kZ - 1] += 1; });
  });
  EXPECT_THAT(message_of([&] { data.read(0, WindowChoice::centred()); }),
              AllOf(HasSubstr(wind(1)), HasSubstr("has changed")));
}

TEST_F(WindDamage, MomentsOfThePreflightHaveTheBitsOfThoseReadLater) {
  for (const int64_t levels : {0, 7, 40})
    for (const std::vector<double>& clip : {std::vector<double>{}, std::vector<double>{1.0, 4.0}}) {
      config_.shape.w = levels;
      config_.clip = clip;
      config_.files.preflight = "full";
      const WindDataset full(config_, ranks_.get());
      config_.files.preflight = "headers";
      const WindDataset lazy(config_, ranks_.get());
      for (int64_t i = 0; i < full.size(); ++i) {
        ASSERT_TRUE(full.at(i).moments.has_value());
        const Moments a = full.moments(i), b = lazy.moments(i);
        EXPECT_EQ(a.n, b.n);
        EXPECT_EQ(std::bit_cast<uint64_t>(a.mean), std::bit_cast<uint64_t>(b.mean));
        EXPECT_EQ(std::bit_cast<uint64_t>(a.m2), std::bit_cast<uint64_t>(b.m2));
      }
    }
}

}  // namespace
}  // namespace bora::data::test
