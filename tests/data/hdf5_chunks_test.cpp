// SPDX-License-Identifier: Apache-2.0
// Reading past the library (rows 87, 90, 91): the same bits as H5Dread gives, for every layout,
// filter, type and byte order.
#include "data/hdf5_chunks.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <hdf5.h>

#include <fstream>

#include "tests/data/hdf5_by_library.hpp"

namespace bora::data::test {
namespace {

using ::testing::HasSubstr;

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

}  // namespace
}  // namespace bora::data::test
