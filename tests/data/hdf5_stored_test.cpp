// SPDX-License-Identifier: Apache-2.0
// Files that were read before are read without the HDF5 library (rows 87, 90, 91): the same bits,
// no lock, less unpacking, and a changed file is told from the one that was known.
#include "data/hdf5_stored.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <hdf5.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <future>
#include <thread>

#include "data/recent.hpp"
#include "tests/data/hdf5_known.hpp"

namespace bora::data::test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
namespace fs = std::filesystem;

TEST(Hdf5Stored, KnownFilesHaveTheLibrarysBits) {
  TempFolder folder;
  const Dims3 grid{19, 23, 29};
  const ChunkCache none(0);  // with it: hdf5_kept_test.cpp
  hdf5::Lock lock;           // opens the library, whose types are no constants
  int n = 0;
  for (const Form& form : std::vector<Form>{{},
                                            {{8, 8, 8}, {}},
                                            {{8, 8, 8}, {kDeflate}},
                                            {{19, 23, 29}, {kDeflate}},
                                            {{1, 23, 29}, {kDeflate}},
                                            {{8, 8, 8}, {kShuffle, kDeflate}},
                                            {{16, 16, 16}, {kShuffle, kDeflate}},
                                            {{16, 16, 16}, {kShuffle, kDeflate, kFletcher}},
                                            {{16, 16, 16}, {kFletcher, kDeflate, kShuffle}}})
    for (const hid_t type : {H5T_IEEE_F32LE, H5T_STD_I16BE, H5T_STD_U8LE}) {
      const std::string path = folder.file(std::to_string(n++) + ".h5");
      write_by_library(path, type, {grid.d, grid.h, grid.w}, creation_list(form),
                       numbers(grid.count(), 200));
      make_old(path);
      Boxes boxes;
      for (int i = 0; i < 24; ++i) {
        const auto [begin, count] = boxes.next(grid);
        EXPECT_TRUE(same_bytes(volume_box(path, begin, count), library_box(path, begin, count)))
            << text_of(form) << ", box " << begin << " of " << count;
      }
    }
}

TEST(Hdf5Stored, KnownFilesAreReadWhileAnotherThreadHoldsTheLibrary) {
  TempFolder folder;
  for (const Form& form : {Form{}, Form{{8, 8, 8}, {kShuffle, kDeflate}}}) {
    const std::string path = folder.file(form.chunk.empty() ? "a.h5" : "b.h5");
    write_by_library(path, H5T_NATIVE_FLOAT, {16, 16, 16}, creation_list(form),
                     numbers(4096, 1000));
    make_old(path);
    const Tensor first = volume_box(path, {}, Dims3::all(16));
    std::future<Tensor> other;
    bool was_in_time = false;
    {
      hdf5::Lock lock;
      other = std::async(std::launch::async, [&] { return volume_box(path, {}, Dims3::all(16)); });
      was_in_time = other.wait_for(std::chrono::seconds(20)) == std::future_status::ready;
    }
    EXPECT_TRUE(was_in_time) << text_of(form);
    EXPECT_TRUE(same_bytes(other.get(), first));
  }
  EXPECT_EQ(hdf5::open_objects(), 0);
}

TEST(Hdf5Stored, OfAChunkThatWasWholeBeforeOnlyTheFrontIsUnpacked) {
  const ChunkCache none(0);
  TempFolder folder;
  const std::string path = folder.file("t.h5");
  write_by_library(path, H5T_NATIVE_FLOAT, {32, 32, 32}, creation_list({{32, 32, 32}, {kDeflate}}),
                   numbers(32768, 1000));
  make_old(path);
  const auto unpacked = [&](int64_t begin, int64_t n) {
    const int64_t before = hdf5::detail::chunk_bytes_decoded();
    const Tensor got = volume_box(path, {begin, 0, 0}, {n, 32, 32});
    EXPECT_TRUE(same_bytes(got, library_box(path, {begin, 0, 0}, {n, 32, 32})));
    return hdf5::detail::chunk_bytes_decoded() - before;
  };
  EXPECT_EQ(unpacked(0, 8), 32768 * 4);  // with its checksum
  EXPECT_EQ(unpacked(0, 8), 8 * 1024 * 4);
  EXPECT_EQ(unpacked(4, 8), 12 * 1024 * 4);
  EXPECT_EQ(unpacked(8, 24), 32768 * 4);
}

// libdeflate stops early where a block that is stored as it is does not fit: noise makes such
// blocks, alone (0) and among others (1 of 3 values, or half of the chunk).
TEST(Hdf5Stored, EveryFrontOfNoiseAndOfMixturesHasTheLibrarysBits) {
  const ChunkCache none(0);
  TempFolder folder;
  std::mt19937 random(5);
  for (const int kind : {0, 1, 2, 3}) {
    std::vector<double> v(size_t{64} * 32 * 32);
    for (size_t i = 0; i < v.size(); ++i) {
      const bool noise = kind == 0 || (kind == 1 && i % 3 == 0) ||
                         (kind == 2 && i > v.size() / 2) || (kind == 3 && i / 5000 % 2 == 0);
      v[i] = noise ? static_cast<double>(random()) : static_cast<double>(i / 300);
    }
    const std::string path = folder.file(std::to_string(kind) + ".h5");
    write_by_library(path, H5T_NATIVE_UINT32, {64, 32, 32},
                     creation_list({{64, 32, 32}, {kDeflate}}), v);
    make_old(path);
    for (int64_t n = 1; n <= 64; n += 3)
      EXPECT_TRUE(same_bytes(volume_box(path, {0, 0, 0}, {n, 3, 5}, DType::f64),
                             library_box(path, {0, 0, 0}, {n, 3, 5}, DType::f64)))
          << "kind " << kind << ", " << n << " layers";
  }
}

TEST(Hdf5Stored, AChangedFileIsNotTakenForTheKnownOne) {
  TempFolder folder;
  const std::string path = folder.file("t.h5");
  const auto write = [&](int64_t limit, const Extents& chunk) {
    write_by_library(path, H5T_NATIVE_FLOAT, {16, 16, 16}, creation_list({chunk, {kDeflate}}),
                     numbers(4096, limit));
  };
  const auto expect_now = [&](const char* what) {
    EXPECT_TRUE(same_bytes(volume_box(path, {3, 0, 1}, {9, 16, 7}),
                           library_box(path, {3, 0, 1}, {9, 16, 7})))
        << what;
  };
  int64_t limit = 100;
  for (int i = 0; i < 20; ++i) {  // within the steps of the file's time
    write(limit += 37, {8, 8, 8});
    expect_now("young");
  }
  make_old(path);
  expect_now("old");
  write(1000, {4, 8, 16});
  make_old(path, 2);
  expect_now("written in place, another time");
  const auto time = fs::last_write_time(path);
  write(2000, {8, 8, 8});
  fs::last_write_time(path, time);
  expect_now("written in place, the time set back");
  fs::rename(path, folder.file("old.h5"));
  write(3000, {8, 8, 8});
  fs::last_write_time(path, time);
  expect_now("another file of this name");
}

TEST(Hdf5Stored, AnOpenVolumeWhoseFileWasReplacedSaysSo) {
  TempFolder folder;
  const std::string path = folder.file("t.h5"), other = folder.file("u.h5");
  write_by_library(path, H5T_NATIVE_FLOAT, {16, 16, 16}, creation_list({{8, 8, 8}, {kDeflate}}),
                   numbers(4096, 100));
  fs::copy_file(path, other);
  make_old(path);
  make_old(other);
  open_volume({path, "raw", ""});  // is known from now on, but none of its chunks
  const auto volume = open_volume({path, "raw", ""});
  fs::rename(other, path);
  EXPECT_THAT(message_of([&] { volume->read({}, Dims3::all(16), DType::f32); }),
              AllOf(HasSubstr(path), HasSubstr("was replaced while it was read")));
}

TEST(Hdf5Stored, DamageOfAKnownFileNamesTheChunk) {
  TempFolder folder;
  const std::string path = folder.file("t.h5");
  write_by_library(path, H5T_NATIVE_FLOAT, {16, 16, 16}, creation_list({{8, 16, 16}, {kDeflate}}),
                   numbers(4096, 1 << 20));
  make_old(path);
  volume_box(path, {}, Dims3::all(16));
  {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(static_cast<std::streamoff>(fs::file_size(path)) - 2000);
    file << "damage damage damage";
  }
  make_old(path);
  EXPECT_THAT(message_of([&] { volume_box(path, {}, Dims3::all(16)); }),
              AllOf(HasSubstr(path), HasSubstr("raw"), HasSubstr("chunk at (8, 0, 0)"),
                    HasSubstr("damaged")));
  fs::resize_file(path, fs::file_size(path) - 3000);
  make_old(path);
  EXPECT_THAT(message_of([&] { volume_box(path, {}, Dims3::all(16)); }), HasSubstr(path));
  EXPECT_EQ(hdf5::open_objects(), 0);
}

TEST(Hdf5Stored, ThreadsReadKnownFilesAtOnce) {
  const ChunkCache none(0);
  TempFolder folder;
  const Dims3 grid{24, 24, 24};
  std::vector<std::string> paths;
  for (int f = 0; f < 3; ++f) {
    paths.push_back(folder.file(std::to_string(f) + ".h5"));
    write_by_library(paths.back(), H5T_NATIVE_FLOAT, {24, 24, 24},
                     creation_list({{8, 8, 8}, {kShuffle, kDeflate}}),
                     numbers(grid.count(), 100 + f));
    make_old(paths.back());
  }
  std::vector<std::future<int>> threads;
  for (unsigned t = 0; t < 4; ++t)
    threads.push_back(std::async(std::launch::async, [&, t] {
      Boxes boxes;
      boxes.random.seed(t);
      int n_same = 0;
      for (int i = 0; i < 40; ++i) {
        const std::string& path = paths[(static_cast<size_t>(i) + t) % 3];
        const auto [begin, count] = boxes.next(grid);
        n_same += same_bytes(volume_box(path, begin, count), library_box(path, begin, count));
      }
      return n_same;
    }));
  for (auto& t : threads) EXPECT_EQ(t.get(), 40);
  EXPECT_EQ(hdf5::open_objects(), 0);
}

TEST(Hdf5Stored, WhatIsRememberedIsCounted) {
  TempFolder folder;
  const std::string path = folder.file("t.h5");
  write_by_library(path, H5T_NATIVE_FLOAT, {16, 16, 16}, creation_list({{8, 8, 8}, {kDeflate}}),
                   numbers(4096, 50));
  make_old(path);
  const int64_t before = hdf5::detail::n_known_chunks();
  for (int i = 0; i < 3; ++i) volume_box(path, {0, 0, 0}, {9, 8, 8});
  EXPECT_EQ(hdf5::detail::n_known_chunks() - before, 2);
}

TEST(Recent, DropsWhatWasNotAskedForLongest) {
  Recent<int> recent(2);
  recent.keep("a", std::make_shared<int>(1));
  recent.keep("b", std::make_shared<int>(2));
  EXPECT_EQ(*recent.find("a"), 1);
  recent.keep("c", std::make_shared<int>(3));
  EXPECT_EQ(recent.find("b"), nullptr);
  EXPECT_EQ(*recent.keep("a", std::make_shared<int>(4)), 1);
  EXPECT_EQ(recent.size(), 2u);
  EXPECT_TRUE(recent.drop_oldest());
  EXPECT_EQ(recent.find("a"), nullptr);
  EXPECT_TRUE(recent.drop_oldest());
  EXPECT_FALSE(recent.drop_oldest());
}

}  // namespace
}  // namespace bora::data::test
