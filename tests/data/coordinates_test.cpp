// SPDX-License-Identifier: Apache-2.0
// Rows 71, 88: what coordinates and units say of where values lie, and which way the axes run, is
// believed: a label that is mirrored against its image, heights that fall, speeds in km/h are told.
#include <gmock/gmock.h>
#include <hdf5.h>

#include <string>

#include "data/hdf5_scales.hpp"
#include "data/volume_cases.hpp"
#include "data/wind_files.hpp"
#include "tests/data/volume_fixture.hpp"
#include "tests/data/wind_fixture.hpp"
#include "tests/support/message_of.hpp"

namespace bora::data::test {
namespace {

using bora::testing::message_of;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

Tensor steps(int64_t n, double first, double step) {
  Tensor t = Tensor::empty({n}, DType::f64);
  for (int64_t i = 0; i < n; ++i) t.data<double>()[i] = first + step * static_cast<double>(i);
  return t;
}

class VolumeCoordinates : public VolumeTest {
 protected:
  /// A field of 4 x 3 x 2 cells with coordinates of steps of 2; y falls on request.
  void field(const std::string& name, const std::string& variable, const Tensor& values,
             double first_y, double step_y) const {
    NetcdfWriter out(root + "/" + name);
    out.coordinate("x", steps(4, 0, 2));
    out.coordinate("y", steps(3, first_y, step_y));
    out.coordinate("z", steps(2, 0, 2));
    out.variable(variable, {"x", "y", "z"}, values);
    out.close();
  }
  void pair(const std::string& name, double first_y, double step_y) const {
    field(name + "_image.nc", "raw", places({4, 3, 2}), first_y, step_y);
    field(name + "_label.nc", "label", no_labels({4, 3, 2}), first_y, step_y);
  }
  VolumesConfig config() const {
    VolumesConfig c = pairs();
    c.order.clear();
    c.image_suffix = "_image.nc";
    c.label_suffix = "_label.nc";
    return c;
  }
};

TEST_F(VolumeCoordinates, ALabelThatLiesElsewhereIsRefused) {
  pair("a", 0, 2);
  EXPECT_EQ(find_volume_cases(config()).cases.size(), 1U);
  field("a_label.nc", "label", no_labels({4, 3, 2}), 1e-3, 2);  // f32 of someone else
  EXPECT_EQ(find_volume_cases(config()).cases.size(), 1U);
  field("a_label.nc", "label", no_labels({4, 3, 2}), 4, -2);
  EXPECT_THAT(message_of([&] { find_volume_cases(config()); }),
              AllOf(HasSubstr("a_label.nc' lies elsewhere than its image"),
                    HasSubstr("coordinate 'y' is 4 at cell 0 of axis y, the image's 'y' 0")));
  field("a_label.nc", "label", no_labels({4, 3, 2}), 2, 2);
  EXPECT_THAT(message_of([&] { find_volume_cases(config()); }),
              HasSubstr("coordinate 'y' is 2 at cell 0"));
}

TEST_F(VolumeCoordinates, AxesThatRiseInSomeCasesAndFallInOthersAreToldOnce) {
  pair("a", 0, 2);
  pair("b", 0, 2);
  const auto warning = [&] {
    ::testing::internal::CaptureStderr();
    EXPECT_EQ(find_volume_cases(config()).cases.size(), 2U);
    return ::testing::internal::GetCapturedStderr();
  };
  EXPECT_EQ(warning(), "");
  pair("b", 4, -2);
  EXPECT_THAT(warning(),
              AllOf(HasSubstr("x+ y+ z+ in 1 ('a'), x+ y- z+ in 1 ('b')"), HasSubstr("ncpdq")));
}

TEST_F(VolumeCoordinates, AnHdf5FileOfAnotherNameHasItsVariables) {
  for (const char* name : {"a.mat", "b.mat"}) {
    const hdf5::Lock lock;  // not around the pre-flight, whose threads want it
    hdf5::File file = hdf5::File::create(root + "/" + name);
    file.write_dataset("raw", places({4, 3, 2}));
    file.write_dataset("label", no_labels({4, 3, 2}));
    file.close();
  }
  VolumesConfig c = pairs();
  c.image_suffix = c.label_suffix = ".mat";
  const VolumeCases found = find_volume_cases(c);
  ASSERT_EQ(found.cases.size(), 2U);
  EXPECT_EQ(found.cases[0].image.variable, "raw");
  EXPECT_EQ(found.cases[0].label.variable, "label");
  EXPECT_EQ(found.cases[0].grid, (Dims3{4, 3, 2}));  // volumes.order counts, too
}

/// An HDF5 file whose scale of y has grown to so many values since the field was written: as where
/// a field was written for a part of an unlimited dimension.
void write_part(const std::string& path, const std::string& variable, const Tensor& values,
                int64_t y_values) {
  const hdf5::Lock lock;
  hdf5::File file = hdf5::File::create(path);
  const hsize_t n = static_cast<hsize_t>(values.size(1)), most = H5S_UNLIMITED, chunk = 8;
  const hid_t space = H5Screate_simple(1, &n, &most), list = H5Pcreate(H5P_DATASET_CREATE);
  H5Pset_chunk(list, 1, &chunk);
  H5Dclose(H5Dcreate2(file.id(), "y", H5T_NATIVE_DOUBLE, space, H5P_DEFAULT, list, H5P_DEFAULT));
  H5Pclose(list);
  H5Sclose(space);
  hdf5::Dataset x = file.write_dataset("x", steps(values.size(0), 0, 5)),
                y = file.open_dataset("y"),
                z = file.write_dataset("z", steps(values.size(2), 0, 5)),
                field = file.write_dataset(variable, values);
  hdf5::make_scale(x, "x", 0);
  hdf5::make_scale(y, "y", 1);
  hdf5::make_scale(z, "z", 2);
  hdf5::attach_scales({{&field, {&x, &y, &z}}});
  const hsize_t grown = static_cast<hsize_t>(y_values);
  ASSERT_GE(H5Dset_extent(y.id(), &grown), 0);
  const Tensor centres = steps(y_values, 0, 5);
  ASSERT_GE(
      H5Dwrite(y.id(), H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, centres.data<double>()),
      0);
  file.close();
}
constexpr const char* kPartOfAnAxis =
    "coordinate 'y' has 5 values, wanted one for each of the 3 cells of its axis; was the field "
    "written for a part of an unlimited dimension?";

TEST_F(VolumeCoordinates, OtherValuesThanCellsAreRefused) {
  const std::string image = root + "/a_image.nc", label = root + "/a_label.nc";
  const auto write = [&](int64_t of_image, int64_t of_label) {
    write_part(image, "raw", places({4, 3, 2}), of_image);
    write_part(label, "label", no_labels({4, 3, 2}), of_label);
  };
  write(3, 3);
  EXPECT_EQ(find_volume_cases(config()).cases.size(), 1U);
  write(5, 3);
  EXPECT_THAT(message_of([&] { find_volume_cases(config()); }),
              AllOf(HasSubstr(image), HasSubstr(kPartOfAnAxis)));
  write(3, 5);
  EXPECT_THAT(message_of([&] { find_volume_cases(config()); }),
              AllOf(HasSubstr(label), HasSubstr(kPartOfAnAxis)));
}

/// A field (4, 3, 3) whose second and third dimension are the same one.
void write_square(const std::string& path, const std::string& variable, const Tensor& values) {
  NetcdfWriter out(path);
  out.dimension("x", 4);
  out.dimension("y", 3);
  out.variable(variable, {"x", "y", "y"}, values);
  out.close();
}
constexpr const char* kTwice = "dimension 'y' occurs more than once in 'x', 'y', 'y'";

TEST_F(VolumeCoordinates, ADimensionThatStandsTwiceIsToldUnlessTheOrderSaysWhichIsWhich) {
  write_square(root + "/a_image.nc", "raw", places({4, 3, 3}));
  write_square(root + "/a_label.nc", "label", no_labels({4, 3, 3}));
  EXPECT_THAT(message_of([&] { find_volume_cases(config()); }),
              AllOf(HasSubstr(root + "/a_image.nc"), HasSubstr(kTwice)));
  EXPECT_EQ(open_volume({root + "/a_image.nc", "raw", "xyz"})->info().grid, (Dims3{4, 3, 3}));
}

TEST_F(VolumeCoordinates, OfCasesThatAllHaveProblemsNoneIsLeft) {
  pair("a", 0, 2);
  pair("b", 0, 2);
  for (const char* name : {"a_label.nc", "b_label.nc"})
    field(name, "label", no_labels({4, 3, 2}), 4, -2);
  VolumesConfig skipping = config();
  skipping.on_bad_files = "skip";
  EXPECT_THAT(message_of([&] { find_volume_cases(skipping); }),
              HasSubstr("no case is left of 2 cases among the volumes in '" + root +
                        "': each has a problem (see above)"));
}

class WindCoordinates : public WindDatasetTest {
 protected:
  struct Kind {
    double first_z = 0, step_z = 5;
    std::string positive = {};
    std::string unit = "m s-1";
  };
  /// Writes both files of case 0VF1 anew.
  void write_case(const Kind& kind) const {
    const auto file = [&](const std::string& path, const std::string& variable,
                          const std::string& unit) {
      NetcdfWriter out(path);
      out.coordinate("x", steps(12, 0, 5));
      out.coordinate("y", steps(9, 0, 5));
      hdf5::Dataset& z = out.coordinate("z", steps(7, kind.first_z, kind.step_z));
      if (!kind.positive.empty()) z.set_attribute("positive", kind.positive);
      out.variable(variable, {"x", "y", "z"}, Tensor::full({12, 9, 7}, 1, DType::f32))
          .set_attribute("units", unit);
      out.close();
    };
    file(wind("0VF1"), "wind_speed", kind.unit);
    file(mask("0VF1"), "building_mask", "1");
  }
  std::string refusal() const {
    return message_of([&] { find_wind_files(config_); });
  }
};

TEST_F(WindCoordinates, HeightsThatFallAreRefused) {
  write_case({});
  EXPECT_THAT(find_wind_files(config_).problems, IsEmpty());
  write_case({.first_z = 30, .step_z = -5});
  EXPECT_THAT(refusal(), AllOf(HasSubstr(wind("0VF1")), HasSubstr(mask("0VF1")),
                               HasSubstr("coordinate 'z' goes from 30 to 0: wanted the lowest "
                                         "level first; turn the axis, with: ncpdq -a -z")));
  write_case({.first_z = 3, .step_z = 0});  // says nothing
  EXPECT_THAT(find_wind_files(config_).problems, IsEmpty());
  write_case({.first_z = 0, .step_z = 5, .positive = "down"});
  EXPECT_THAT(refusal(), HasSubstr("coordinate 'z' goes from 0 to 30, which is downwards"));
  write_case({.first_z = 30, .step_z = -5, .positive = "down"});
  EXPECT_THAT(find_wind_files(config_).problems, IsEmpty());
}

TEST_F(WindCoordinates, AnotherUnitOfSpeedIsRefused) {
  for (const std::string unit : {"km/h", "km h-1", "knots", "MPH"}) {
    write_case({.unit = unit});
    EXPECT_THAT(refusal(),
                AllOf(HasSubstr(wind("0VF1")),
                      HasSubstr("variable 'wind_speed' is in '" + unit + "', wanted m/s")));
  }
  for (const std::string unit : {"m s-1", "m/s", "m s^-1", "meter second-1", "1"}) {
    write_case({.unit = unit});
    EXPECT_THAT(find_wind_files(config_).problems, IsEmpty()) << unit;
  }
}

// A file that names its axes is believed before data.files.order, as that of a volume is.
TEST_F(WindCoordinates, LabelsOfAxesAreBelieved) {
  const auto write = [&](const std::string& path, const std::string& variable,
                         const std::vector<std::string>& labels, const Shape& shape) {
    const hdf5::Lock lock;
    hdf5::File file = hdf5::File::create(path);
    file.write_dataset(variable, Tensor::full(shape, 1, DType::f32))
        .set_attribute("DIMENSION_LABELS", labels);
    file.close();
  };
  write(wind("0VF1"), "wind_speed", {"x", "y", "z"}, {4, 3, 2});
  write(mask("0VF1"), "building_mask", {"z", "y", "x"}, {2, 3, 4});
  EXPECT_EQ(find_wind_files(config_).cases.at(0).grid, (Dims3{4, 3, 2}));
  write(mask("0VF1"), "building_mask", {"depth", "row", "column"}, {2, 3, 4});
  EXPECT_THAT(refusal(),
              AllOf(HasSubstr(mask("0VF1")),
                    HasSubstr("no dimension 'x'; the variable has 'depth', 'row', 'column'")));
}

// Its dimensions and coordinates lie there, too: to read it by data.files.order swapped its axes.
TEST_F(WindCoordinates, AVariableOfNetcdfInAGroupIsRefused) {
  {
    const hdf5::Lock lock;
    hdf5::File file = hdf5::File::create(wind("0VF1"));
    hdf5::Group group = file.create_group("g");
    hdf5::Dataset x = group.write_dataset("x", steps(4, 0, 5)),
                  y = group.write_dataset("y", steps(3, 0, 5)),
                  z = group.write_dataset("z", steps(2, 0, 5)),
                  field = group.write_dataset("speed", Tensor::full({4, 3, 2}, 1, DType::f32));
    hdf5::make_scale(x, "x", 0);
    hdf5::make_scale(y, "y", 1);
    hdf5::make_scale(z, "z", 2);
    hdf5::attach_scales({{&field, {&x, &y, &z}}});
    EXPECT_THAT(hdf5::axis_names(file, "g/speed", field), ::testing::ElementsAre("x", "y", "z"));
    file.close();
  }
  config_.files.wind_variable = "g/speed";
  EXPECT_THAT(refusal(), AllOf(HasSubstr("0VF1_ws_filled.nc', variable 'g/speed' lies in a group"),
                               HasSubstr("ncks -G :")));
}

TEST_F(WindCoordinates, ADimensionThatStandsTwiceIsTold) {
  write_square(wind("0VF1"), "wind_speed", Tensor::full({4, 3, 3}, 1, DType::f32));
  EXPECT_THAT(refusal(), AllOf(HasSubstr(wind("0VF1")), HasSubstr(kTwice)));
}

TEST_F(WindCoordinates, OfCasesThatAllHaveProblemsNoneIsLeft) {
  config_.files.range = {-2, -1};
  config_.files.preflight = "full";
  config_.files.on_bad_files = "skip";
  EXPECT_THAT(refusal(), HasSubstr("no case is left of 6 cases in '" + folder_.path() +
                                   "': each has a problem (see above)"));
}

TEST_F(WindCoordinates, OtherValuesThanCellsAreRefused) {
  const Tensor ones = Tensor::full({4, 3, 2}, 1, DType::f32);
  for (const int64_t y_values : {3, 5, 2}) {
    write_part(wind("0VF1"), "wind_speed", ones, y_values);
    write_part(mask("0VF1"), "building_mask", ones, 3);
    if (y_values == 3)
      EXPECT_THAT(find_wind_files(config_).problems, IsEmpty());
    else
      EXPECT_THAT(refusal(), AllOf(HasSubstr(wind("0VF1")),
                                   HasSubstr("coordinate 'y' has " + std::to_string(y_values))));
  }
  write_part(wind("0VF1"), "wind_speed", ones, 3);
  write_part(mask("0VF1"), "building_mask", ones, 5);
  EXPECT_THAT(refusal(), AllOf(HasSubstr(mask("0VF1")), HasSubstr(kPartOfAnAxis)));
}

}  // namespace
}  // namespace bora::data::test
