// SPDX-License-Identifier: Apache-2.0
// Reading by the HDF5 library what it would copy from behind its buffers (rows 87, 90): refused;
// and f64 as f32, which no longer goes by it, with its bits.
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

}  // namespace
}  // namespace bora::data::test
