// SPDX-License-Identifier: Apache-2.0
// Reading by the HDF5 library what it would copy from behind its buffers (rows 87, 90): refused;
// and f64 as f32, which no longer goes by it, with its bits.  Attributes that do not hold what they
// say, likewise.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <hdf5.h>
#include <sys/resource.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "core/error.hpp"
#include "data/hdf5_volume.hpp"
#include "tests/data/hdf5_by_library.hpp"

namespace bora::data::test {
namespace {

// Found by libFuzzer (tests/fuzz); without the guard both reads give bytes of other memory.
TEST(Hdf5Guard, ChunksThatAreTooShortForTheirElementsAreRefused) {
  for (const char* name : {"chunk_too_short.h5", "filtered_chunk_too_short.h5"}) {
    const std::string path = std::string("tests/fuzz/corpus/hdf5_volume/") + name;
    int n_refused = 0;
    for (const DType type : {DType::f32, DType::u8}) try {
        const auto volume = open_hdf5_volume({path, "raw", ""});  // or here, for extents
        volume->read({0, 0, 0}, volume->info().grid, type);
      } catch (const Error& e) {
        ++n_refused;
        EXPECT_THAT(e.what(), ::testing::HasSubstr(path));
      }
    EXPECT_GE(n_refused, 1) << path;
  }
}

// How many bytes two of them give is not known before the library reads.
TEST(Hdf5Guard, AFilterThatStandsTwiceIsRefused) {
  TempFolder folder;
  const std::string path = folder.file("twice.h5");
  write_by_library(path, H5T_IEEE_F32LE, {4, 4, 4},
                   creation_list({{2, 4, 4}, {H5Z_FILTER_DEFLATE, H5Z_FILTER_DEFLATE}}),
                   numbers(64, 1));
  const auto volume = open_hdf5_volume({path, "raw", ""});
  EXPECT_THAT(
      message_of([&] {
        volume->read({0, 0, 0}, {4, 4, 4}, DType::f32);
      }),
      ::testing::AllOf(::testing::HasSubstr(path), ::testing::HasSubstr("filter 1 stands twice"),
                       ::testing::HasSubstr("h5repack")));
}

TEST(Hdf5Guard, ReadingF64AsF32GivesTheLibrarysBits) {
  constexpr double kMost = std::numeric_limits<float>::max();
  const double ulp = std::ldexp(1.0, 104);  // of the largest float
  std::vector<double> values = numbers(24, 1 << 20, true);
  const std::vector<double> edges = {0.0,
                                     -0.0,
                                     0.1,
                                     1 + std::ldexp(1.0, -24),
                                     1 + 3 * std::ldexp(1.0, -24),
                                     kMost,
                                     kMost + ulp / 4,
                                     kMost + ulp / 2,
                                     -kMost - ulp / 4,
                                     1e300,
                                     -1e300,
                                     1e-40,
                                     1e-46,
                                     std::numeric_limits<double>::quiet_NaN(),
                                     std::numeric_limits<double>::infinity(),
                                     -std::numeric_limits<double>::infinity()};
  std::copy(edges.begin(), edges.end(), values.begin());
  TempFolder folder;
  hdf5::Lock lock;
  for (const hid_t type : {H5T_IEEE_F64LE, H5T_IEEE_F64BE})
    for (const Form& form : {Form{}, Form{{2, 2, 2}, {}}, Form{{2, 3, 4}, {H5Z_FILTER_DEFLATE}}}) {
      const std::string path = folder.file("t.h5");
      write_by_library(path, type, {2, 3, 4}, creation_list(form), values);
      const hdf5::Dataset d = hdf5::File::open(path).open_dataset("raw");
      const Tensor ours = d.read(DType::f32);
      const Tensor theirs = by_library(d, {0, 0, 0}, {2, 3, 4}, DType::f32);
      ASSERT_EQ(ours.shape(), theirs.shape());
      EXPECT_EQ(std::memcmp(ours.raw(), theirs.raw(), static_cast<size_t>(ours.bytes())), 0);
    }
}

// Found by a fuzzer: an axis of 1024 elements where the file says that 4 are the most.
TEST(Hdf5Guard, ExtentsBeyondTheirLimitAreRefused) {
  const std::string path = "tests/fuzz/corpus/hdf5_volume/extent_beyond_its_limit.h5";
  EXPECT_THAT(message_of([&] {
                open_hdf5_volume({path, "raw", ""});
              }),
              ::testing::AllOf(::testing::HasSubstr(path), ::testing::HasSubstr("1024"),
                               ::testing::HasSubstr("4 at most: the file is damaged")));
}

// Found by a fuzzer: 56 bytes whose superblock names an object header of 1 GiB.  Its zeros behind
// the end of the file must not become memory.
TEST(Hdf5Guard, AHeaderLargerThanTheFileTakesNoMemory) {
  const auto peak_kib = [] {
    rusage use{};
    ::getrusage(RUSAGE_SELF, &use);
    return use.ru_maxrss;
  };
  const std::string path = "tests/fuzz/corpus/hdf5_volume/header_of_a_gib.h5";
  const auto before = peak_kib();
  EXPECT_THAT(message_of([&] { hdf5::File::open(path); }), ::testing::HasSubstr(path));
  EXPECT_LT(peak_kib() - before, 600 * 1024);  // it was 2 GiB; a sanitizer's shadow takes some
}

/// A file with attributes of data set "raw", in the library's oldest format: patched and read.
class GuardedAttributes : public ::testing::Test {
 protected:
  GuardedAttributes() { note("a text of some letters"); }
  void note(const std::string& words) const {
    const hdf5::Lock lock;
    write_by_library(path, H5T_NATIVE_FLOAT, {2, 2, 2}, creation_list({}), numbers(8, 100));
    const hdf5::Id file(H5Fopen(path.c_str(), H5F_ACC_RDWR, H5P_DEFAULT));
    const hdf5::Id set(H5Dopen2(file.get(), "raw", H5P_DEFAULT));
    const hsize_t n = 3;
    const hdf5::Id row(H5Screate_simple(1, &n, nullptr)), one(H5Screate(H5S_SCALAR));
    const hdf5::Id text(H5Tcopy(H5T_C_S1));
    H5Tset_size(text.get(), H5T_VARIABLE);
    const auto add = [&](const char* name, hid_t type, hid_t space, const void* values) {
      const hdf5::Id a(H5Acreate2(set.get(), name, type, space, H5P_DEFAULT, H5P_DEFAULT));
      EXPECT_GE(H5Awrite(a.get(), type, values), 0);
    };
    const double sizes[3] = {1, 2, 3};
    const char* letters = words.c_str();
    add("spacing", H5T_NATIVE_DOUBLE, row.get(), sizes);
    add("note", text.get(), one.get(), &letters);
  }
  void patch(const std::string& from, const std::string& to) const {
    std::string content = read_file(path);
    const size_t at = content.find(from);
    ASSERT_NE(at, content.npos);
    ASSERT_EQ(content.find(from, at + 1), content.npos);
    write_file(path, content.replace(at, to.size(), to));
  }
  /// Both attributes.
  std::string read() const {
    const hdf5::Dataset d = hdf5::File::open(path).open_dataset("raw");
    return d.attribute<std::string>("note") +
           std::to_string(d.attribute<std::vector<double>>("spacing").size());
  }
  void expect_refused(const std::string& from, const std::string& to) const {
    EXPECT_EQ(read(), "a text of some letters3");
    patch(from, to);
    expect_refused();
  }
  /// By the driver, before the library believes it.
  void expect_refused() const {
    EXPECT_THAT(message_of([&] { read(); }),
                ::testing::AllOf(::testing::HasSubstr(path),
                                 ::testing::HasSubstr("driver read request failed")));
    EXPECT_EQ(hdf5::open_objects(), 0);
  }
  static std::string u64(uint64_t n) { return {reinterpret_cast<const char*>(&n), sizeof n}; }

  TempFolder folder;
  const std::string path = folder.file("t.h5");
};

// Without the guard the library copies them from behind its buffer.
TEST_F(GuardedAttributes, ATextThatIsLongerThanItsHeapIsRefused) {
  const std::string text = "a text of some letters";
  expect_refused(u64(text.size()) + text, u64(5000) + text);
}

// The library reads a heap of more than 4096 bytes in two parts.
TEST_F(GuardedAttributes, ATextThatIsLongerThanItsLargeHeapIsRefused) {
  note(std::string(9000, 'n'));
  EXPECT_EQ(read(), std::string(9000, 'n') + "3");
  const std::string head(u64(9000) + "nnnn");
  patch(head, u64(9100) + "nnnn");
  expect_refused();
}

TEST_F(GuardedAttributes, AHeapThatIsLongerThanTheFileIsRefused) {
  const std::string head("GCOL\1\0\0\0", 8);
  expect_refused(head + u64(4096), head + u64(1 << 20));
}

TEST_F(GuardedAttributes, MoreNumbersThanTheHeaderHoldsAreRefused) {
  const std::string head("\1\1\1\0\0\0\0\0", 8);  // a space of one axis, with its limit
  expect_refused(head + u64(3) + u64(3), head + u64(300) + u64(300));
}

TEST_F(GuardedAttributes, ANameWithoutAnEndIsRefused) {
  expect_refused(std::string("spacing\0", 8), "spacing!");
}

}  // namespace
}  // namespace bora::data::test
