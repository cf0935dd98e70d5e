// SPDX-License-Identifier: Apache-2.0
// NumPy's .npy files as numpy reads them.
#include "data/npy.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/data/pipeline_support.hpp"
#include "tests/data/volume_reference.hpp"

namespace bora::data::test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

/// The order in the name "array_order_zyxc.npy", else none.
std::string order_of(const std::string& file) {
  const std::string begin = "array_order_";
  return file.starts_with(begin) ? file.substr(begin.size(), file.find('.') - begin.size()) : "";
}

TEST(Npy, EqualsNumpyCellByCell) {
  int n = 0;
  for (const std::string& file : volume_files("values", "array_")) {
    ++n;
    const auto volume = open_volume({kVolumes + file, {}, order_of(file)});
    const VolumeInfo& info = volume->info();
    const std::vector<double> shape = volume_numbers(file, "shape");
    EXPECT_EQ(info.grid, (Dims3{static_cast<int64_t>(shape[0]), static_cast<int64_t>(shape[1]),
                                static_cast<int64_t>(shape[2])}))
        << file;
    EXPECT_EQ(info.channels, static_cast<int64_t>(shape[3])) << file;
    EXPECT_EQ(info.format, "NumPy");
    EXPECT_FALSE(info.affine.has_value());
    expect_same(numbers_of(read_all(*volume)), volume_numbers(file, "values"), file);
  }
  EXPECT_GT(n, 30);
}

TEST(Npy, BoxesArePartsOfTheWhole) {
  for (const std::string file :
       {"array_int16_be.npy", "array_fortran.npy", "array_four.npy", "array_four_fortran.npy",
        "array_order_xyz.npy", "array_order_zyxc.npy", "array_order_xcyz.npy"})
    expect_boxes_of_the_whole(*open_volume({kVolumes + file, {}, order_of(file)}), file);
}

// Labels without channels beside images with them: one order for both, as of HDF5 files.
TEST(Npy, AnOrderWithChannelsSaysHowTheOthersLie) {
  const std::string file = kVolumes + "array_order_xyz.npy";
  const std::vector<double> wanted = numbers_of(read_all(*open_volume({file, {}, "xyz"})));
  for (const char* order : {"cxyz", "xyzc", "xcyz"})
    expect_same(numbers_of(read_all(*open_volume({file, {}, order}))), wanted, order);
  EXPECT_NE(numbers_of(read_all(*open_volume({file, {}, "zyxc"}))), wanted);
}

TEST(Npy, TypesAreTheSmallestThatHoldThem) {
  const auto type = [](const std::string& name) {
    return open_volume({kVolumes + "array_" + name + ".npy", {}, {}})->info().type;
  };
  EXPECT_EQ(type("bool"), DType::u8);
  EXPECT_EQ(type("int8_le"), DType::i32);
  EXPECT_EQ(type("float16_be"), DType::f32);
  EXPECT_EQ(type("float64_le"), DType::f64);
  EXPECT_EQ(open_volume({kVolumes + "array_float16_be.npy", {}, {}})->info().stored_type,
            "f16, big-endian");
}

class BadNpy : public ::testing::Test {
 protected:
  /// A file of format 1.0 with that header.
  std::string with_header(const std::string& header, int64_t bytes = 48) {
    std::string text("\x93NUMPY\x01\x00", 8);
    text += static_cast<char>(header.size() & 255);
    text += static_cast<char>(header.size() >> 8);
    return told(text + header + std::string(static_cast<size_t>(bytes), '\0'));
  }
  std::string with_type(const std::string& descr) {
    return with_header("{'descr': " + descr + ", 'fortran_order': False, 'shape': (2, 3, 4), }");
  }
  std::string with_shape(const std::string& shape, const std::string& order = {}) {
    return with_header("{'descr': '<i2', 'fortran_order': False, 'shape': " + shape + ", }", 48,
                       order);
  }
  std::string with_header(const std::string& header, int64_t bytes, const std::string& order) {
    order_ = order;
    const std::string out = with_header(header, bytes);
    order_.clear();
    return out;
  }
  std::string told(const std::string& content) {
    write_file(folder_.file("bad.npy"), content);
    const std::string out = message_of([&] {
      open_npy_volume({folder_.file("bad.npy"), {}, order_});
    });
    EXPECT_THAT(out, HasSubstr("reading '" + folder_.file("bad.npy") + "': "));
    return out;
  }
  TempFolder folder_;
  std::string order_;
};

TEST_F(BadNpy, TypesThatAreNotReadAreNamed) {
  EXPECT_THAT(with_type("[('a', '<f4'), ('b', '<i2')]"), HasSubstr("structured type"));
  EXPECT_THAT(with_type("'|O'"), HasSubstr("type '|O' (Python objects), wanted bool"));
  EXPECT_THAT(with_type("'<U5'"), HasSubstr("'<U5' (text)"));
  EXPECT_THAT(with_type("'|S5'"), HasSubstr("(text)"));
  EXPECT_THAT(with_type("'<c8'"), HasSubstr("(complex numbers)"));
  EXPECT_THAT(with_type("'<f16'"), HasSubstr("(long double)"));
  EXPECT_THAT(with_type("'<M8[ns]'"), HasSubstr("(dates)"));
  EXPECT_THAT(with_type("'|V3'"), HasSubstr("(raw bytes)"));
  EXPECT_THAT(with_type("'<q3'"), HasSubstr("(no type that is known here)"));
  EXPECT_THAT(with_type("''"), HasSubstr("type ''"));
}

TEST_F(BadNpy, HeadersThatLieAreTold) {
  EXPECT_THAT(with_shape("(2, 3, 5)"), AllOf(HasSubstr("says 2 x 3 x 5 numbers of i16 from byte "),
                                             HasSubstr(", but the file has ")));
  EXPECT_THAT(with_shape("(4294967296, 4294967296, 4294967296)"), HasSubstr("63 bits"));
  EXPECT_THAT(with_shape("(99999999999999999999, 1, 1)"),
              HasSubstr("where a length that 63 bits can hold was wanted"));
  EXPECT_THAT(with_shape("(-2, 3, 4)"), HasSubstr("length -2, wanted at least 0"));
  EXPECT_THAT(with_shape("(2, x, 4)"), HasSubstr("has 'x, 4), }' where a whole number"));
  EXPECT_THAT(with_shape("()"), HasSubstr("an array of no axes, wanted three axes"));
  EXPECT_THAT(with_shape("(24,)"), HasSubstr("an array of 24, wanted three axes"));
  EXPECT_THAT(with_shape("(1, 1, 2, 3, 4)"), HasSubstr("an array of 1 x 1 x 2 x 3 x 4"));
  EXPECT_THAT(
      with_shape("(2, 3, 4)", "xy"),
      HasSubstr("the order 'xy' for an array of 2 x 3 x 4, wanted each of x, y and z once"));
  EXPECT_THAT(with_shape("(2, 3, 4, 1)", "xyz"), HasSubstr("x, y, z and c"));
  EXPECT_THAT(with_shape("(2, 3, 4)", "xyy"), HasSubstr("once"));
  EXPECT_THAT(with_header("{'descr': '<i2', 'shape': (2, 3, 4), }"),
              HasSubstr("has no 'fortran_order'"));
  EXPECT_THAT(with_header("{'descr': '<i2', 'fortran_order': 0, 'shape': (2, 3, 4), }"),
              HasSubstr("where True or False was wanted"));
  EXPECT_THAT(with_header("{'descr': '<i2', 'color': 0}"), HasSubstr("no key but 'descr'"));
  EXPECT_THAT(with_header("nothing"), HasSubstr("has 'nothing' where '{' was wanted"));
  EXPECT_THAT(with_header("{'descr': '<i2"), HasSubstr("the end of a quoted text"));
  EXPECT_THAT(with_header("{} more"), HasSubstr("where the end was wanted"));
  EXPECT_THAT(with_header(""), HasSubstr("has '' where '{' was wanted"));
}

TEST_F(BadNpy, FilesThatAreCutOffOrForeignAreTold) {
  EXPECT_THAT(told(""), HasSubstr("does not begin with \\x93NUMPY"));
  EXPECT_THAT(told("\x93NUMPY"), HasSubstr("does not begin with \\x93NUMPY and a version"));
  EXPECT_THAT(told(std::string("\x93NUMPY\x04\x00\x01\x00 ", 11)),
              HasSubstr(".npy format 4.0, wanted 1.0, 2.0 or 3.0"));
  EXPECT_THAT(told(std::string("\x93NUMPY\x01\x00\xff\x00{", 11)),
              HasSubstr("says it has 255 bytes, but the file has 11"));
  EXPECT_THAT(told(std::string("\x93NUMPY\x02\x00\xff\x00", 10)), HasSubstr("is cut off"));
  EXPECT_THAT(told(std::string("\x93NUMPY\x02\x00\xff\xff\xff\xff", 12)),
              HasSubstr("says it has 4294967295 bytes"));
  const std::string good = read_file(kVolumes + "array_v2.npy");
  EXPECT_THAT(told(good.substr(0, good.size() - 1)), HasSubstr("but the file has"));
  EXPECT_THAT(message_of([&] {
                open_npy_volume({kVolumes + "packed.nii.gz", {}, {}});
              }),
              HasSubstr("a gzip file, wanted a plain .npy file"));
  EXPECT_THAT(message_of([&] {
                open_npy_volume({kVolumes + "array_v2.npy", "raw", {}});
              }),
              HasSubstr("has no variables, but 'raw' was asked for"));
}

}  // namespace
}  // namespace bora::data::test
