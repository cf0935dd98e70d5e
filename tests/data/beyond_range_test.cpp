// SPDX-License-Identifier: Apache-2.0
// Numbers that f64 holds and f32 does not: told as what they are, not as infinite ones, whatever
// the format, also where only the file's scale makes them so (rows 88, 89).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "data/netcdf.hpp"
#include "data/value_summary.hpp"
#include "data/volume_read.hpp"
#include "tests/data/volume_fixture.hpp"
#include "tests/data/wind_fixture.hpp"

namespace bora::data::test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr const char* kRange = "beyond the range of f32 (-3.40282e+38 to 3.40282e+38)";

/// 2 x 3 x 4 zeros, `value` at cell (1, 2, 3), the last one in any order of the axes.
template <class T>
std::vector<T> cells(T value) {
  std::vector<T> v(24, T{0});
  v.back() = value;
  return v;
}
template <class T>
std::string bytes_of(const std::vector<T>& v) {
  return {reinterpret_cast<const char*>(v.data()), v.size() * sizeof(T)};
}

class BeyondRange : public ::testing::Test {
 protected:
  std::string nifti(int16_t datatype, const std::string& values, float slope, float intercept) {
    std::string h(352, '\0');
    const auto put = [&](size_t at, auto value) {
      std::memcpy(h.data() + at, &value, sizeof value);
    };
    put(0, int32_t{348});
    const int16_t dim[] = {3, 2, 3, 4, 1, 1, 1, 1};
    std::memcpy(h.data() + 40, dim, sizeof dim);
    put(70, datatype);
    put(72, static_cast<int16_t>(8 * values.size() / 24));
    for (size_t i = 0; i < 4; ++i) put(76 + 4 * i, 1.0f);
    put(108, 352.0f);
    put(112, slope);
    put(116, intercept);
    std::memcpy(h.data() + 344, "n+1", 4);
    write_file(folder_.file("a.nii"), h + values);
    return folder_.file("a.nii");
  }
  std::string npy(double value) {
    std::string head = "{'descr': '<f8', 'fortran_order': False, 'shape': (4, 3, 2), }";
    head.resize(117, ' ');
    head += '\n';
    write_file(folder_.file("a.npy"), std::string("\x93NUMPY\x01\x00", 8) +
                                          std::string("\x76\x00", 2) + head +
                                          bytes_of(cells(value)));
    return folder_.file("a.npy");
  }
  std::string hdf5(double value) {
    hdf5::File file = hdf5::File::create(folder_.file("a.h5"));
    file.write_dataset("raw", Tensor::from(Shape{4, 3, 2}, cells(value)));
    file.close();
    return folder_.file("a.h5");
  }
  template <class T>
  std::string netcdf(T value, double factor) {
    NetcdfWriter out(folder_.file("a.nc"));
    out.dimension("x", 2), out.dimension("y", 3), out.dimension("z", 4);
    out.variable("raw", {"x", "y", "z"}, Tensor::from(Shape{2, 3, 4}, cells(value)))
        .set_attribute("scale_factor", factor);
    out.close();
    return folder_.file("a.nc");
  }
  static std::string told(const std::string& path, const Box& box = {{1, 0, 0}, {1, 3, 4}}) {
    const VolumeSource source{path, {}, {}};
    return message_of([&] {
      checked_image(open_volume(source)->read(box.begin, box.count, DType::f32), source, box,
                    "mask");
    });
  }
  TempFolder folder_;
};

TEST_F(BeyondRange, IsToldWithValueAndCellInEveryFormat) {
  const auto expect = [&](const std::string& path, const std::string& value) {
    EXPECT_THAT(told(path),
                AllOf(HasSubstr(path), HasSubstr("the value at cell (1, 2, 3) is " + value + ", "),
                      HasSubstr(kRange), Not(HasSubstr("infinite"))));
  };
  expect(hdf5(1e300), "1e+300");
  expect(hdf5(-1e39), "-1e+39");
  expect(npy(1e300), "1e+300");
  expect(nifti(64, bytes_of(cells(-1e300)), 0, 0), "-1e+300");
  expect(netcdf(1e300, 1), "1e+300");
  // By the file's own scale.
  expect(nifti(4, bytes_of(cells(int16_t{300})), 1e37f, 0), "3e+39");
  expect(nifti(64, bytes_of(cells(1e300)), 0.5f, 1), "5e+299");
  expect(netcdf(int32_t{300}, 1e300), "3e+302");
  expect(netcdf(1e300, 0.25), "2.5e+299");
}

TEST_F(BeyondRange, InfiniteValuesStayInfinite) {
  for (const std::string& path :
       {hdf5(INFINITY), npy(-INFINITY), nifti(16, bytes_of(cells(INFINITY)), 0, 0)})
    EXPECT_THAT(told(path), AllOf(HasSubstr(path), HasSubstr("infinite value at cell (1, 2, 3)"),
                                  Not(HasSubstr("beyond")), Not(HasSubstr("scaled"))));
  EXPECT_THAT(told(nifti(64, bytes_of(cells(1e300)), 1e30f, 0)),
              HasSubstr("infinite value at cell (1, 2, 3), as scaled by the file's own factor"));
}

TEST_F(BeyondRange, IsToldOfWeights) {
  const VolumeSource source{hdf5(1e300), {}, {}};
  const Box box{{0, 0, 0}, {2, 3, 4}};
  EXPECT_THAT(message_of([&] {
                checked_weights(open_volume(source)->read(box.begin, box.count, DType::f32), source,
                                box);
              }),
              AllOf(HasSubstr("the weight at cell (1, 2, 3) is 1e+300"), HasSubstr(kRange)));
}

TEST_F(BeyondRange, SummariesCountIt) {
  ValueSummary s;
  s.add(Tensor::from(Shape{4}, std::vector<double>{-1e300, 0, 1, 1e300}));
  EXPECT_EQ(s.n_infinite(), 0);
  EXPECT_EQ(s.max(), 1e300);
  EXPECT_EQ(s.percentile(100), 1e300);
  EXPECT_GT(s.percentile(99), 3e38);
  EXPECT_LT(s.percentile(1), -3e38);
  EXPECT_EQ(s.histogram(0, 2, 2), (std::vector<int64_t>{2, 2}));
}

class BeyondRangePairs : public VolumeTest {};

TEST_F(BeyondRangePairs, ThePreflightAndASampleSayIt) {
  Tensor image = places({4, 3, 2}).to(DType::f64);
  image.data<double>()[7] = 1e300;
  write_pair("a", image, no_labels({4, 3, 2}));
  VolumesConfig config = pairs();
  for (const char* level : {"full", "headers"}) {
    config.preflight = level;
    EXPECT_THAT(message_of([&] { VolumeDataset(config).read(0, WindowChoice::centred()); }),
                AllOf(HasSubstr("/a_image.h5', variable 'raw': the value at cell (1, 0, 1) is "
                                "1e+300"),
                      HasSubstr(kRange)))
        << level;
  }
}

class BeyondRangeWind : public WindDatasetTest {};

TEST_F(BeyondRangeWind, IsToldOfWindAndMask) {
  const auto spoilt = [&](const std::string& path, const std::string& variable) {
    spoil(path, variable, [](Tensor& t) {
      t = t.to(DType::f64);
      t.data<double>()[5] = -1e300;
    });
    std::vector<std::string> told;
    for (const char* level : {"full", "headers"}) {
      config_.files.preflight = level;
      told.push_back(message_of([&] { WindDataset(config_).read(0, WindowChoice::centred()); }));
    }
    return told;
  };
  for (const std::string& text : spoilt(wind("0VF1"), "wind_speed"))
    EXPECT_THAT(text, AllOf(HasSubstr(wind("0VF1")), HasSubstr("1 of 756 values are beyond"),
                            HasSubstr("the first is -1e+300 at cell (0, 0, 5)")));
  write_synthetic_wind(folder_.path(), options_);
  for (const std::string& text : spoilt(mask("0VF1"), "building_mask"))
    EXPECT_THAT(text, AllOf(HasSubstr(mask("0VF1")), HasSubstr("1 of 756 values are neither"),
                            HasSubstr("the first is -1e+300 at cell (0, 0, 5)")));
}

}  // namespace
}  // namespace bora::data::test
