// SPDX-License-Identifier: Apache-2.0
// A folder of synthetic wind cases that tests read and spoil.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <string>

#include "data/netcdf.hpp"
#include "data/synthetic.hpp"
#include "data/wind_dataset.hpp"
#include "tests/data/pipeline_support.hpp"

namespace bora::data::test {

/// Whether two samples have the same bits.
inline bool same(const Sample& a, const Sample& b) {
  const auto bytes = [](const Tensor& s, const Tensor& t) {
    return s.shape() == t.shape() &&
           std::memcmp(s.raw(), t.raw(), static_cast<size_t>(s.bytes())) == 0;
  };
  return bytes(a.input, b.input) && bytes(a.target, b.target) && bytes(a.region, b.region) &&
         bytes(a.valid, b.valid) && a.name == b.name && a.window == b.window &&
         a.scaling.mean == b.scaling.mean && a.scaling.sigma == b.scaling.sigma;
}

/// Good cases, layouts 1 to n_layouts at 0 and 30 degrees, that a test reads and spoils.
class WindFolder : public ::testing::Test {
 protected:
  WindFolder(int n_layouts, const Dims3& grid) {
    options_.n_layouts = n_layouts;
    options_.angles = {0, 30};
    options_.grid = grid;
  }
  void SetUp() override {
    write_synthetic_wind(folder_.path(), options_);
    config_.root = folder_.path();
  }
  std::string wind(const std::string& name) const {
    return folder_.file("wind_speed_filled/" + name + "_ws_filled.nc");
  }
  std::string mask(const std::string& name) const {
    return folder_.file("mask_buildings/" + name + "_ws_building_mask.nc");
  }

  SyntheticWindOptions options_;
  TempFolder folder_;
  WindConfig config_;
};

/// Six cases of 12 x 9 x 7 cells.
class WindDatasetTest : public WindFolder {
 protected:
  WindDatasetTest() : WindFolder(3, {12, 9, 7}) {
    config_.normalisation = "none";
    config_.files.preflight = "headers";  // what a sample finds by itself
  }
  /// Changes one variable by `change(values)` and writes it back.
  template <class Change>
  void spoil(const std::string& path, const std::string& variable, Change change) {
    Tensor t = NetcdfFile::open(path).read(variable, {"x", "y", "z"}, {});
    change(t);
    const std::string copy = folder_.file("copy.nc");
    std::filesystem::copy(path, copy);
    write_netcdf_like(path, copy, variable, {"x", "y", "z"}, variable, t);
    std::filesystem::remove(copy);
  }
  static int64_t first_open(const Sample& s) {
    const uint8_t* r = s.region.data<uint8_t>();
    return std::find(r, r + s.region.numel(), 1) - r;
  }
};

}  // namespace bora::data::test
