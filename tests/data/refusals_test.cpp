// SPDX-License-Identifier: Apache-2.0
// Files that are whole, but hold what cannot be read: each is told by file, found and wanted (row
// 88).
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <hdf5.h>

#include <cstring>
#include <filesystem>

#include "data/convert.hpp"
#include "data/netcdf.hpp"
#include "data/volume_file.hpp"
#include "tests/data/cache_fixture.hpp"
#include "tests/data/volume_reference.hpp"
#include "tests/data/wind_fixture.hpp"

namespace bora::data::test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class Refusals : public ::testing::Test {
 protected:
  std::string opened(const std::string& name, const std::string& variable = {},
                     const std::string& order = {}) const {
    return message_of([&] {
      const auto volume = open_volume({folder.file(name), variable, order});
      read_all(*volume);
    });
  }
  /// A NetCDF-4 file with this variable of zeros and attribute.
  template <class Value>
  void netcdf(const std::vector<std::string>& dimensions, const std::vector<int64_t>& extents,
              const std::string& attribute, const Value& value) const {
    NetcdfWriter out(folder.file("a.nc"));
    Shape shape;
    for (size_t i = 0; i < dimensions.size(); ++i) {
      out.dimension(dimensions[i], extents[i]);
      shape = shape.append(extents[i]);
    }
    hdf5::Dataset& v = out.variable("speed", dimensions, Tensor::zeros(shape, DType::i32));
    v.set_attribute(attribute, value);
    out.close();
  }
  TempFolder folder;
};

TEST_F(Refusals, NetcdfVariablesThatAreNoVolume) {
  netcdf({"x", "y"}, {3, 2}, "units", "m");
  EXPECT_THAT(opened("a.nc"), AllOf(HasSubstr(folder.file("a.nc")),
                                    HasSubstr("has no variable of numbers with 3 dimensions (or 4 "
                                              "with channels); it has 'speed'")));
  netcdf({"t", "c", "x", "y", "z"}, {2, 3, 4, 4, 4}, "units", "m");
  EXPECT_THAT(opened("a.nc", "speed"),
              AllOf(HasSubstr("speed"), HasSubstr("axes 't' and 'c' beside x, y and z have more "
                                                  "than one cell; wanted one channel axis")));
  netcdf({"x", "y", "z"}, {2, 2, 2}, "valid_min", std::vector<int64_t>{1, 2});
  EXPECT_THAT(opened("a.nc", "speed"), HasSubstr("valid_min holds 2 values, wanted 1"));
}

TEST_F(Refusals, Hdf5ArraysThatAreNoVolume) {
  const auto write = [&](const char* attribute, const std::vector<double>& values) {
    hdf5::File file = hdf5::File::create(folder.file("a.h5"));
    hdf5::Dataset d = file.create_dataset("raw", Shape{2, 2, 2}, "f32", {});
    d.write(Tensor::zeros(Shape{2, 2, 2}, DType::f32));
    d.set_attribute(attribute, values);
    file.close();
  };
  {
    hdf5::File file = hdf5::File::create(folder.file("empty.h5"));
    file.create_dataset("raw", Shape{2, 0, 2}, "f32", {});
    file.close();
  }
  EXPECT_THAT(opened("empty.h5", "raw"),
              AllOf(HasSubstr(folder.file("empty.h5")), HasSubstr("no cells")));
  for (const Shape& shape : {Shape{4, 4}, Shape{2, 2, 2, 2, 2}}) {
    hdf5::File file = hdf5::File::create(folder.file("axes.h5"));
    file.create_dataset("raw", shape, "f32", {}).write(Tensor::zeros(shape, DType::f32));
    file.close();
    EXPECT_THAT(opened("axes.h5", "raw"),
                AllOf(HasSubstr(folder.file("axes.h5")),
                      HasSubstr(std::to_string(shape.rank()) + " axes"), HasSubstr("wanted")));
  }
  write("affine", {1, 2, 3});
  EXPECT_THAT(opened("a.h5", "raw"), AllOf(HasSubstr(folder.file("a.h5")),
                                           HasSubstr("attribute 'affine': 3 numbers, wanted 12")));
  write("affine", std::vector<double>(12, std::nan("")));
  EXPECT_THAT(opened("a.h5", "raw"), HasSubstr("attribute 'affine': number 1 is nan, wanted"));
}

// A codec that needs a plug-in, as many programs write: its number and what to do.
TEST_F(Refusals, AFilterThatIsNotThereIsTold) {
  {
    const hdf5::Lock lock;
    const hid_t file =
        H5Fcreate(folder.file("zstd.h5").c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
    const hsize_t extents[3] = {4, 4, 4};
    const hid_t space = H5Screate_simple(3, extents, nullptr), list = H5Pcreate(H5P_DATASET_CREATE);
    ASSERT_GE(H5Pset_chunk(list, 3, extents), 0);
    constexpr H5Z_filter_t kZstd = 32015;
    ASSERT_GE(H5Pset_filter(list, kZstd, H5Z_FLAG_OPTIONAL, 0, nullptr), 0);
    const hid_t data =
        H5Dcreate2(file, "raw", H5T_NATIVE_FLOAT, space, H5P_DEFAULT, list, H5P_DEFAULT);
    ASSERT_GE(data, 0);
    const float values[64] = {};
    ASSERT_GE(H5Dwrite(data, H5T_NATIVE_FLOAT, H5S_ALL, H5S_ALL, H5P_DEFAULT, values), 0);
    H5Dclose(data), H5Pclose(list), H5Sclose(space), H5Fclose(file);
  }
  EXPECT_THAT(opened("zstd.h5", "raw"),
              AllOf(HasSubstr(folder.file("zstd.h5")), HasSubstr("stored with filter 32015"),
                    HasSubstr("HDF5_PLUGIN_PATH"), HasSubstr("rewrite the file with deflate")));
}

// Beside the object's header, where the size has no bound; the file holds it, so it is no damage.
TEST_F(Refusals, AnAttributeOfManyMegabytes) {
  const std::string path = folder.file("a.h5");
  const auto write = [&](hsize_t n) {
    const hdf5::Lock lock;
    const hid_t access = H5Pcreate(H5P_FILE_ACCESS);
    H5Pset_libver_bounds(access, H5F_LIBVER_V110, H5F_LIBVER_LATEST);
    const hid_t file = H5Fcreate(path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, access);
    const hid_t space = H5Screate_simple(1, &n, nullptr);
    const hid_t attribute =
        H5Acreate2(file, "big", H5T_NATIVE_DOUBLE, space, H5P_DEFAULT, H5P_DEFAULT);
    ASSERT_GE(attribute, 0);
    const std::vector<double> values(n, 1);
    ASSERT_GE(H5Awrite(attribute, H5T_NATIVE_DOUBLE, values.data()), 0);
    H5Aclose(attribute);
    H5Sclose(space);
    H5Fclose(file);
    H5Pclose(access);
  };
  const auto read = [&] {
    const hdf5::Lock lock;
    return hdf5::File::open(path).attribute<std::vector<double>>("big").size();
  };
  constexpr hsize_t kMost = (hsize_t{64} << 20) / sizeof(double);
  write(kMost);
  EXPECT_EQ(read(), kMost);
  write(kMost + 1);
  EXPECT_THAT(
      message_of([&] { read(); }),
      AllOf(HasSubstr("attribute 'big' of '" + path),
            HasSubstr("it holds 8388609 elements of 8 bytes: more than 67108864 bytes are not "
                      "read")));
}

TEST_F(Refusals, NiftiHeadersThatContradictThemselves) {
  std::string bytes = read_file(kVolumes + "int16_le.nii");
  const int32_t second = 540;  // NIfTI-2's first number with NIfTI-1's magic
  std::memcpy(bytes.data(), &second, sizeof second);
  write_file(folder.file("a.nii"), bytes + std::string(200, '\0'));
  EXPECT_THAT(opened("a.nii"), AllOf(HasSubstr(folder.file("a.nii")), HasSubstr("with the magic '"),
                                     HasSubstr("', wanted 'n+2' or 'ni2'")));
  write_file(folder.file("b.hdr"), std::string(400, 'x'));
  write_file(folder.file("b.img"), std::string(400, 'x'));
  EXPECT_THAT(opened("b.img"), AllOf(HasSubstr(folder.file("b.hdr")),
                                     HasSubstr("no NIfTI header: the first number is 2021161080, "
                                               "wanted 348 or 540 in either byte order")));
}

TEST_F(Refusals, AnArrayOfManyAxes) {
  std::string shape;
  for (int i = 0; i < 65; ++i) shape += "1,";
  std::string header = "{'descr': '<f4', 'fortran_order': False, 'shape': (" + shape + ")}";
  std::string bytes = "\x93NUMPY";
  bytes += {'\x01', '\0', static_cast<char>(header.size()), '\0'};
  write_file(folder.file("a.npy"), bytes + header + "0000");
  EXPECT_THAT(opened("a.npy"),
              HasSubstr(folder.file("a.npy") + "': the .npy header has more than 64 axes"));
}

TEST_F(Refusals, TypesThatAConvertedNetcdfFileCouldNotHave) {
  const std::string out = folder.file("out.nc");
  netcdf({"x", "y", "z"}, {2, 2, 2}, "units", "m");
  {  // the same with numbers of 16 bits
    const hdf5::Lock lock;
    const hid_t file = H5Fopen(folder.file("a.nc").c_str(), H5F_ACC_RDWR, H5P_DEFAULT);
    const hid_t space = H5Screate(H5S_SCALAR);
    const hid_t data =
        H5Dcreate2(file, "n", H5T_STD_I16LE, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    ASSERT_GE(data, 0);
    H5Dclose(data), H5Sclose(space), H5Fclose(file);
  }
  const ConvertOptions options{.patch = {2, 2, 2}, .threads = 1, .codec = {}, .verify = true};
  EXPECT_THAT(message_of([&] { convert_netcdf(folder.file("a.nc"), "speed", out, options); }),
              HasSubstr("variable 'n' is of type i16; f32, f64, u8, i32 and i64 can be written"));
  EXPECT_FALSE(std::filesystem::exists(out));
}

/// Lists of wind cases.
class ListRefusals : public WindDatasetTest {
 protected:
  std::string listed(const std::string& text) {
    write_file(folder_.file("list.csv"), text);
    config_.files.list = "list.csv";
    return message_of([&] { find_wind_files(config_); });
  }
};

TEST_F(ListRefusals, RowsThatNameNoCaseOrGeometry) {
  EXPECT_THAT(listed("case,layout_id\n0VF1,1\n,2\n"),
              HasSubstr("list.csv', line 3: the case has no name"));
  EXPECT_THAT(listed("case,layout_id\n0VF1,\"a\tb\"\n"),
              HasSubstr("line 2: case '0VF1': column 'layout_id' holds a control character"));
  EXPECT_THAT(listed("case,layout_id\n0VF1,\n"),
              HasSubstr("column 'layout_id' is empty, wanted the name of the geometry "
                        "(data.files.columns.group = \"\" takes it from the name of the case)"));
  EXPECT_THAT(listed("case,angle\n0VF1,\n"), HasSubstr("column 'angle' is empty, wanted degrees"));
}

TEST_F(ListRefusals, AFolderThatMayNotBeListed) {
  const std::string closed = folder_.file("wind_speed_filled/closed");
  std::filesystem::create_directory(closed);
  std::filesystem::permissions(closed, std::filesystem::perms::none);
  const bool is_root = ::geteuid() == 0;  // who may list anything: look as somebody else
  if (is_root) {
    std::filesystem::permissions(folder_.path(), std::filesystem::perms::all);
    ASSERT_EQ(::seteuid(65534), 0);
  }
  const std::string text = message_of([&] { find_wind_files(config_); });
  if (is_root) {
    ASSERT_EQ(::seteuid(0), 0);
  }
  EXPECT_THAT(text, HasSubstr("cannot list '" + closed + "': Permission denied"));
}

TEST(CacheRefusals, AFieldWhoseNameIsTooLongForACacheIsReadFromItsFile) {
  CacheFixture f(1);
  f.fields[0].variable = std::string(5000, 'v');
  const auto cache = VolumeCache::make(f.config("disk"), f.fields, nullptr);
  ::testing::internal::CaptureStderr();
  EXPECT_TRUE(f.reads_right(*cache, 0, {3, 2, 1}, {2, 2, 2}));
  EXPECT_THAT(::testing::internal::GetCapturedStderr(),
              AllOf(HasSubstr("is not kept but read each time: cache: a path of "),
                    HasSubstr("letters is too long to be kept")));
}

}  // namespace
}  // namespace bora::data::test
