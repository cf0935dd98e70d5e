// SPDX-License-Identifier: Apache-2.0
// Reading past the library (rows 87, 90, 91): the same bits as H5Dread gives, for every layout,
// filter, type and byte order; damage told with file, data set and chunk.
#include "data/hdf5_chunks.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <hdf5.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <random>
#include <thread>

#include "data/chunk_shape.hpp"
#include "tests/data/pipeline_support.hpp"

namespace bora::data::test {
namespace {

using hdf5::detail::DirectRead;
using hdf5::detail::memory_type;
using ::testing::AllOf;
using ::testing::HasSubstr;
using Extents = std::vector<int64_t>;

/// How a test's data set is stored; filters as HDF5's numbers in their order.
struct Form {
  Extents chunk;  // empty: in one piece
  std::vector<int> filters;
};

int64_t count_of(const Extents& e) {
  return std::accumulate(e.begin(), e.end(), int64_t{1}, std::multiplies<>());
}
std::vector<hsize_t> sizes(const Extents& e) { return {e.begin(), e.end()}; }

hid_t creation_list(const Form& form) {
  const hid_t list = H5Pcreate(H5P_DATASET_CREATE);
  if (!form.chunk.empty())
    H5Pset_chunk(list, static_cast<int>(form.chunk.size()), sizes(form.chunk).data());
  for (const int f : form.filters) {
    if (f == H5Z_FILTER_DEFLATE) H5Pset_deflate(list, 4);
    if (f == H5Z_FILTER_SHUFFLE) H5Pset_shuffle(list);
    if (f == H5Z_FILTER_FLETCHER32) H5Pset_fletcher32(list);
    if (f == H5Z_FILTER_SCALEOFFSET) H5Pset_scaleoffset(list, H5Z_SO_INT, 0);
  }
  return list;
}

/// Writes data set "raw" by the library alone: `values` are doubles, converted by it to `type`.
void write_by_library(const std::string& path, hid_t type, const Extents& extents, hid_t list,
                      const std::vector<double>& values, hid_t file_list = H5P_DEFAULT) {
  hdf5::Lock lock;
  const hid_t file = H5Fcreate(path.c_str(), H5F_ACC_TRUNC, file_list, H5P_DEFAULT);
  const hid_t space =
      H5Screate_simple(static_cast<int>(extents.size()), sizes(extents).data(), nullptr);
  const hid_t set = H5Dcreate2(file, "raw", type, space, H5P_DEFAULT, list, H5P_DEFAULT);
  ASSERT_GE(set, 0) << path;
  if (!values.empty()) {
    ASSERT_GE(H5Dwrite(set, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data()), 0);
  }
  H5Dclose(set);
  H5Sclose(space);
  H5Pclose(list);
  H5Fclose(file);
}

std::vector<double> numbers(int64_t n, int64_t limit, bool is_signed = false) {
  std::mt19937 random(static_cast<unsigned>(n));
  std::vector<double> v(static_cast<size_t>(n));
  for (double& x : v)  // runs of equal values, as masks have, and noise
    x = random() % 3 ? static_cast<double>(random() % static_cast<unsigned>(limit)) -
                           (is_signed ? static_cast<double>(limit / 2) : 0)
                     : 1;
  return v;
}

/// What the library gives for a block.
Tensor by_library(const hdf5::Dataset& d, const Extents& begin, const Extents& count, DType type) {
  hdf5::Lock lock;
  Shape shape;
  for (const int64_t c : count) shape = shape.append(c);
  Tensor out = Tensor::empty(shape, type);
  const hid_t space = H5Dget_space(d.id());
  const hid_t memory =
      H5Screate_simple(static_cast<int>(count.size()), sizes(count).data(), nullptr);
  H5Sselect_hyperslab(space, H5S_SELECT_SET, sizes(begin).data(), nullptr, sizes(count).data(),
                      nullptr);
  const hdf5::Id element = memory_type(type);
  EXPECT_GE(H5Dread(d.id(), element.get(), memory, space, H5P_DEFAULT, out.raw()), 0);
  H5Sclose(memory);
  H5Sclose(space);
  return out;
}

bool same_bytes(const Tensor& a, const Tensor& b) {
  return a.shape() == b.shape() && a.dtype() == b.dtype() &&
         std::memcmp(a.raw(), b.raw(), static_cast<size_t>(a.bytes())) == 0;
}

bool is_direct(const hdf5::Dataset& d, const Extents& begin, const Extents& count, DType type,
               std::string* why = nullptr) {
  hdf5::Lock lock;
  std::string reason;
  const auto plan = DirectRead::plan(d, d.extents(), begin, count, type, reason);
  if (why != nullptr) *why = reason;
  return plan != nullptr;
}

/// Compares the whole, single elements and random blocks, as every type of `types`.
void expect_as_library(const std::string& path, const std::vector<DType>& types, bool direct,
                       const std::string& what) {
  const hdf5::Dataset d = hdf5::File::open(path).open_dataset("raw");
  const Extents extents = d.extents();
  std::mt19937 random(7);
  for (const DType type : types)
    for (int round = 0; round < 5; ++round) {
      Extents begin(extents.size(), 0), count = extents;
      for (size_t i = 0; round > 0 && i < extents.size(); ++i) {
        begin[i] = static_cast<int64_t>(random()) % extents[i];
        count[i] = round == 1 ? 1 : 1 + static_cast<int64_t>(random()) % (extents[i] - begin[i]);
      }
      EXPECT_EQ(is_direct(d, begin, count, type), direct) << what;
      EXPECT_TRUE(same_bytes(d.read(begin, count, type), by_library(d, begin, count, type)))
          << what << " as " << type << ", round " << round;
    }
}

constexpr int kDeflate = H5Z_FILTER_DEFLATE, kShuffle = H5Z_FILTER_SHUFFLE,
              kFletcher = H5Z_FILTER_FLETCHER32;

std::string text_of(const Form& form) {
  std::string text = form.chunk.empty() ? "in one piece" : "chunks, filters";
  for (const int f : form.filters) text += " " + std::to_string(f);
  return text;
}

TEST(Hdf5Direct, EveryTypeAndByteOrderInEveryLayoutHasTheLibrarysBits) {
  TempFolder folder;
  const std::vector<Form> forms = {{},
                                   {{3, 4, 5}, {}},
                                   {{3, 4, 5}, {kDeflate}},
                                   {{3, 4, 5}, {kShuffle, kDeflate}},
                                   {{3, 4, 5}, {kFletcher}},
                                   {{3, 4, 5}, {kShuffle, kDeflate, kFletcher}},
                                   {{3, 4, 5}, {kFletcher, kDeflate, kShuffle}}};
  struct Type {
    hid_t id;
    std::vector<DType> as;
    int64_t limit;
    bool is_signed;
  };
  const std::vector<DType> all = {DType::u8, DType::i32, DType::i64, DType::f32, DType::f64};
  hdf5::Lock lock;  // opens the library, whose types are no constants
  const std::vector<Type> types = {{H5T_STD_I8LE, all, 100, false},
                                   {H5T_STD_U8BE, all, 256, false},
                                   {H5T_STD_I16LE, all, 200, false},
                                   {H5T_STD_I16BE, all, 200, false},
                                   {H5T_STD_U16BE, all, 250, false},
                                   {H5T_STD_I32LE, {DType::i32, DType::f64}, 1 << 30, true},
                                   {H5T_STD_I32BE, {DType::i64}, 1 << 30, true},
                                   {H5T_STD_U32BE, {DType::i64, DType::f64}, 1 << 30, false},
                                   {H5T_STD_I64BE, {DType::i64, DType::u8}, 200, false},
                                   {H5T_STD_U64LE, {DType::i64}, 1 << 30, false},
                                   {H5T_IEEE_F32LE, {DType::f32, DType::f64}, 1 << 20, true},
                                   {H5T_IEEE_F32BE, {DType::f32, DType::f64}, 1 << 20, true},
                                   {H5T_IEEE_F64LE, {DType::f64}, 1 << 20, true},
                                   {H5T_IEEE_F64BE, {DType::f64}, 1 << 20, true}};
  const Extents extents{7, 9, 11};
  for (size_t t = 0; t < types.size(); ++t)
    for (const Form& form : forms) {
      const std::string path = folder.file("t.h5");
      write_by_library(path, types[t].id, extents, creation_list(form),
                       numbers(count_of(extents), types[t].limit, types[t].is_signed));
      expect_as_library(path, types[t].as, true,
                        "type " + std::to_string(t) + ", " + text_of(form));
    }
}

TEST(Hdf5Direct, OneToFiveAxesWithOddExtentsHaveTheLibrarysBits) {
  TempFolder folder;
  const std::string path = folder.file("t.h5");
  hdf5::Lock lock;
  for (const auto& [extents, chunk] :
       std::vector<std::pair<Extents, Extents>>{{{1}, {1}},
                                                {{1001}, {64}},
                                                {{5000}, {5000}},
                                                {{33, 17}, {8, 32}},
                                                {{33, 17}, {33, 1}},
                                                {{8, 8, 8}, {4, 4, 4}},
                                                {{3, 5, 7, 2}, {2, 2, 7, 1}},
                                                {{2, 3, 4, 5, 6}, {1, 2, 3, 4, 5}}})
    for (const bool is_chunked : {false, true}) {
      Form form;
      if (is_chunked) form = {chunk, {kShuffle, kDeflate}};
      // A chunk larger than the extents is allowed only where they can grow.
      for (size_t i = 0; i < form.chunk.size(); ++i)
        form.chunk[i] = std::min(form.chunk[i], extents[i]);
      write_by_library(path, H5T_IEEE_F32LE, extents, creation_list(form),
                       numbers(count_of(extents), 1 << 20));
      expect_as_library(path, {DType::f32, DType::f64}, true, text_of(form));
    }
}

TEST(Hdf5Direct, LongRowsAndWideGapsOfOnePieceHaveTheLibrarysBits) {
  // More than the 128 KiB that are read at once, and rows further apart than 2 KiB.
  TempFolder folder;
  hdf5::Lock lock;
  for (const auto& [type, as] : std::vector<std::pair<hid_t, DType>>{{H5T_IEEE_F32LE, DType::f32},
                                                                     {H5T_IEEE_F32BE, DType::f32},
                                                                     {H5T_STD_I16LE, DType::f32}}) {
    for (const Extents& extents : {Extents{3, 50001}, Extents{40, 30, 700}}) {
      write_by_library(folder.file("t.h5"), type, extents, creation_list({}),
                       numbers(count_of(extents), 1000));
      expect_as_library(folder.file("t.h5"), {as}, true, "long rows");
    }
  }
}

TEST(Hdf5Direct, ManySmallChunksHaveTheLibrarysBits) {
  TempFolder folder;
  const Extents extents{40, 40, 40};
  write_by_library(folder.file("t.h5"), H5T_IEEE_F32LE, extents,
                   creation_list({{2, 2, 2}, {kShuffle, kDeflate}}), numbers(64000, 1 << 20));
  expect_as_library(folder.file("t.h5"), {DType::f32}, true, "small chunks");
  // Without filters the library does not say which were never written.
  write_by_library(folder.file("t.h5"), H5T_IEEE_F32LE, extents, creation_list({{2, 2, 2}, {}}),
                   numbers(64000, 1 << 20));
  expect_as_library(folder.file("t.h5"), {DType::f32}, false, "small chunks, no filter");
}

TEST(Hdf5Direct, WhatWasNeverWrittenIsTheFillValue) {
  TempFolder folder;
  const std::string path = folder.file("t.h5");
  for (const Form& form :
       {Form{{4, 4, 4}, {kShuffle, kDeflate}}, Form{{4, 4, 4}, {}}, Form{{1, 1, 1}, {kDeflate}}}) {
    {
      hdf5::Lock lock;
      const hid_t list = creation_list(form);
      const double fill = 42;
      H5Pset_fill_value(list, H5T_NATIVE_DOUBLE, &fill);
      write_by_library(path, H5T_STD_I16BE, {9, 9, 9}, list, {});
      const hid_t file = H5Fopen(path.c_str(), H5F_ACC_RDWR, H5P_DEFAULT);
      const hid_t set = H5Dopen2(file, "raw", H5P_DEFAULT), space = H5Dget_space(set);
      const std::vector<hsize_t> begin{4, 4, 4}, count{2, 2, 2};  // of one chunk
      H5Sselect_hyperslab(space, H5S_SELECT_SET, begin.data(), nullptr, count.data(), nullptr);
      const hid_t memory = H5Screate_simple(3, count.data(), nullptr);
      const std::vector<double> v(8, 7);
      ASSERT_GE(H5Dwrite(set, H5T_NATIVE_DOUBLE, memory, space, H5P_DEFAULT, v.data()), 0);
      H5Sclose(memory);
      H5Sclose(space);
      H5Dclose(set);
      H5Fclose(file);
    }
    expect_as_library(path, {DType::f32, DType::u8}, true, text_of(form));
    const Tensor all = hdf5::File::open(path).open_dataset("raw").read(DType::f32);
    EXPECT_EQ(all.data<float>()[0], 42);
    EXPECT_EQ(all.data<float>()[4 * 81 + 4 * 9 + 4], 7);
  }
}

TEST(Hdf5Direct, FiltersThatAChunkLeftOutAreLeftOut) {
  TempFolder folder;
  const std::string path = folder.file("t.h5");
  {
    hdf5::Lock lock;
    write_by_library(path, H5T_IEEE_F32LE, {8, 8, 8},
                     creation_list({{4, 8, 8}, {kShuffle, kDeflate}}), numbers(512, 1 << 20));
    const hid_t file = H5Fopen(path.c_str(), H5F_ACC_RDWR, H5P_DEFAULT);
    const hid_t set = H5Dopen2(file, "raw", H5P_DEFAULT);
    std::vector<float> plain(256);
    std::iota(plain.begin(), plain.end(), 0.5f);
    const std::vector<hsize_t> at{4, 0, 0};
    ASSERT_GE(
        H5Dwrite_chunk(set, H5P_DEFAULT, 3 /* neither filter */, at.data(), 1024, plain.data()), 0);
    H5Dclose(set);
    H5Fclose(file);
  }
  expect_as_library(path, {DType::f32}, true, "filter mask");
  const Tensor all = hdf5::File::open(path).open_dataset("raw").read();
  EXPECT_EQ(all.data<float>()[256], 0.5f);
  EXPECT_EQ(all.data<float>()[511], 255.5f);
}

TEST(Hdf5Direct, WhatItCannotReadGoesTheLibrarysWayAndSaysWhy) {
  TempFolder folder;
  const std::string path = folder.file("t.h5");
  const std::vector<double> v = numbers(512, 100);
  const auto expect = [&](const char* reason) {
    expect_as_library(path, {DType::i32}, false, reason);
    std::string why;
    const hdf5::Dataset d = hdf5::File::open(path).open_dataset("raw");
    is_direct(d, {0, 0, 0}, {8, 8, 8}, DType::i32, &why);
    EXPECT_THAT(why, HasSubstr(reason));
  };
  hdf5::Lock lock;
  write_by_library(path, H5T_STD_I32LE, {8, 8, 8},
                   creation_list({{4, 4, 4}, {H5Z_FILTER_SCALEOFFSET}}), v);
  expect("filter 6");
  const hid_t compact = creation_list({});
  H5Pset_layout(compact, H5D_COMPACT);
  write_by_library(path, H5T_STD_I32LE, {8, 8, 8}, compact, v);
  expect("compact");
  const hid_t edge = creation_list({{5, 5, 5}, {kDeflate}});
  H5Pset_chunk_opts(edge, H5D_CHUNK_DONT_FILTER_PARTIAL_CHUNKS);
  write_by_library(path, H5T_STD_I32LE, {8, 8, 8}, edge, v);
  expect("edge");
  write_by_library(path, H5T_STD_I32LE, {8, 8, 8}, creation_list({}), {});
  expect("nothing was written");
  const hid_t external = creation_list({});
  std::ofstream(folder.file("x.bin")) << std::string(4096, 'a');
  H5Pset_external(external, folder.file("x.bin").c_str(), 0, 2048);
  write_by_library(path, H5T_STD_I32LE, {8, 8, 8}, external, v);
  expect("external");
  const hid_t block = H5Pcreate(H5P_FILE_CREATE);
  H5Pset_userblock(block, 512);
  write_by_library(path, H5T_STD_I32LE, {8, 8, 8}, creation_list({{4, 4, 4}, {kDeflate}}), v,
                   block);
  expect("user block");
  // In one piece a user block is no hindrance.
  write_by_library(path, H5T_STD_I32LE, {8, 8, 8}, creation_list({}), v, block);
  expect_as_library(path, {DType::i32}, true, "user block");
  H5Pclose(block);
  const hid_t odd = H5Tcopy(H5T_STD_I32LE);
  H5Tset_precision(odd, 17);
  write_by_library(path, odd, {8, 8, 8}, creation_list({}), v);
  expect("unusual type");
  H5Tclose(odd);
}

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

/// Address and stored bytes of a chunk.
std::pair<int64_t, int64_t> place_of_chunk(const std::string& path, const Extents& first) {
  hdf5::Lock lock;
  const hdf5::Dataset d = hdf5::File::open(path).open_dataset("raw");
  unsigned mask = 0;
  haddr_t at = 0;
  hsize_t bytes = 0;
  EXPECT_GE(H5Dget_chunk_info_by_coord(d.id(), sizes(first).data(), &mask, &at, &bytes), 0);
  return {static_cast<int64_t>(at), static_cast<int64_t>(bytes)};
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

TEST(ChunkShape, ChunksFitThePatchTheGridAndTheirSize) {
  EXPECT_EQ(chunk_for_patch({256, 256, 256}, {64, 64, 64}, 4), (Dims3{32, 32, 32}));
  EXPECT_EQ(chunk_for_patch({256, 256, 256}, {256, 256, 256}, 4), (Dims3{64, 64, 64}));
  EXPECT_EQ(chunk_for_patch({20, 5, 256}, {64, 64, 1}, 4), (Dims3{20, 5, 8}));
  EXPECT_EQ(chunk_for_patch({256, 256, 256}, {4, 4, 4}, 8), (Dims3{8, 8, 8}));
}

}  // namespace
}  // namespace bora::data::test
