// SPDX-License-Identifier: Apache-2.0
// HDF5 files whose structure lies (row 88): bytes of a file of the library's are changed just so.
// What is said names the file, the data set, the chunk, what was found and what was wanted.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <hdf5.h>

#include <string>

#include "data/hdf5_blocks.hpp"
#include "data/hdf5_stored.hpp"
#include "tests/data/hdf5_by_library.hpp"

namespace bora::data::test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

/// The bytes of these numbers, one behind the other.
template <class... Number>
std::string bytes_of(Number... number) {
  std::string out;
  (out.append(reinterpret_cast<const char*>(&number), sizeof number), ...);
  return out;
}
std::string u32s(const std::vector<uint32_t>& numbers) {
  std::string out;
  for (const uint32_t n : numbers) out += bytes_of(n);
  return out;
}
std::string u64s(const std::vector<uint64_t>& numbers) {
  std::string out;
  for (const uint64_t n : numbers) out += bytes_of(n);
  return out;
}

/// Files in the library's oldest format, which has no checksums.
class PatchedHdf5 : public ::testing::Test {
 protected:
  /// Data set "raw" of 12 x 12 x 12 numbers.
  void write(const Form& form, hid_t type) const {
    write_by_library(path, type, {12, 12, 12}, creation_list(form), numbers(1728, 200));
  }
  void write(const Form& form) const {
    const hdf5::Lock lock;  // opens the library, whose types are no constants
    write(form, H5T_NATIVE_FLOAT);
  }
  /// Puts `to` in the place of `from`, which the file has once.
  void patch(const std::string& from, const std::string& to) const {
    ASSERT_EQ(from.size(), to.size());
    std::string content = read_file(path);
    const size_t at = content.find(from);
    ASSERT_NE(at, content.npos);
    ASSERT_EQ(content.find(from, at + 1), content.npos);
    write_file(path, content.replace(at, to.size(), to));
  }
  /// What the index of chunks says of this one: bytes, filters that were left out, place, address.
  void patch_chunk(const Extents& first, uint32_t bytes, uint32_t mask, uint64_t address) const {
    const auto [at, n] = place_of_chunk(path, first);
    std::string place;
    for (const int64_t i : first) place += bytes_of(i);
    place += bytes_of(int64_t{0});  // within an element
    patch(bytes_of(static_cast<uint32_t>(n), uint32_t{0}) + place + bytes_of(at),
          bytes_of(bytes, mask) + place + bytes_of(address));
  }
  /// The same, but for its bytes or its filters.
  void patch_bytes(const Extents& first, uint32_t bytes) const {
    patch_chunk(first, bytes, 0, static_cast<uint64_t>(place_of_chunk(path, first).first));
  }
  void patch_mask(const Extents& first, uint32_t mask) const {
    const auto [at, bytes] = place_of_chunk(path, first);
    patch_chunk(first, static_cast<uint32_t>(bytes), mask, static_cast<uint64_t>(at));
  }
  /// The extents of chunks and the bytes of an element, as the layout has them.
  void patch_chunk_extents(const std::vector<uint32_t>& from,
                           const std::vector<uint32_t>& to) const {
    patch(u32s(from), u32s(to));
  }
  std::string told(DType type = DType::f32) const {
    const std::string text =
        message_of([&] { hdf5::File::open(path).open_dataset("raw").read(type); });
    EXPECT_THAT(text, AllOf(HasSubstr(path), HasSubstr("raw")));
    EXPECT_EQ(hdf5::open_objects(), 0);
    return text;
  }
  std::string size() const { return std::to_string(std::filesystem::file_size(path)); }

  TempFolder folder;
  const std::string path = folder.file("t.h5");
};

TEST_F(PatchedHdf5, ChunksOutsideOfTheFileAreTold) {
  const Form form{{4, 12, 12}, {kDeflate}};
  write(form);
  patch_chunk({8, 0, 0}, 100, 0, uint64_t{1} << 40);
  EXPECT_THAT(told(), HasSubstr("chunk at (8, 0, 0), 100 bytes stored: they begin at byte "
                                "1099511627776 of a file of " +
                                size() + ": truncated or damaged"));
  write(form);
  patch_chunk({8, 0, 0}, 100, 0, ~uint64_t{0} - 1);
  EXPECT_THAT(told(), HasSubstr("chunk at (8, 0, 0), 100 bytes stored: they begin at byte -2 of"));
  write(form);
  patch_bytes({8, 0, 0}, 0x7fffffff);
  EXPECT_THAT(told(),
              HasSubstr("chunk at (8, 0, 0), 2147483647 bytes stored: more than the file's " +
                        size() + " bytes: truncated or damaged"));
  write(form);
  const auto [at, bytes] = place_of_chunk(path, {8, 0, 0});
  std::filesystem::resize_file(path, static_cast<uintmax_t>(at + bytes - 1));
  EXPECT_THAT(message_of([&] { hdf5::File::open(path); }),
              AllOf(HasSubstr("cannot open '" + path + "'"), HasSubstr("truncated")));
}

// Of many small chunks the library looks for the wanted ones.
TEST_F(PatchedHdf5, SmallChunksOutsideOfTheFileAreTold) {
  const hdf5::Lock lock;
  const auto write_small = [&] {
    write_by_library(path, H5T_NATIVE_FLOAT, {24, 24, 24},
                     creation_list({{2, 2, 2}, {kShuffle, kDeflate}}), numbers(13824, 200));
  };
  const auto told_of_one = [&] {
    const hdf5::Dataset d = hdf5::File::open(path).open_dataset("raw");
    const std::string text = message_of([&] {
      d.read(Extents{2, 0, 0}, Extents{1, 1, 1}, DType::f32);
    });
    EXPECT_THAT(text, HasSubstr(path + ":/raw"));
    return text;
  };
  write_small();
  patch_bytes({2, 0, 0}, 0x7fffffff);
  EXPECT_THAT(told_of_one(), HasSubstr("chunk at (2, 0, 0), 2147483647 bytes stored: more than "
                                       "the file's " +
                                       size() + " bytes: truncated or damaged"));
  write_small();
  std::string content = read_file(path);
  const std::string node = std::string("TREE") + '\1';  // of the index of chunks, on each level
  for (size_t at = 0; (at = content.find(node, at)) != content.npos;) content[at] = 'X';
  write_file(path, content);
  EXPECT_THAT(told_of_one(),
              AllOf(HasSubstr("chunk at (2, 0, 0): HDF5: "), HasSubstr("wrong B-tree signature")));
}

// The library copies a link's value by its length, and crashed on the first of these.
TEST_F(PatchedHdf5, LinksThatDoNotHoldWhatTheySayAreTold) {
  const auto write_link = [&] {
    const hdf5::Lock lock;
    const hid_t file = H5Fcreate(path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
    ASSERT_GE(H5Lcreate_external("source.h5", "/raw", file, "raw", H5P_DEFAULT, H5P_DEFAULT), 0);
    H5Fclose(file);
  };
  const std::string link = "\1\x8\x40\x3raw";
  const auto with_value_of = [&](char bytes) {
    return link + bytes + std::string("\0\0source.h5", 11);
  };
  const std::string whole = with_value_of(16);  // flags, "source.h5", "/raw", each with its zero
  for (const auto& [from, to] :
       {std::pair{whole, with_value_of('\xff')},               // longer than all
        std::pair{whole, with_value_of(5)},                    // its first text without an end
        std::pair{whole, with_value_of(15)},                   // its second one
        std::pair{link, std::string("\1\x8\x40\xf0raw")},      // a longer name
        std::pair{link, std::string("\1\x8\x40\0raw", 7)}}) {  // none
    write_link();
    patch(from, to);
    const hdf5::Lock lock;
    EXPECT_THAT(message_of([&] { hdf5::File::open(path).names(); }),
                AllOf(HasSubstr(path), HasSubstr("a link that does not hold what it says")));
  }
  write_link();
  const hdf5::Lock lock;
  EXPECT_EQ(hdf5::File::open(path).names(), (std::vector<std::string>{"raw"}));
  EXPECT_FALSE(hdf5::File::open(path).exists("raw"));
}

TEST_F(PatchedHdf5, AnIndexOfChunksThatIsNoneIsTold) {
  write({{4, 12, 12}, {kDeflate}});
  patch(std::string("TREE") + '\1', std::string("XREE") + '\1');
  EXPECT_THAT(told(), AllOf(HasSubstr("chunk at (0, 0, 0): HDF5: H5Dget_chunk_info_by_coord"),
                            HasSubstr("wrong B-tree signature")));
}

TEST_F(PatchedHdf5, ChunksOfAnotherSizeThanTheirLayoutSaysAreTold) {
  const Form form{{4, 12, 12}, {kDeflate}};
  write(form);
  patch_mask({8, 0, 0}, 1);  // as if it were stored as it is
  const auto bytes = std::to_string(place_of_chunk(path, {8, 0, 0}).second);
  EXPECT_THAT(told(), HasSubstr("chunk at (8, 0, 0), " + bytes +
                                " bytes stored: the stored data "
                                "give " +
                                bytes +
                                " bytes, wanted the 2304 of a chunk: they are "
                                "damaged"));
  write(form);
  patch_chunk_extents({4, 12, 12, 4}, {4, 12, 13, 4});
  EXPECT_THAT(told(), HasSubstr("the stored data give 2304 bytes, wanted the 2496 of a chunk"));
  for (const Form& packed : {form, Form{{4, 12, 12}, {kShuffle, kDeflate}}}) {
    write(packed);
    patch_chunk_extents({4, 12, 12, 4}, {4, 12, 6, 4});
    EXPECT_THAT(told(), AllOf(HasSubstr("chunk at (0, 0, 0), "),
                              HasSubstr("the compressed data give more than the 1152 bytes of a "
                                        "chunk: they are damaged")));
  }
}

TEST_F(PatchedHdf5, ChunksThatAreCutShortAreTold) {
  write({{4, 12, 12}, {kDeflate}});
  patch_bytes({4, 0, 0}, 40);
  EXPECT_THAT(told(), HasSubstr("chunk at (4, 0, 0), 40 bytes stored: the compressed data are "
                                "damaged (deflate: bad code or checksum)"));
  write({{4, 12, 12}, {kDeflate}});
  patch_bytes({4, 0, 0}, 1);
  EXPECT_THAT(told(), HasSubstr("chunk at (4, 0, 0), 1 bytes stored: 1 compressed bytes cannot "
                                "hold the 2304 bytes of a chunk"));
  write({{4, 12, 12}, {kFletcher}});
  patch_bytes({4, 0, 0}, 3);
  EXPECT_THAT(told(), HasSubstr("chunk at (4, 0, 0), 3 bytes stored: 3 bytes, too few for a "
                                "checksum"));
  write({{4, 12, 12}, {kFletcher}});
  patch_bytes({4, 0, 0}, 100);
  EXPECT_THAT(told(), HasSubstr("chunk at (4, 0, 0), 100 bytes stored: the checksum (fletcher32) "
                                "differs: the data are damaged; stored "));
}

// The library's own product of these extents overflows to 0.
TEST_F(PatchedHdf5, ChunksOfExtentsThatCannotBeAreTold) {
  const std::vector<uint32_t> huge = {0x80000000, 0x80000000, 4, 4};
  write({{4, 12, 12}, {kDeflate}});
  patch_chunk_extents({4, 12, 12, 4}, huge);
  EXPECT_THAT(told(), HasSubstr("a chunk of more than 4 GiB"));
  {  // a type that only the library reads
    const hdf5::Lock lock;
    const hdf5::Id odd(H5Tcopy(H5T_STD_I32LE));
    H5Tset_precision(odd.get(), 17);
    write({{4, 12, 12}, {kDeflate}}, odd.get());
  }
  patch_chunk_extents({4, 12, 12, 4}, huge);
  EXPECT_THAT(told(DType::i32), HasSubstr("a chunk of more than 4 GiB"));
  write({{4, 12, 12}, {}});
  patch_chunk_extents({4, 12, 12, 4}, {4, 0, 12, 4});
  EXPECT_THAT(told(), HasSubstr("in the file: a layout of chunks without an extent on each axis"));
}

TEST_F(PatchedHdf5, AnArrayInOnePieceOutsideOfTheFileIsTold) {
  write({});
  uint64_t at = 0;
  {
    const hdf5::Lock lock;
    const hdf5::Dataset d = hdf5::File::open(path).open_dataset("raw");
    at = H5Dget_offset(d.id());
  }
  const uint64_t bytes = 1728 * 4;
  patch(u64s({at, bytes}), u64s({uint64_t{1} << 40, bytes}));
  EXPECT_THAT(told(), HasSubstr("its values begin at byte 1099511627776 of a file of " + size() +
                                ": truncated or damaged"));
  // Inside, but its end is not.
  patch(u64s({uint64_t{1} << 40, bytes}), u64s({at + 100, bytes}));
  EXPECT_THAT(told(), AllOf(HasSubstr("of the file, which ends at byte " + size()),
                            HasSubstr("it is truncated")));
}

// f16 as f32 is read by the library, which would copy from behind its buffers.
TEST_F(PatchedHdf5, WhatTheLibraryReadsIsLookedAtBefore) {
  const auto write_half = [&](const Form& form) {
    const hdf5::Lock lock;
    write(form, hdf5::detail::memory_type(DType::f16).get());
  };
  write_half({{4, 12, 12}, {kDeflate}});
  EXPECT_FALSE(
      is_direct(hdf5::File::open(path).open_dataset("raw"), {0, 0, 0}, {1, 1, 1}, DType::f32));
  patch_bytes({8, 0, 0}, 0x7fffffff);
  EXPECT_THAT(told(),
              HasSubstr("chunk at (8, 0, 0), 2147483647 bytes stored: more than the file's " +
                        size() + " bytes: truncated or damaged"));
  write_half({{4, 12, 12}, {kShuffle, kDeflate}});
  patch_bytes({8, 0, 0}, 40);
  EXPECT_THAT(told(), HasSubstr("chunk at (8, 0, 0), 40 bytes stored: the compressed data are "
                                "damaged (deflate: bad code or checksum)"));
  write_half({{4, 12, 12}, {}});
  patch_bytes({8, 0, 0}, 100);  // the driver sees the library read too few
  EXPECT_THAT(told(), HasSubstr("HDF5: "));
}

// The size of an element that a layout gives is not believed, by the library neither.
TEST_F(PatchedHdf5, AnotherSizeOfElementsInTheLayoutChangesNothing) {
  for (const DType type : {DType::f16, DType::f32})
    for (const uint32_t lie : {1, 16}) {
      const uint32_t bytes = static_cast<uint32_t>(size_of(type));
      const hdf5::Lock lock;
      write({{4, 12, 12}, {}}, hdf5::detail::memory_type(type).get());
      const Tensor before = hdf5::File::open(path).open_dataset("raw").read(DType::f32);
      patch_chunk_extents({4, 12, 12, bytes}, {4, 12, 12, lie});
      EXPECT_TRUE(same_bytes(hdf5::File::open(path).open_dataset("raw").read(DType::f32), before));
    }
}

TEST_F(PatchedHdf5, ExtentsThatNoFileHoldsAreTold) {
  write({});
  const uint64_t huge = uint64_t{1} << 60;
  patch(u64s({12, 12, 12, 12, 12, 12}), u64s({12, huge, 12, 12, huge, 12}));  // and their limits
  EXPECT_THAT(told(), HasSubstr("/raw' has an axis of 1152921504606846976 elements: the file is "
                                "damaged"));
}

TEST_F(PatchedHdf5, ExtentsBeyondWhatAHeaderHoldsAreTold) {
  {
    const hdf5::Lock lock;
    const hid_t compact = creation_list({});
    H5Pset_layout(compact, H5D_COMPACT);
    write_by_library(path, H5T_NATIVE_FLOAT, {8, 8, 7}, compact, numbers(448, 200));
  }
  patch(u64s({8, 8, 7, 8, 8, 7}), u64s({8, 8, 9, 8, 8, 9}));  // and their limits
  EXPECT_THAT(told(), HasSubstr("/raw' has 576 elements of 4 bytes, but 1792 bytes are stored: the "
                                "file is damaged"));
}

TEST(Hdf5Bytes, AReadThatTheSystemRefusesSaysWhy) {
  char to[4];
  EXPECT_THAT(message_of([&] { hdf5::detail::read_bytes(-1, 7, 4, to); }),
              HasSubstr("reading 4 bytes at byte 7 of the file: Bad file descriptor (errno 9)"));
}

TEST(Hdf5Bytes, AnArrayOfAFileWithoutAStateIsNotKept) {
  EXPECT_THAT(message_of([] {
                hdf5::detail::keep_stored("raw", std::make_shared<hdf5::detail::StoredArray>());
              }),
              HasSubstr("keeping 'raw' of a file without a state"));
}

}  // namespace
}  // namespace bora::data::test
