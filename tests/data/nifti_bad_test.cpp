// SPDX-License-Identifier: Apache-2.0
// NIfTI files that cannot be read, and what is said about them (features 77, 80).
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include <cstring>

#include "data/nifti.hpp"
#include "tests/data/pipeline_support.hpp"
#include "tests/data/volume_reference.hpp"

namespace bora::data::test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::string gzip(std::string content) {
  std::string out(content.size() + 1000, '\0');
  z_stream stream{};
  EXPECT_EQ(::deflateInit2(&stream, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
  stream.next_in = reinterpret_cast<Bytef*>(content.data());
  stream.avail_in = static_cast<uInt>(content.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  EXPECT_EQ(::deflate(&stream, Z_FINISH), Z_STREAM_END);
  out.resize(stream.total_out);
  ::deflateEnd(&stream);
  return out;
}

class BadNifti : public ::testing::Test {
 protected:
  /// A good file with a number changed; what reading it all says.
  template <class T>
  std::string with(int64_t offset, T value, const std::string& good = "int16_le.nii") {
    std::string content = read_file(kVolumes + good);
    std::memcpy(content.data() + offset, &value, sizeof value);
    return told(content);
  }
  std::string told(const std::string& content, const std::string& name = "bad.nii") {
    write_file(folder_.file(name), content);
    return told_of(name);
  }
  std::string told_of(const std::string& name) {
    const std::string out = message_of([&] {
      read_all(*open_volume({folder_.file(name), {}, {}}));
    });
    EXPECT_THAT(out, HasSubstr(folder_.path()));
    return out;
  }
  TempFolder folder_;
};

constexpr int64_t kDim = 40, kDatatype = 70, kBitpix = 72, kPixdim = 76, kVoxOffset = 108,
                  kSlope = 112, kQuaternion = 256, kSrow = 280, kMagic = 344;

TEST_F(BadNifti, DimensionsThatCannotBeAreTold) {
  EXPECT_THAT(with(kDim, int16_t{0}),
              AllOf(HasSubstr("reading '" + folder_.file("bad.nii") + "': "),
                    HasSubstr("dim[0] is 0, wanted 1 to 7")));
  EXPECT_THAT(with(kDim, int16_t{8}), HasSubstr("dim[0] is 8"));
  EXPECT_THAT(with(kDim, int16_t{-3}), HasSubstr("dim[0] is -3"));
  EXPECT_THAT(with(kDim + 4, int16_t{0}), HasSubstr("dim[2] is 0, wanted at least 1"));
  EXPECT_THAT(with(kDim + 2, int16_t{-1}), HasSubstr("dim[1] is -1"));
  EXPECT_THAT(with(kDim + 2, int16_t{32767}),
              HasSubstr("the header says 32767 x 3 x 2 x 1 cells of i16 from byte 352 on, but the "
                        "file has 400 bytes"));
  std::string five = read_file(kVolumes + "five_axes.nii");
  const int16_t two = 2, one = 1;
  std::memcpy(five.data() + kDim + 8, &one, 2);
  std::memcpy(five.data() + kDim + 10, &two, 2);
  EXPECT_THAT(told(five), HasSubstr("dim[5] is 2, wanted 1: a volume has three axes"));
  // NIfTI-2 counts in 64 bits.
  EXPECT_THAT(with(16, int64_t{1} << 40, "two_le.nii"), HasSubstr("dim[0] is 1099511627776"));
  std::string wide = read_file(kVolumes + "two_le.nii");
  const int64_t huge[] = {int64_t{1} << 40, int64_t{1} << 40, int64_t{1} << 40};
  std::memcpy(wide.data() + 24, huge, sizeof huge);
  EXPECT_THAT(told(wide), HasSubstr("more bytes than 63 bits can count"));
  // A gzip file of few bytes that says it is huge asks for no memory.
  std::string raw = read_file(kVolumes + "int16_le.nii");
  const int16_t dims[] = {3, 30000, 30000, 30000};
  std::memcpy(raw.data() + kDim, dims, sizeof dims);
  EXPECT_THAT(told(gzip(raw), "bad.nii.gz"), HasSubstr("more than a gzip file of "));
}

TEST_F(BadNifti, TypesThatAreNotReadAreNamed) {
  const struct {
    int16_t code;
    const char* name;
  } kCases[] = {{1, "bit"},           {32, "complex64"},    {128, "RGB24"},  {1536, "float128"},
                {1792, "complex128"}, {2048, "complex256"}, {2304, "RGBA32"}};
  for (const auto& c : kCases)
    EXPECT_THAT(
        with(kDatatype, c.code),
        HasSubstr(bora::detail::join("datatype ", c.name, " is not read, wanted an integer")));
  EXPECT_THAT(with(kDatatype, int16_t{3}), HasSubstr("datatype 3 is not one of NIfTI's"));
  EXPECT_THAT(with(kDatatype, int16_t{0}), HasSubstr("datatype 0 is not"));
  EXPECT_THAT(with(kBitpix, int16_t{8}), HasSubstr("bitpix is 8, but int16 has 16"));
  EXPECT_THAT(with(kDatatype, int16_t{16}), HasSubstr("bitpix is 16, but float32 has 32"));
}

TEST_F(BadNifti, NumbersThatContradictAreTold) {
  EXPECT_THAT(with(kVoxOffset, 0.0F), HasSubstr("vox_offset is 0, wanted at least 352"));
  EXPECT_THAT(with(kVoxOffset, -16.0F), HasSubstr("vox_offset is -16"));
  EXPECT_THAT(with(kVoxOffset, NAN), HasSubstr("vox_offset is nan"));
  EXPECT_THAT(with(kVoxOffset, 1e18F), HasSubstr("from byte 99999998430674"));
  EXPECT_THAT(with(168, int64_t{540}, "two_le.nii"),
              HasSubstr("vox_offset is 540, wanted at least 544"));
  std::string content = read_file(kVolumes + "int16_le.nii");
  const float scale[] = {2, INFINITY};
  std::memcpy(content.data() + kSlope, scale, sizeof scale);
  EXPECT_THAT(told(content), HasSubstr("scl_slope is 2, but scl_inter is inf"));
  EXPECT_THAT(with(kSrow, NAN), HasSubstr("the sform has a number that is not finite"));
  EXPECT_THAT(with(kQuaternion, 0.9F, "form_steep_q1.nii"),
              HasSubstr("the qform's quaternion (0.9"));
  EXPECT_THAT(with(kQuaternion, NAN, "form_oblique_q1.nii"), HasSubstr("the qform has a number"));
  EXPECT_THAT(with(kPixdim + 8, INFINITY, "form_none.nii"), HasSubstr("the pixdim has a number"));
  EXPECT_THAT(with(352, 0.9, "form_steep_q2.nii"), HasSubstr("is longer than 1"));
  EXPECT_THAT(with(int64_t{0}, int32_t{0}), HasSubstr("sizeof_hdr is 0, wanted 348"));
  EXPECT_THAT(with(8, uint8_t{10}, "two_le.nii"), HasSubstr("line ends were converted"));
}

TEST_F(BadNifti, AnalyzeIsToldWithTheWayOut) {
  EXPECT_THAT(with(kMagic, uint32_t{0}),
              AllOf(HasSubstr("this is Analyze 7.5"), HasSubstr("nibabel")));
  write_file(folder_.file("a.img"), "values");
  EXPECT_THAT(told(read_file(folder_.file("bad.nii")), "a.hdr"), HasSubstr("Analyze 7.5"));
  EXPECT_THAT(told_of("a.img"), HasSubstr("a.hdr': this is Analyze 7.5"));
}

TEST_F(BadNifti, FilesThatAreShorterThanTheySayAreTold) {
  const std::string good = read_file(kVolumes + "int16_be.nii");
  for (const size_t n : {size_t{399}, size_t{352}})
    EXPECT_THAT(told(good.substr(0, n)), HasSubstr(bora::detail::join("but the file has ", n)));
  EXPECT_THAT(told(good.substr(0, 347)), HasSubstr("the NIfTI header is cut off after 347 of 348"));
  EXPECT_THAT(told(good.substr(0, 4)), HasSubstr("cut off after 4 of 348"));
  EXPECT_THAT(told(read_file(kVolumes + "two_be.nii").substr(0, 539)),
              HasSubstr("cut off after 539 of 540"));
  EXPECT_THAT(told(""), HasSubstr("the file is empty"));
}

TEST_F(BadNifti, PairsThatAreNoneAreTold) {
  const std::string header = read_file(kVolumes + "pair.hdr");
  EXPECT_THAT(told(header, "lone.hdr"),
              HasSubstr("its img file '" + folder_.file("lone.img") + "' is missing"));
  EXPECT_THAT(told("values", "only.img"),
              HasSubstr("its hdr file '" + folder_.file("only.hdr") + "' is missing"));
  EXPECT_THAT(told(header, "half.nii"), HasSubstr("the name ends neither in .hdr nor in .img"));
  write_file(folder_.file("short.img"), "values");
  EXPECT_THAT(told(header, "short.hdr"), HasSubstr("short.img': the header says 5 x 4 x 3 x 1"));
  write_file(folder_.file("single.hdr"), read_file(kVolumes + "int16_le.nii"));
  EXPECT_THAT(told("values", "single.img"), HasSubstr("says that the values are in that file"));
}

TEST_F(BadNifti, DamagedStreamsAreTold) {
  const std::string good = read_file(kVolumes + "packed.nii.gz");
  const auto say = [&](const std::string& content) { return told(content, "bad.nii.gz"); };
  for (const size_t n : {good.size() - 1, good.size() - 8, good.size() - 9, good.size() / 2})
    EXPECT_THAT(say(good.substr(0, n)), HasSubstr("the gzip stream is cut off after")) << n;
  EXPECT_THAT(say(good.substr(0, 5)), HasSubstr("cut off"));
  std::string bad = good;
  bad[bad.size() - 6] ^= 1;
  EXPECT_THAT(say(bad), HasSubstr("the gzip stream is damaged (incorrect data check)"));
  bad = good;
  bad[bad.size() - 2] ^= 1;
  EXPECT_THAT(say(bad), HasSubstr("damaged (incorrect length check)"));
  bad = good;
  bad[2] = 9;
  EXPECT_THAT(say(bad), HasSubstr("damaged (unknown compression method)"));
  EXPECT_THAT(say(good + "garbage"), HasSubstr("bytes that are not gzip's follow the end"));
  EXPECT_THAT(say(good + std::string(3, '\0') + "garbage"), HasSubstr("bytes that are not gzip's"));
  // A byte that is turned over is noticed, or changes nothing (time and such in gzip's header,
  // another way to say the same zeros).
  const std::vector<double> wanted = volume_numbers("packed.nii.gz", "values");
  int n_told = 0;
  for (size_t i = 0; i < good.size(); ++i) {
    bad = good;
    bad[i] ^= 4;
    write_file(folder_.file("bad.nii.gz"), bad);
    try {
      expect_same(numbers_of(read_all(*open_volume({folder_.file("bad.nii.gz"), {}, {}}))), wanted,
                  bora::detail::join("byte ", i));
    } catch (const Error&) {
      ++n_told;
    }
  }
  EXPECT_GT(n_told, static_cast<int>(good.size()) - 20);
  // Even where only the first cells are asked for: in the first read of an object.
  bad = good;
  bad[bad.size() - 6] ^= 1;
  write_file(folder_.file("bad.nii.gz"), bad);
  EXPECT_THAT(
      message_of([&] {
        open_volume({folder_.file("bad.nii.gz"), {}, {}})->read({0, 0, 0}, {1, 1, 1}, DType::f32);
      }),
      HasSubstr("incorrect data check"));
  // A stream that is whole, but shorter than the header says.
  EXPECT_THAT(say(gzip(read_file(kVolumes + "int16_le.nii").substr(0, 399))),
              HasSubstr("it ends after 399 unpacked bytes, 400 were wanted"));
}

TEST_F(BadNifti, BoxesOutsideTheGridAreTold) {
  const auto volume = open_volume({kVolumes + "int16_le.nii", {}, {}});
  for (const auto& [begin, count] :
       {std::pair{Dims3{0, 0, 0}, Dims3{5, 1, 1}}, std::pair{Dims3{-1, 0, 0}, Dims3{1, 1, 1}},
        std::pair{Dims3{0, 3, 0}, Dims3{1, 1, 1}},
        std::pair{Dims3{0, 0, 1}, Dims3{1, 1, INT64_MAX}},
        std::pair{Dims3{0, 0, 0}, Dims3{1, -1, 1}}})
    EXPECT_THAT(message_of([&, b = begin, c = count] { volume->read(b, c, DType::f32); }),
                HasSubstr("is not inside the grid of 4x3x2"));
  EXPECT_THAT(message_of([&] {
                open_nifti_volume({kVolumes + "int16_le.nii", "raw", {}});
              }),
              HasSubstr("NIfTI has no variables, but 'raw' was asked for"));
  EXPECT_THAT(message_of([&] {
                open_nifti_volume({kVolumes + "int16_le.nii", {}, "zyx"});
              }),
              HasSubstr("the order of the axes is that of NIfTI, but 'zyx' was asked for"));
}

}  // namespace
}  // namespace bora::data::test
