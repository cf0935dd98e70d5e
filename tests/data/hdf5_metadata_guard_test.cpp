// SPDX-License-Identifier: Apache-2.0
// What the reader's driver refuses to hand to the HDF5 library (rows 87, 90), by bytes as the "HDF5
// File Format Specification" gives them, and by files that libFuzzer found.
#include "data/hdf5_metadata_guard.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "core/error.hpp"
#include "data/hdf5.hpp"
#include "data/hdf5_volume.hpp"
#include "tests/support/message_of.hpp"

namespace bora::data::test {
namespace {

using bora::testing::message_of;
using hdf5::detail::MetadataGuard;
using Part = MetadataGuard::Part;
using Bytes = std::vector<unsigned char>;
constexpr uint64_t kFileBytes = 100000;

void put(Bytes& bytes, uint64_t value, int n_bytes) {
  for (int i = 0; i < n_bytes; ++i) bytes.push_back(static_cast<unsigned char>(value >> (8 * i)));
}
void put(Bytes& bytes, const std::string& text) {
  bytes.insert(bytes.end(), text.begin(), text.end());
}

bool takes(MetadataGuard& guard, Part part, Bytes& bytes, uint64_t at = 0, uint64_t base = 0) {
  return guard.takes(part, at, bytes.data(), bytes.size(), base);
}
bool takes(Part part, Bytes bytes) {
  MetadataGuard guard(-1, kFileBytes);
  return takes(guard, part, bytes);
}

/// An old object header with one message of a type, padded as writers do.
Bytes header(unsigned type, Bytes message, unsigned flags = 0) {
  message.resize((message.size() + 7) / 8 * 8);
  Bytes b{1, 0, 1, 0, 1, 0, 0, 0};
  put(b, message.size() + 8, 4);
  put(b, 0, 4);
  put(b, type, 2);
  put(b, message.size(), 2);
  put(b, flags, 4);
  b.insert(b.end(), message.begin(), message.end());
  return b;
}

struct FilterText {
  std::string name;  // as stored, with its zeros
  unsigned n_values = 1;
};
Bytes filters(const std::vector<FilterText>& of, unsigned version = 1, unsigned id = 300) {
  Bytes b;
  put(b, version, 1);
  put(b, of.size(), 1);
  if (version == 1) put(b, 0, 6);
  for (const FilterText& f : of) {
    put(b, id, 2);
    if (version == 1 || id >= 256) put(b, f.name.size(), 2);
    put(b, 0, 2);
    put(b, f.n_values, 2);
    put(b, f.name);
    for (unsigned i = 0; i < f.n_values; ++i) put(b, 7, 4);
    if (version == 1 && f.n_values % 2 != 0) put(b, 0, 4);
  }
  return b;
}

constexpr unsigned kFilters = 11, kContinuation = 16;
const std::string kName("deflate\0", 8), kEndless("deflates");

TEST(Hdf5MetadataGuard, FiltersWhoseNameEndsAreTaken) {
  EXPECT_TRUE(takes(Part::header, header(kFilters, filters({{kName}}))));
  EXPECT_TRUE(takes(Part::header, header(kFilters, filters({{kName, 2}, {kName, 3}, {"", 0}}))));
  EXPECT_TRUE(takes(Part::header, header(kFilters, filters({{kName, 2}, {kName}}, 2))));
  EXPECT_TRUE(takes(Part::header, header(kFilters, filters({{"", 1}, {"", 4}}, 2, 1))));
  EXPECT_TRUE(takes(Part::header, header(kFilters, filters({}))));
}

TEST(Hdf5MetadataGuard, FiltersWhoseNameHasNoEndAreRefused) {
  EXPECT_FALSE(takes(Part::header, header(kFilters, filters({{kEndless}}))));
  EXPECT_FALSE(takes(Part::header, header(kFilters, filters({{kName}, {kEndless, 2}}))));
  EXPECT_FALSE(takes(Part::header, header(kFilters, filters({{kEndless}}, 2))));
  // Shared ones are elsewhere.
  EXPECT_TRUE(takes(Part::header, header(kFilters, filters({{kEndless}}), 2)));
}

TEST(Hdf5MetadataGuard, FiltersThatAMessageDoesNotHoldAreRefused) {
  Bytes more = filters({{kName, 2}});
  more[1] = 2;  // filters
  EXPECT_FALSE(takes(Part::header, header(kFilters, more)));
  Bytes values = filters({{kName, 2}});
  values[14] = 200;
  EXPECT_FALSE(takes(Part::header, header(kFilters, values)));
  Bytes name = filters({{kName, 2}});
  name[10] = 240;
  EXPECT_FALSE(takes(Part::header, header(kFilters, name)));
  EXPECT_FALSE(takes(Part::header, header(kFilters, {})));
}

TEST(Hdf5MetadataGuard, ChunksWithoutAnExtentAreRefused) {
  constexpr unsigned kLayout = 8;
  const auto layout = [](unsigned version, const std::vector<uint64_t>& extents,
                         unsigned kind = 2) {
    Bytes b;
    const auto n = extents.size();
    put(b, version, 1);
    if (version < 3) put(b, n | kind << 8, 7);
    if (version >= 3) put(b, kind, 1);
    if (version == 3) put(b, n, 1);
    if (version == 4) put(b, n << 8 | 2 << 16, 3);  // flags, axes, bytes of an extent
    if (version < 4) put(b, 4096, 8);
    for (const uint64_t e : extents) put(b, e, version == 4 ? 2 : 4);
    return header(kLayout, b);
  };
  for (const unsigned version : {1, 2, 3, 4}) {
    SCOPED_TRACE(version);
    EXPECT_TRUE(takes(Part::header, layout(version, {1, 3, 2, 4})));
    EXPECT_FALSE(takes(Part::header, layout(version, {1, 0, 2, 4})));
    EXPECT_FALSE(takes(Part::header, layout(version, {1, 3, 2, 0})));
    EXPECT_FALSE(takes(Part::header, layout(version, {4})));
    EXPECT_FALSE(takes(Part::header, layout(version, {})));
    EXPECT_TRUE(takes(Part::header, layout(version, {0, 0}, 1)));  // in one piece: other fields
    EXPECT_FALSE(
        takes(Part::header, header(kLayout, {static_cast<unsigned char>(version), 2, 2, 2})));
  }
  Bytes cut = layout(3, {1, 3, 2, 4});
  cut[26] = 40;  // axes
  EXPECT_FALSE(takes(Part::header, cut));
}

// Read right behind a header of which it is no rest.
TEST(Hdf5MetadataGuard, MessagesRightBehindAnotherHeaderAreJudged) {
  for (const bool is_sound : {true, false}) {
    MetadataGuard guard(-1, kFileBytes);
    Bytes whole = header(kFilters, filters({{kName}})),
          more = header(kFilters, filters({{is_sound ? kName : kEndless}}));
    Bytes continuation(more.begin() + 16, more.end());
    EXPECT_TRUE(takes(guard, Part::header, whole, 1000));
    EXPECT_EQ(takes(guard, Part::header, continuation, 1000 + whole.size()), is_sound);
  }
}

TEST(Hdf5MetadataGuard, AContinuationLongerThanTheFileIsRefused) {
  const auto continuation = [](uint64_t bytes) {
    Bytes b;
    put(b, 4096, 8);
    put(b, bytes, 8);
    return header(kContinuation, b);
  };
  EXPECT_TRUE(takes(Part::header, continuation(104)));
  EXPECT_TRUE(takes(Part::header, continuation(kFileBytes)));
  EXPECT_FALSE(takes(Part::header, continuation(kFileBytes + 1)));
  EXPECT_FALSE(takes(Part::header, continuation(uint64_t{16} << 30)));
  Bytes cut;
  put(cut, 4096, 8);
  EXPECT_FALSE(takes(Part::header, header(kContinuation, cut)));
}

TEST(Hdf5MetadataGuard, NumbersOfFourBytesAreReadAsTheSuperblockSays) {
  for (const unsigned version : {0u, 2u}) {
    Bytes superblock{0x89, 'H', 'D', 'F', '\r', '\n', 0x1a, '\n'};
    put(superblock, version, 1);
    if (version == 0) put(superblock, 0, 4);
    put(superblock, 0x0404, 2);
    superblock.resize(16);
    Bytes message;
    put(message, 4096, 4);
    put(message, kFileBytes + 1, 4);
    Bytes sound;
    put(sound, 4096, 4);
    put(sound, 104, 4);
    MetadataGuard guard(-1, kFileBytes);
    EXPECT_TRUE(takes(guard, Part::superblock, superblock));
    Bytes a = header(kContinuation, message), b = header(kContinuation, sound);
    EXPECT_FALSE(takes(guard, Part::header, a, 1000)) << version;
    EXPECT_TRUE(takes(guard, Part::header, b, 3000)) << version;
  }
}

/// The head of a local heap of `size` bytes at `data`; behind it 'x' up to n bytes in all.
Bytes local_heap(uint64_t size, uint64_t data, size_t n) {
  Bytes b{'H', 'E', 'A', 'P', 0, 0, 0, 0};
  put(b, size, 8);
  put(b, 1, 8);
  put(b, data, 8);
  b.resize(n, 'x');
  return b;
}
std::vector<size_t> zeros(const Bytes& b, size_t from) {
  std::vector<size_t> where;
  for (size_t i = from; i < b.size(); ++i)
    if (b[i] == 0) where.push_back(i);
  return where;
}
using ::testing::ElementsAre;

TEST(Hdf5MetadataGuard, NamesOfALocalHeapEndInIt) {
  MetadataGuard guard(-1, kFileBytes);
  Bytes both = local_heap(88, 732, 512);  // data right behind the head, which is at 700
  EXPECT_TRUE(takes(guard, Part::local_heap, both, 700));
  EXPECT_THAT(zeros(both, 32), ElementsAre(32 + 87));

  Bytes head = local_heap(600, 5032, 512);  // the rest is read next
  EXPECT_TRUE(takes(guard, Part::local_heap, head, 5000));
  EXPECT_THAT(zeros(head, 32), ElementsAre());
  Bytes rest(120, 'x');
  EXPECT_TRUE(takes(guard, Part::local_heap, rest, 5512));
  EXPECT_THAT(zeros(rest, 0), ElementsAre(119));
}

TEST(Hdf5MetadataGuard, ALocalHeapLargerThanTheFileIsRefused) {
  EXPECT_TRUE(takes(Part::local_heap, local_heap(kFileBytes, 732, 512)));
  EXPECT_FALSE(takes(Part::local_heap, local_heap(kFileBytes + 1, 732, 512)));
}

TEST(Hdf5MetadataGuard, NamesOfALocalHeapEndWhereverItsDataAre) {
  MetadataGuard guard(-1, kFileBytes);
  Bytes one = local_heap(64, 9000, 32), other = local_heap(128, 12000, 32);
  EXPECT_TRUE(takes(guard, Part::local_heap, one, 700, 512));
  EXPECT_TRUE(takes(guard, Part::local_heap, other, 1700, 512));
  Bytes data(64, 'x'), again(128, 'x');  // 512: what stands before the HDF5 part of the file
  EXPECT_TRUE(takes(guard, Part::local_heap, data, 9512, 512));
  EXPECT_TRUE(takes(guard, Part::local_heap, again, 12512, 512));
  EXPECT_THAT(zeros(data, 0), ElementsAre(63));
  EXPECT_THAT(zeros(again, 0), ElementsAre(127));
}

/// A node of an old index of chunks: `sizes` are stored; k pairs of entries fit.
Bytes index(const std::vector<uint64_t>& sizes, size_t axes, size_t k, unsigned level = 0) {
  Bytes b{'T', 'R', 'E', 'E', 1, static_cast<unsigned char>(level)};
  put(b, sizes.size(), 2);
  put(b, UINT64_MAX, 8);
  put(b, UINT64_MAX, 8);
  for (size_t i = 0; i <= sizes.size(); ++i) {
    put(b, i < sizes.size() ? sizes[i] : 0, 4);  // the last key is only where all end
    put(b, 0, 4);
    for (size_t a = 0; a + 1 < axes; ++a) put(b, i, 8);
    put(b, 0, 8);
    if (i < sizes.size()) put(b, 4096, 8);
  }
  b.resize(24 + 16 * k + (2 * k + 1) * (8 + 8 * axes));
  return b;
}

TEST(Hdf5MetadataGuard, ChunksOfNoBytesAndOfMoreThanTheFileHasAreRefused) {
  for (const size_t axes : {2, 3, 4, 5, 8})
    for (const size_t k : {32, 1, 5, 64}) {
      SCOPED_TRACE("axes " + std::to_string(axes) + ", k " + std::to_string(k));
      EXPECT_TRUE(takes(Part::index, index({21, 22}, axes, k)));
      EXPECT_TRUE(takes(Part::index, index({}, axes, k)));
      if (k == 32) {  // as nearly all files have it; others may be read with other axes
        EXPECT_FALSE(takes(Part::index, index({0, 22}, axes, k)));
        EXPECT_FALSE(takes(Part::index, index({21, 0}, axes, k)));
        EXPECT_TRUE(takes(Part::index, index({kFileBytes, 22}, axes, k)));
        EXPECT_FALSE(takes(Part::index, index({21, kFileBytes + 1}, axes, k)));
      }
      EXPECT_TRUE(takes(Part::index, index({21, 0}, axes, k, 1)));  // keys of nodes, not of chunks
    }
  Bytes group = index({0, 0}, 4, 32);
  group[4] = 0;  // of the names of a group
  EXPECT_TRUE(takes(Part::index, group));
}

// Their values would be fill values, without a word.
TEST(Hdf5MetadataGuard, ChunksThatWouldNotBeFoundAreRefused) {
  constexpr size_t kKey = 40, kEntry = kKey + 8, kHead = 24;  // 3 axes and the element
  const auto with = [&](size_t byte, unsigned char value) {
    Bytes b = index({21, 22, 23}, 4, 32);
    b[byte] = value;
    return takes(Part::index, b);
  };
  EXPECT_TRUE(with(kHead + kEntry + 8, 1));       // as it was
  EXPECT_FALSE(with(kHead + kEntry + 8, 3));      // behind the third
  EXPECT_FALSE(with(kHead + kEntry + 8 + 1, 1));  // far behind
  EXPECT_FALSE(with(kHead + kEntry + 32, 4));     // inside an element
  Bytes b = index({21, 22, 23}, 4, 32);
  std::fill_n(b.begin() + kHead + kEntry + kKey, 8, 0xff);
  EXPECT_FALSE(takes(Part::index, b));
}

/// What opening and reading "raw" and "label" say, in turn; empty: nothing.
std::vector<std::string> messages_of(const std::string& path) {
  std::vector<std::string> all;
  for (const char* variable : {"raw", "label"})
    all.push_back(message_of([&] {
      const auto volume = open_hdf5_volume({path, variable, ""});
      volume->read({0, 0, 0}, volume->info().grid, DType::f32);
    }));
  return all;
}

// Each reads behind a buffer of the library, or takes 16 GiB, without the guard.
TEST(Hdf5MetadataGuard, FilesThatAFuzzerFoundAreRefusedByName) {
  for (const char* name :
       {"chunk_of_no_bytes.h5", "filter_name_without_end.h5", "filter_name_behind_a_header.h5",
        "filter_twice.h5", "filter_without_parameters.h5", "filters_left_out.h5",
        "names_of_16_gib.h5", "continuation_of_16_gib.h5", "link_name_without_end.h5"}) {
    const std::string path = std::string("tests/fuzz/corpus/hdf5_volume/") + name;
    const std::vector<std::string> messages = messages_of(path);
    EXPECT_THAT(messages, ::testing::Contains(::testing::HasSubstr(path))) << name;
  }
}

// By their attributes: a text that its heap does not have, space of no bytes that is walked over.
TEST(Hdf5MetadataGuard, HeapsThatHaveNotWhatIsWantedAreTold) {
  for (const char* name : {"text_not_in_its_heap.h5", "heap_without_end.h5"}) {
    const std::string path = std::string("tests/fuzz/corpus/hdf5_volume/") + name;
    EXPECT_THAT(message_of([&] {
                  const hdf5::File file = hdf5::File::open(path);
                  const hdf5::Dataset raw = file.open_dataset("raw");
                  for (const hdf5::Object* object : {static_cast<const hdf5::Object*>(&file),
                                                     static_cast<const hdf5::Object*>(&raw)})
                    for (const std::string& a : object->attribute_names())
                      if (object->attribute_type(a).kind == hdf5::TypeInfo::Kind::text)
                        object->attribute<std::vector<std::string>>(a);
                }),
                ::testing::AllOf(::testing::HasSubstr(path), ::testing::HasSubstr("heap")));
  }
}

// A link to itself leads nowhere, and does not hide what stands beside it.
TEST(Hdf5MetadataGuard, ALinkToItselfIsLeftAlone) {
  const std::string path = "tests/fuzz/corpus/hdf5_volume/link_to_itself.h5";
  const hdf5::File file = hdf5::File::open(path);
  EXPECT_FALSE(file.exists("loop"));
  EXPECT_EQ(open_hdf5_volume({path, "", ""})->info().grid, (Dims3{2, 2, 2}));
}

// A read that fails leaves what it wanted to read in a buffer of the library's ("data sieve"),
// which the next read took for the file's values.
TEST(Hdf5MetadataGuard, AReadThatFailedFailsAgain) {
  const std::string path = "tests/fuzz/corpus/hdf5_volume/values_behind_the_end.h5";
  const auto volume = open_hdf5_volume({path, "raw", ""});
  for (int i = 0; i < 3; ++i)
    EXPECT_THAT(message_of([&] {
                  volume->read({0, 0, 0}, volume->info().grid, DType::f32);
                }),
                ::testing::HasSubstr(path))
        << i;
}

}  // namespace
}  // namespace bora::data::test
