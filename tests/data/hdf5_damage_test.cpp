// SPDX-License-Identifier: Apache-2.0
// Reading past the library: damage told with file, data set and chunk; threads; what is counted.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <hdf5.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <thread>

#include "data/chunk_shape.hpp"
#include "data/hdf5_chunks.hpp"
#include "tests/data/hdf5_by_library.hpp"

namespace bora::data::test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(Hdf5Direct, AFileThatIsBeingWrittenIsReadByTheLibrary) {
  TempFolder folder;
  hdf5::File file = hdf5::File::create(folder.file("t.h5"));
  const hdf5::Dataset d =
      file.write_dataset("raw", Tensor::full({8, 8, 8}, 3.0, DType::f32), {{4, 4, 4}, 1, true});
  EXPECT_FALSE(is_direct(d, {0, 0, 0}, {8, 8, 8}, DType::f32));
  EXPECT_EQ(d.read().data<float>()[511], 3.0f);
}

TEST(Hdf5Direct, AnEmptyBlockAndEmptyExtentsGiveNothing) {
  TempFolder folder;
  write_by_library(folder.file("t.h5"), H5T_NATIVE_FLOAT, {4, 0, 3}, creation_list({}), {});
  const hdf5::Dataset d = hdf5::File::open(folder.file("t.h5")).open_dataset("raw");
  EXPECT_EQ(d.read().numel(), 0);
}

TEST(Hdf5Direct, ValuesOutOfRangeAreRefusedAsByTheLibrary) {
  TempFolder folder;
  hdf5::Lock lock;
  std::vector<double> v(512, 255);
  for (const Form& form : {Form{}, Form{{4, 4, 4}, {kShuffle, kDeflate}}}) {
    write_by_library(folder.file("t.h5"), H5T_STD_I16LE, {8, 8, 8}, creation_list(form), v);
    const auto read = [&] {
      return hdf5::File::open(folder.file("t.h5")).open_dataset("raw").read(DType::u8);
    };
    EXPECT_EQ(read().data<uint8_t>()[511], 255);
    v[300] = 256;
    write_by_library(folder.file("t.h5"), H5T_STD_I16LE, {8, 8, 8}, creation_list(form), v);
    EXPECT_THAT(message_of(read),
                AllOf(HasSubstr("t.h5:/raw"), HasSubstr("type i16"), HasSubstr("range of u8")));
    v[300] = 255;
  }
}

void flip_byte(const std::string& path, int64_t at) {
  std::fstream f(path, std::ios::in | std::ios::out | std::ios::binary);
  f.seekg(at);
  const int c = f.get();
  f.seekp(at);
  f.put(static_cast<char>(c ^ 0x55));
}

TEST(Hdf5Direct, DamageNamesFileDataSetAndChunk) {
  TempFolder folder;
  const std::string path = folder.file("t.h5");
  const std::vector<double> v = numbers(1728, 1 << 20);
  const auto damaged = [&](const std::vector<int>& filters, int64_t byte_of_chunk) {
    hdf5::Lock lock;
    write_by_library(path, H5T_NATIVE_FLOAT, {12, 12, 12}, creation_list({{4, 12, 12}, filters}),
                     v);
    flip_byte(path, place_of_chunk(path, {8, 0, 0}).first + byte_of_chunk);
    const hdf5::Dataset d = hdf5::File::open(path).open_dataset("raw");
    // The chunks beside it are whole.
    EXPECT_TRUE(same_bytes(d.read(Extents{0, 0, 0}, Extents{8, 12, 12}, DType::f32),
                           by_library(d, {0, 0, 0}, {8, 12, 12}, DType::f32)));
    return message_of([&] { d.read(); });
  };
  const auto place = AllOf(HasSubstr("t.h5:/raw"), HasSubstr("chunk at (8, 0, 0)"));
  EXPECT_THAT(damaged({kFletcher}, 17), AllOf(place, HasSubstr("checksum (fletcher32) differs")));
  EXPECT_THAT(damaged({kShuffle, kDeflate, kFletcher}, 17),
              AllOf(place, HasSubstr("checksum (fletcher32) differs")));
  EXPECT_THAT(damaged({kDeflate}, 0), AllOf(place, HasSubstr("damaged")));
  EXPECT_THAT(damaged({kShuffle, kDeflate}, 1000), AllOf(place, HasSubstr("damaged")));
}

TEST(Hdf5Direct, AFileCutWhileOpenIsToldAsTruncated) {
  TempFolder folder;
  const std::string path = folder.file("t.h5");
  for (const Form& form : {Form{}, Form{{4, 12, 12}, {}}, Form{{4, 12, 12}, {kDeflate}}}) {
    write_by_library(path, H5T_NATIVE_FLOAT, {12, 12, 12}, creation_list(form),
                     numbers(1728, 1 << 20));
    const hdf5::Dataset d = hdf5::File::open(path).open_dataset("raw");
    const int64_t bytes = static_cast<int64_t>(std::filesystem::file_size(path));
    ASSERT_EQ(::truncate(path.c_str(), bytes / 2), 0);
    EXPECT_THAT(message_of([&] { d.read(); }),
                AllOf(HasSubstr("t.h5:/raw"), HasSubstr("truncated")));
  }
}

TEST(Hdf5Direct, SizesThatNoFileCanHoldAreRefusedBeforeMemoryIsTaken) {
  TempFolder folder;
  const std::string path = folder.file("t.h5");
  const Extents huge{2, 1000, 1000, 500};
  write_by_library(path, H5T_NATIVE_FLOAT, huge, creation_list({{1, 1000, 1000, 500}, {kDeflate}}),
                   {});
  {
    hdf5::Lock lock;
    const hid_t file = H5Fopen(path.c_str(), H5F_ACC_RDWR, H5P_DEFAULT);
    const hid_t set = H5Dopen2(file, "raw", H5P_DEFAULT);
    const std::vector<hsize_t> at{0, 0, 0, 0};
    const std::string few(100, 'x');
    ASSERT_GE(H5Dwrite_chunk(set, H5P_DEFAULT, 0, at.data(), few.size(), few.data()), 0);
    H5Dclose(set);
    H5Fclose(file);
  }
  const hdf5::Dataset d = hdf5::File::open(path).open_dataset("raw");
  EXPECT_THAT(message_of([&] { d.read(); }), HasSubstr("cannot be in a file of"));
  EXPECT_THAT(message_of([&] {
                d.read(Extents{0, 0, 0, 0}, Extents{1, 1, 1, 1}, DType::f32);
              }),
              AllOf(HasSubstr("chunk at (0, 0, 0, 0)"), HasSubstr("cannot hold")));
}

TEST(Hdf5Direct, BytesReadAreThoseWantedAndAmplificationThoseUnpacked) {
  TempFolder folder;
  write_by_library(folder.file("t.h5"), H5T_STD_I16LE, {12, 12, 12},
                   creation_list({{4, 4, 4}, {kDeflate}}), numbers(1728, 100));
  const hdf5::Dataset d = hdf5::File::open(folder.file("t.h5")).open_dataset("raw");
  const int64_t wanted = hdf5::bytes_read(), unpacked = hdf5::detail::chunk_bytes_decoded();
  d.read(Extents{3, 4, 5}, Extents{2, 4, 2}, DType::f32);  // two chunks along the first axis
  EXPECT_EQ(hdf5::bytes_read() - wanted, 2 * 4 * 2 * 2);
  EXPECT_EQ(hdf5::detail::chunk_bytes_decoded() - unpacked, 2 * 64 * 2);
}

TEST(Hdf5Direct, ThreadsReadTheSameValuesAndLeaveNothingOpen) {
  TempFolder folder;
  std::vector<std::string> paths;
  for (const Form& form :
       {Form{{8, 8, 8}, {kShuffle, kDeflate, kFletcher}}, Form{}, Form{{2, 2, 2}, {kDeflate}}}) {
    paths.push_back(folder.file(std::to_string(paths.size()) + ".h5"));
    hdf5::Lock lock;
    write_by_library(paths.back(), H5T_NATIVE_FLOAT, {24, 24, 24}, creation_list(form),
                     numbers(13824, 1 << 20));
  }
  const Tensor truth = hdf5::File::open(paths[1]).open_dataset("raw").read();
  const int64_t open = hdf5::open_objects();
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      std::mt19937 random(static_cast<unsigned>(t));
      for (int i = 0; i < 60; ++i) {
        Extents begin(3);
        for (int64_t& b : begin) b = static_cast<int64_t>(random() % 9);
        hdf5::Lock lock;  // as readers hold it over their scope
        const Tensor part = hdf5::File::open(paths[random() % 3])
                                .open_dataset("raw")
                                .read(begin, Extents{16, 16, 16}, DType::f32);
        for (int64_t k = 0; k < 4096; ++k) {
          const int64_t x = begin[0] + k / 256, y = begin[1] + k / 16 % 16, z = begin[2] + k % 16;
          wrong += part.data<float>()[k] != truth.data<float>()[(x * 24 + y) * 24 + z];
        }
      }
    });
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(hdf5::open_objects(), open);
}

TEST(Hdf5Direct, TheLockIsFreeInsideUnlockedAndHeldAgainAfterIt) {
  const auto taken_by_another = [] {
    std::atomic<bool> taken{false};
    std::thread other([&] {
      hdf5::Lock lock;
      taken = true;
    });
    for (int i = 0; i < 200 && !taken; ++i) ::usleep(1000);
    return std::pair{taken.load(), std::move(other)};
  };
  std::thread waits;
  {
    hdf5::Lock outer, inner;
    {
      const hdf5::detail::Unlocked unlocked;
      auto [taken, other] = taken_by_another();
      EXPECT_TRUE(taken);
      other.join();
    }
    auto [taken, other] = taken_by_another();
    EXPECT_FALSE(taken);
    waits = std::move(other);
  }
  waits.join();
}

TEST(ChunkShape, AmplificationIsTheMeanOverAllPlaces) {
  // Along an axis of 8 with chunks of 4, a patch of 4 meets 1, 2, 2, 2, 1 chunks: 8 * 4 / (5 * 4).
  EXPECT_DOUBLE_EQ(read_amplification({8, 8, 8}, {4, 4, 4}, {4, 4, 4}), 1.6 * 1.6 * 1.6);
  EXPECT_DOUBLE_EQ(read_amplification({8, 8, 8}, {1, 1, 1}, {3, 3, 3}), 1);
  EXPECT_DOUBLE_EQ(read_amplification({8, 8, 8}, {8, 8, 8}, {2, 4, 8}), 4 * 2 * 1);
  EXPECT_DOUBLE_EQ(read_amplification({5, 8, 8}, {4, 8, 8}, {9, 9, 9}), 8.0 / 5);
  EXPECT_THAT(message_of([] {
                read_amplification({8, 0, 8}, {1, 1, 1}, {1, 1, 1});
              }),
              HasSubstr("8x0x8"));
}

TEST(ChunkShape, AWarningNamesTheFileItsFormAndWhatHelps) {
  VolumeInfo info;
  info.source.path = "head.nii.gz";
  info.grid = {181, 217, 181};
  info.codec = "gzip";
  EXPECT_EQ(amplification_warning(info, {64, 64, 64}, "volumes"),
            "'head.nii.gz' is one compressed stream of 181x217x181 cells: patches of 64x64x64 make "
            "their reader unpack 27 times what they want; volumes.cache.kind=ram or shared keeps "
            "fields unpacked, unet3d data convert writes chunks that fit");
  EXPECT_EQ(amplification_warning(info, {0, 0, 64}, "volumes"), "") << "the whole of two axes";
  EXPECT_EQ(amplification_warning(info, {}, "volumes"), "");
  info.codec = "none";
  EXPECT_EQ(amplification_warning(info, {8, 8, 8}, "volumes"), "") << "nothing is unpacked";
  info.codec = "deflate 4";
  info.chunk = {1, 217, 181};
  EXPECT_THAT(amplification_warning(info, {64, 64, 64}, "data"),
              AllOf(HasSubstr("'head.nii.gz' has chunks of 1x217x181 cells"),
                    HasSubstr("unpack 10 times"), HasSubstr("data.cache.kind")));
  info.chunk = {32, 32, 32};
  EXPECT_EQ(amplification_warning(info, {64, 64, 64}, "data"), "");
}

TEST(ChunkShape, ChunksFitThePatchTheGridAndTheirSize) {
  EXPECT_EQ(chunk_for_patch({256, 256, 256}, {64, 64, 64}, 4), (Dims3{32, 32, 32}));
  EXPECT_EQ(chunk_for_patch({256, 256, 256}, {256, 256, 256}, 4), (Dims3{64, 64, 64}));
  EXPECT_EQ(chunk_for_patch({20, 5, 256}, {64, 64, 1}, 4), (Dims3{20, 5, 8}));
  EXPECT_EQ(chunk_for_patch({256, 256, 256}, {4, 4, 4}, 8), (Dims3{8, 8, 8}));
  // Half of an odd patch rounded up: two chunks cover it.
  EXPECT_EQ(chunk_for_patch({256, 256, 256}, {33, 31, 17}, 4), (Dims3{17, 16, 9}));
}

}  // namespace
}  // namespace bora::data::test
