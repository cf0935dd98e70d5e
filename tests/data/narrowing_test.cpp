// SPDX-License-Identifier: Apache-2.0
// What is stored in another type than it is wanted in, read without the block twice in memory, and
// a block in pieces (rows 90, 91).
#include <gtest/gtest.h>

#include <numeric>

#include "core/memory_report.hpp"
#include "data/block_pieces.hpp"
#include "data/netcdf.hpp"
#include "tests/data/hdf5_known.hpp"

namespace bora::data::test {
namespace {

constexpr int64_t kMiB = int64_t{1} << 20;

/// Bytes of tensors that `read` has at most at one time, beside what was there before; the result
/// is among them.
template <class Read>
int64_t peak_of(Read&& read) {
  const int64_t before = memory_of(cpu()).live;
  reset_memory_peaks(cpu());
  read();
  return memory_of(cpu()).peak - before;
}

/// 128^3 cells: 8 MiB of f32.
constexpr int64_t kSide = 128, kBlock = 4 * kSide * kSide * kSide;
void write_field(const std::string& path, const std::string& type, bool is_netcdf,
                 const hdf5::Storage& storage) {
  Tensor values = Tensor::empty(Shape{kSide, kSide, kSide}, DType::f64);
  for (int64_t i = 0; i < values.numel(); ++i)
    values.data<double>()[i] = static_cast<double>(i % 1009) * (type == "f64" ? 1.1 : 1);
  if (is_netcdf) {
    NetcdfWriter out(path);
    for (const char* axis : {"x", "y", "z"}) out.dimension(axis, kSide);
    out.variable("raw", {"x", "y", "z"}, type == "f64" ? values : values.to(DType::i32), storage)
        .set_attribute("scale_factor", 0.5);
    out.close();
  } else {
    hdf5::File file = hdf5::File::create(path);
    file.create_dataset("raw", values.shape(), type, storage).write(values);
    file.close();
  }
}

TEST(Narrowing, F64AsF32TakesNoMoreThanTheF32) {
  TempFolder folder;
  const std::string path = folder.file("a.h5");
  for (const hdf5::Storage& storage :
       {hdf5::Storage{}, {.chunk = {32, 32, 32}, .deflate = 1}, {.chunk = {kSide, 64, 64}}}) {
    write_field(path, "f64", false, storage);
    for (const bool is_known : {false, true}) {  // without the library the second time
      if (is_known) make_old(path);
      open_volume({path, "raw", "xyz"});
      EXPECT_LT(peak_of([&] {
                  volume_box(path, {0, 0, 0}, {kSide, kSide, kSide});
                }),
                kBlock + kMiB);
    }
    const Tensor ours = volume_box(path, {3, 0, 5}, {60, 128, 7});
    EXPECT_TRUE(same_bytes(ours, library_box(path, {3, 0, 5}, {60, 128, 7})));
  }
}

TEST(Narrowing, UnpackingTakesLittleBesideItsResult) {
  TempFolder folder;
  const std::string path = folder.file("a.nc");
  for (const char* type : {"f64", "i32"})
    for (const hdf5::Storage& storage :
         {hdf5::Storage{}, {.chunk = {32, 64, 32}, .deflate = 1, .shuffle = true}}) {
      write_field(path, type, true, storage);
      const NetcdfFile file = NetcdfFile::open(path);
      const std::vector<int64_t> begin{0, 0, 0}, count{kSide, kSide, kSide};
      // A piece: 2 MiB as stored and at most as much as f32.
      EXPECT_LT(peak_of([&] { file.read_block("raw", begin, count, DType::f32); }),
                kBlock + 5 * kMiB)
          << type;
      const Tensor whole = file.read_block("raw", begin, count, DType::f32);
      const Tensor stored = file.hdf5().open_dataset("raw").read(DType::f64);
      for (int64_t i = 0; i < whole.numel(); ++i)
        ASSERT_EQ(whole.data<float>()[i], static_cast<float>(0.5 * stored.data<double>()[i])) << i;
    }
}

TEST(Narrowing, PiecesFillABlockOnceAndEndWhereChunksDo) {
  using Extents = std::vector<int64_t>;
  for (const Extents& chunk : {Extents{}, Extents{4, 3, 5}, Extents{100, 1, 2}})
    for (const int64_t most : {1, 7, 60, 1000})
      for (const auto& [begin, count] : {std::pair{Extents{0, 0, 0}, Extents{9, 8, 11}},
                                         {Extents{3, 2, 4}, Extents{6, 5, 6}},
                                         {Extents{3, 2, 4}, Extents{1, 1, 1}}}) {
        Tensor whole = Tensor::zeros(Shape{count[0], count[1], count[2]}, DType::i32);
        int64_t n_chunk = 1;
        for (size_t i = 0; i < chunk.size(); ++i) n_chunk *= std::min(chunk[i], count[i]);
        each_piece(begin, count, chunk, most, [&](const auto& at, const auto& size) {
          EXPECT_LE(size[0] * size[1] * size[2], std::max(most, n_chunk));
          std::vector<int64_t> place;
          for (size_t i = 0; i < 3; ++i) {
            place.push_back(at[i] - begin[i]);
            if (chunk.empty() || at[i] + size[i] == begin[i] + count[i]) continue;
            EXPECT_EQ((at[i] + size[i]) % chunk[i], 0) << "a chunk would be unpacked twice";
          }
          const Tensor before = whole.clone();
          put_piece(Tensor::full(Shape{size[0], size[1], size[2]}, 1.0, DType::i32), place, whole);
          int64_t n_new = 0;
          for (int64_t i = 0; i < whole.numel(); ++i)
            n_new += whole.data<int32_t>()[i] - before.data<int32_t>()[i];
          EXPECT_EQ(n_new, size[0] * size[1] * size[2]) << "a cell twice";
        });
        const std::vector<int32_t> all = whole.to_vector<int32_t>();
        EXPECT_EQ(std::accumulate(all.begin(), all.end(), int64_t{0}), whole.numel());
      }
  int n = 0;
  each_piece(Extents{1, 2}, Extents{3, 0}, {}, 5, [&](const auto&, const auto&) { ++n; });
  EXPECT_EQ(n, 0) << "a block without elements";
}

}  // namespace
}  // namespace bora::data::test
