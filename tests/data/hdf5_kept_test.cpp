// SPDX-License-Identifier: Apache-2.0
// Chunks that stay unpacked between reads (rows 87, 90, 91): the library's bits, no unpacking
// twice, a bound on the bytes, and nothing kept of a file that has changed.
#include "data/hdf5_kept.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <hdf5.h>

#include <atomic>
#include <fstream>
#include <functional>
#include <thread>

#include "core/error.hpp"
#include "data/cache_config.hpp"
#include "data/hdf5_stored.hpp"
#include "data/volume_cache.hpp"
#include "data/volume_dataset.hpp"
#include "tests/data/hdf5_known.hpp"

namespace bora::data::test {
namespace {

using hdf5::detail::KeptChunk;
using hdf5::detail::KeptChunks;
using ::testing::HasSubstr;
constexpr int64_t kMiB = int64_t{1} << 20;

/// A chunk whose bytes are all `value`.
KeptChunk chunk_of(int64_t bytes, int value, int64_t n_elements = 1) {
  return {std::vector<std::byte>(static_cast<size_t>(bytes), static_cast<std::byte>(value)), false,
          n_elements};
}
/// The first byte of a chunk; -1 if it is not there.
int value_of(KeptChunks& kept, int64_t array, int64_t chunk, int64_t n_elements = 1) {
  const auto found = kept.find({array, chunk}, n_elements);
  return found ? std::to_integer<int>(found->bytes[0]) : -1;
}

TEST(KeptChunks, DropsThoseThatWereNotAskedForLongest) {
  KeptChunks kept(100);
  for (int i = 0; i < 3; ++i) kept.keep({7, i}, chunk_of(30, i));
  EXPECT_EQ(kept.bytes(), 90);
  EXPECT_EQ(value_of(kept, 7, 0), 0);
  kept.keep({8, 1}, chunk_of(40, 50));  // the same chunk number of another array
  EXPECT_EQ(kept.bytes(), 100);
  EXPECT_EQ(value_of(kept, 7, 1), -1);
  EXPECT_EQ(value_of(kept, 7, 2), 2);
  EXPECT_EQ(value_of(kept, 7, 0), 0);
  EXPECT_EQ(value_of(kept, 8, 1), 50);
  kept.keep({8, 2}, chunk_of(1, 51));  // one byte too much
  EXPECT_EQ(value_of(kept, 7, 2), -1);
  EXPECT_EQ(kept.bytes(), 71);
}

TEST(KeptChunks, TheLimitHolds) {
  KeptChunks kept(100);
  kept.keep({1, 1}, chunk_of(101, 1));
  EXPECT_EQ(value_of(kept, 1, 1), -1);
  kept.keep({1, 1}, chunk_of(100, 2));
  EXPECT_EQ(value_of(kept, 1, 1), 2);
  kept.set_limit(99);
  EXPECT_EQ(kept.bytes(), 0);
  KeptChunks nothing(0);
  nothing.keep({1, 1}, chunk_of(1, 1));
  EXPECT_EQ(value_of(nothing, 1, 1), -1);
  EXPECT_THAT(message_of([&] { kept.set_limit(-1); }), HasSubstr("a limit of -1 bytes"));
  EXPECT_THAT(message_of([] { KeptChunks bad(-5); }), HasSubstr("a limit of -5 bytes"));
}

TEST(KeptChunks, ALongerFrontTakesThePlaceOfAShorterOne) {
  KeptChunks kept(100);
  kept.keep({1, 1}, chunk_of(30, 1, 10));
  EXPECT_EQ(value_of(kept, 1, 1, 10), 1);
  EXPECT_EQ(value_of(kept, 1, 1, 11), -1);
  kept.keep({1, 1}, chunk_of(30, 2, 10));  // of a thread that unpacked it too
  EXPECT_EQ(value_of(kept, 1, 1, 5), 1);
  kept.keep({1, 1}, chunk_of(40, 3, 11));
  EXPECT_EQ(value_of(kept, 1, 1, 11), 3);
  EXPECT_EQ(kept.bytes(), 40);
  kept.keep({1, 1}, chunk_of(40, 4, 3));
  EXPECT_EQ(value_of(kept, 1, 1, 3), 3);
}

TEST(KeptChunks, AChunkInHandOutlivesItsPlaceAndThenItsBufferIsUsedAgain) {
  KeptChunks kept(50);
  std::vector<std::byte> first(50, std::byte{1});
  EXPECT_TRUE(kept.keep({1, 1}, {std::move(first), false, 1}).empty());
  auto in_hand = kept.find({1, 1}, 1);
  EXPECT_TRUE(kept.keep({1, 2}, chunk_of(50, 2)).empty());  // its pages are in use
  EXPECT_EQ(in_hand->bytes[49], std::byte{1});
  in_hand.reset();
  std::vector<std::byte> own(50, std::byte{3});
  const std::byte* const own_pages = own.data();
  const auto spare = kept.keep({1, 3}, {std::move(own), false, 1});  // drops {1, 2}
  EXPECT_EQ(spare.size(), 50u);
  EXPECT_NE(spare.data(), own_pages);
  const auto other = kept.keep({1, 3}, chunk_of(50, 4));  // is there: given back as it came
  EXPECT_EQ(other[0], std::byte{4});
  EXPECT_EQ(kept.keep({1, 4}, chunk_of(50, 5)).size(), 50u);
  kept.set_limit(0);
  kept.set_limit(50);
  EXPECT_TRUE(kept.keep({1, 5}, chunk_of(50, 6)).empty()) << "a limit of 0 keeps no buffer either";
}

TEST(KeptChunks, ThreadsFindOnlyWhatWasKept) {
  KeptChunks kept(16 * 64);
  std::atomic<int> wrong{0}, found{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      std::mt19937 random(static_cast<unsigned>(t));
      std::vector<std::byte> buffer;
      for (int i = 0; i < 5000; ++i) {
        const auto c = static_cast<int64_t>(random() % 32);
        if (const auto got = kept.find({0, c}, 1)) {
          ++found;
          for (const std::byte b : got->bytes) wrong += std::to_integer<int64_t>(b) != c;
        } else {
          buffer.assign(64, static_cast<std::byte>(c));
          buffer = kept.keep({0, c}, {std::move(buffer), false, 1});
        }
      }
    });
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_GT(found, 1000);
  EXPECT_LE(kept.bytes(), kept.limit());
}

/// Bytes that are unpacked for a call.
int64_t unpacked_by(const std::function<void()>& call) {
  const int64_t before = hdf5::detail::chunk_bytes_decoded();
  call();
  return hdf5::detail::chunk_bytes_decoded() - before;
}

TEST(Hdf5Kept, RandomBoxesHaveTheLibrarysBitsWithAnyLimit) {
  TempFolder folder;
  const Dims3 grid{19, 23, 29};
  hdf5::Lock lock;  // opens the library, whose types are no constants
  int n = 0;
  for (const Form& form : std::vector<Form>{{{8, 8, 8}, {kDeflate}},
                                            {{19, 23, 29}, {kDeflate}},
                                            {{8, 8, 8}, {kShuffle, kDeflate}},
                                            {{16, 16, 16}, {kShuffle, kDeflate, kFletcher}},
                                            {{16, 16, 16}, {kFletcher, kDeflate, kShuffle}}})
    for (const hid_t type : {H5T_IEEE_F32LE, H5T_STD_I16BE, H5T_STD_U8LE})
      for (const int64_t limit : {int64_t{9000}, int64_t{60000}, kMiB}) {
        const ChunkCache cache(limit);
        const std::string path = folder.file(std::to_string(n++) + ".h5");
        write_by_library(path, type, {grid.d, grid.h, grid.w}, creation_list(form),
                         numbers(grid.count(), 200));
        make_old(path);
        Boxes boxes;
        boxes.random.seed(static_cast<unsigned>(n));  // others for each file
        for (int i = 0; i < 8; ++i) {
          const auto [begin, count] = boxes.next(grid);
          EXPECT_TRUE(same_bytes(volume_box(path, begin, count), library_box(path, begin, count)))
              << text_of(form) << ", box " << begin << " of " << count << ", limit " << limit;
          EXPECT_LE(hdf5::chunk_cache_bytes(), limit);
        }
      }
}

TEST(Hdf5Kept, AChunkIsUnpackedOnce) {
  TempFolder folder;
  for (const auto& filters : {std::vector<int>{kDeflate}, {kShuffle, kDeflate}}) {
    const ChunkCache cache(kMiB);
    const std::string path = folder.file(std::to_string(filters.size()) + ".h5");
    write_by_library(path, H5T_NATIVE_FLOAT, {32, 32, 32}, creation_list({{16, 16, 16}, filters}),
                     numbers(32768, 1000));
    make_old(path);
    constexpr int64_t kChunk = 4096 * 4;
    const auto read = [&](const Dims3& begin, const Dims3& count, DType type = DType::f32) {
      return unpacked_by([&] {
        EXPECT_TRUE(same_bytes(volume_box(path, begin, count, type),
                               library_box(path, begin, count, type)));
      });
    };
    EXPECT_EQ(read({0, 0, 0}, {16, 16, 16}), kChunk);
    EXPECT_EQ(read({0, 0, 0}, {16, 16, 16}), 0);
    EXPECT_EQ(read({3, 5, 15}, {1, 2, 1}), 0);
    EXPECT_EQ(read({3, 5, 7}, {1, 2, 3}, DType::f64), 0) << "as stored: for any type of values";
    EXPECT_EQ(read({8, 8, 8}, {16, 8, 8}), kChunk);
    EXPECT_EQ(read({0, 0, 0}, Dims3::all(32)), 6 * kChunk);
    EXPECT_EQ(read({0, 0, 0}, Dims3::all(32)), 0);
    EXPECT_EQ(hdf5::chunk_cache_bytes(), 8 * kChunk);
  }
}

TEST(Hdf5Kept, AFrontServesWhatLiesInIt) {
  TempFolder folder;
  const std::string path = folder.file("t.h5");
  write_by_library(path, H5T_NATIVE_FLOAT, {32, 32, 32}, creation_list({{32, 32, 32}, {kDeflate}}),
                   numbers(32768, 1000));
  make_old(path);
  const auto read = [&](int64_t begin, int64_t n) {
    return unpacked_by([&] {
      EXPECT_TRUE(same_bytes(volume_box(path, {begin, 0, 0}, {n, 32, 32}),
                             library_box(path, {begin, 0, 0}, {n, 32, 32})));
    });
  };
  const ChunkCache cache(0);
  EXPECT_EQ(read(0, 32), 32768 * 4);  // is known to be right from now on
  hdf5::set_chunk_cache(kMiB);
  EXPECT_EQ(read(4, 8), 12 * 1024 * 4);
  EXPECT_EQ(read(0, 12), 0);
  EXPECT_EQ(read(0, 13), 13 * 1024 * 4);
  EXPECT_EQ(read(12, 1), 0);
  EXPECT_EQ(hdf5::chunk_cache_bytes(), 32768 * 4);
}

TEST(Hdf5Kept, WhatDoesNotPayIsNotKept) {
  TempFolder folder;
  const auto kept_of = [&](const char* name, const Form& form, int64_t limit, bool is_old) {
    const ChunkCache cache(limit);
    const std::string path = folder.file(name);
    write_by_library(path, H5T_NATIVE_FLOAT, {16, 16, 16}, creation_list(form),
                     numbers(4096, 1000));
    if (is_old) make_old(path);
    for (int i = 0; i < 2; ++i) volume_box(path, {}, Dims3::all(16));
    return hdf5::chunk_cache_bytes();
  };
  constexpr int64_t kAll = 4096 * 4;
  EXPECT_EQ(kept_of("a.h5", {{8, 8, 8}, {kDeflate}}, 2 * kAll, true), kAll);
  EXPECT_EQ(kept_of("b.h5", {{8, 8, 8}, {kDeflate}}, 2 * kAll - 1, true), 0)
      << "a block that would throw out half of all";
  EXPECT_EQ(kept_of("c.h5", {{8, 8, 8}, {}}, kMiB, true), 0) << "the system keeps these";
  EXPECT_EQ(kept_of("d.h5", {}, kMiB, true), 0);
  EXPECT_EQ(kept_of("e.h5", {{8, 8, 8}, {kDeflate}}, kMiB, false), 0) << "may be written still";
}

TEST(Hdf5Kept, AChangedFileGivesItsNewValues) {
  const ChunkCache cache(kMiB);
  TempFolder folder;
  const std::string path = folder.file("t.h5");
  int64_t limit = 100;
  for (int hours = 1; hours < 8; ++hours) {
    write_by_library(path, H5T_NATIVE_FLOAT, {16, 16, 16}, creation_list({{8, 8, 8}, {kDeflate}}),
                     numbers(4096, limit += 37));
    make_old(path, hours);
    for (int i = 0; i < 2; ++i)
      EXPECT_TRUE(same_bytes(volume_box(path, {3, 0, 1}, {9, 16, 7}),
                             library_box(path, {3, 0, 1}, {9, 16, 7})))
          << hours;
  }
}

TEST(Hdf5Kept, ADamagedChunkIsNotKept) {
  const ChunkCache cache(kMiB);
  TempFolder folder;
  const std::string path = folder.file("t.h5");
  write_by_library(path, H5T_NATIVE_FLOAT, {16, 16, 16}, creation_list({{8, 16, 16}, {kDeflate}}),
                   numbers(4096, 1 << 20));
  {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(static_cast<std::streamoff>(std::filesystem::file_size(path)) - 2000);
    file << "damage damage damage";
  }
  make_old(path);
  for (int i = 0; i < 3; ++i)
    EXPECT_THAT(message_of([&] { volume_box(path, {}, Dims3::all(16)); }),
                HasSubstr("chunk at (8, 0, 0)"));
}

TEST(Hdf5Kept, TheSettingSetsIt) {
  const ChunkCache cache(0);
  CacheConfig config;
  config.chunks_mib = 3;
  EXPECT_EQ(VolumeCache::make(config, {}, nullptr), nullptr);
  EXPECT_EQ(KeptChunks::of_this_process().limit(), 3 * kMiB);
  TempFolder folder;
  write_by_library(folder.file("a.h5"), H5T_NATIVE_FLOAT, {8, 8, 8}, creation_list({}),
                   numbers(512, 9));
  write_by_library(folder.file("b.h5"), H5T_NATIVE_UINT8, {8, 8, 8}, creation_list({}),
                   numbers(512, 2));
  VolumesConfig volumes;
  volumes.root = folder.file("");
  std::ofstream(folder.file("list.csv")) << "case,image,label\na,a.h5,b.h5\n";
  volumes.list = folder.file("list.csv");
  volumes.label_variable = "raw";
  volumes.classes = {"no", "yes"};
  volumes.cache.chunks_mib = 5;
  const VolumeDataset set(volumes);
  EXPECT_EQ(KeptChunks::of_this_process().limit(), 5 * kMiB);
}

}  // namespace
}  // namespace bora::data::test
