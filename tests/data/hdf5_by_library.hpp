// SPDX-License-Identifier: Apache-2.0
// Data sets written and read by the HDF5 library alone, to hold what is read past it against.
#pragma once

#include <gtest/gtest.h>
#include <hdf5.h>

#include <cstring>
#include <functional>
#include <numeric>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "data/hdf5_chunks.hpp"
#include "tests/data/pipeline_support.hpp"

namespace bora::data::test {

using hdf5::detail::DirectRead;
using hdf5::detail::memory_type;
using Extents = std::vector<int64_t>;

/// How a test's data set is stored; filters as HDF5's numbers in their order.
struct Form {
  Extents chunk;  // empty: in one piece
  std::vector<int> filters;
};

inline int64_t count_of(const Extents& e) {
  return std::accumulate(e.begin(), e.end(), int64_t{1}, std::multiplies<>());
}
inline std::vector<hsize_t> sizes(const Extents& e) { return {e.begin(), e.end()}; }

inline hid_t creation_list(const Form& form) {
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
inline void write_by_library(const std::string& path, hid_t type, const Extents& extents,
                             hid_t list, const std::vector<double>& values,
                             hid_t file_list = H5P_DEFAULT) {
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

inline std::vector<double> numbers(int64_t n, int64_t limit, bool is_signed = false) {
  std::mt19937 random(static_cast<unsigned>(n));
  std::vector<double> v(static_cast<size_t>(n));
  for (double& x : v)  // runs of equal values, as masks have, and noise
    x = random() % 3 ? static_cast<double>(random() % static_cast<unsigned>(limit)) -
                           (is_signed ? static_cast<double>(limit / 2) : 0)
                     : 1;
  return v;
}

/// What the library gives for a block.
inline Tensor by_library(const hdf5::Dataset& d, const Extents& begin, const Extents& count,
                         DType type) {
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

/// Address and stored bytes of a chunk of "raw".
inline std::pair<int64_t, int64_t> place_of_chunk(const std::string& path, const Extents& first) {
  hdf5::Lock lock;
  const hdf5::Dataset d = hdf5::File::open(path).open_dataset("raw");
  unsigned mask = 0;
  haddr_t at = 0;
  hsize_t bytes = 0;
  EXPECT_GE(H5Dget_chunk_info_by_coord(d.id(), sizes(first).data(), &mask, &at, &bytes), 0);
  return {static_cast<int64_t>(at), static_cast<int64_t>(bytes)};
}

inline bool same_bytes(const Tensor& a, const Tensor& b) {
  return a.shape() == b.shape() && a.dtype() == b.dtype() &&
         std::memcmp(a.raw(), b.raw(), static_cast<size_t>(a.bytes())) == 0;
}

inline bool is_direct(const hdf5::Dataset& d, const Extents& begin, const Extents& count,
                      DType type, std::string* why = nullptr) {
  hdf5::Lock lock;
  std::string reason;
  const auto plan = DirectRead::plan(d, d.extents(), begin, count, type, reason);
  if (why != nullptr) *why = reason;
  return plan != nullptr;
}

/// Compares the whole, single elements and random blocks, as every type of `types`.
inline void expect_as_library(const std::string& path, const std::vector<DType>& types, bool direct,
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

inline constexpr int kDeflate = H5Z_FILTER_DEFLATE, kShuffle = H5Z_FILTER_SHUFFLE,
                     kFletcher = H5Z_FILTER_FLETCHER32;

inline std::string text_of(const Form& form) {
  std::string text = form.chunk.empty() ? "in one piece" : "chunks, filters";
  for (const int f : form.filters) text += " " + std::to_string(f);
  return text;
}

}  // namespace bora::data::test
