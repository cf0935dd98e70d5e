// SPDX-License-Identifier: Apache-2.0
// Files that are written slab by slab on another file's grid, and what a full disk does to them
// (feature 114).
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>

#include "core/rng.hpp"
#include "data/netcdf.hpp"
#include "tests/data/pipeline_support.hpp"

namespace bora::data::test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr int64_t kX = 11, kY = 6, kZ = 5;

Tensor noise(const Shape& shape) {
  const RngKey key{3, 5};
  Tensor t = Tensor::empty(shape, DType::f32);
  for (int64_t i = 0; i < t.numel(); ++i)
    t.data<float>()[i] = static_cast<float>(key.normal(static_cast<uint64_t>(i)));
  return t;
}

/// A file whose variable "mask" has axes in that order.
void write_source(const std::string& path, const std::vector<std::string>& order,
                  const hdf5::Storage& storage) {
  NetcdfWriter out(path);
  Shape shape;
  for (const std::string& axis : order) {
    const int64_t n = axis == "x" ? kX : axis == "y" ? kY : kZ;
    out.dimension(axis, n);
    shape = shape.append(n);
  }
  out.variable("mask", order, Tensor::zeros(shape, DType::u8), storage).set_attribute("units", "1");
  out.close();
}

NetcdfLike like(const std::string& source) {
  return {.file = source, .variable = "mask", .axes = {"x", "y", "z"}, .name = "wind"};
}

// Slabs of any thickness, whatever the chunks and the order of the axes, give the file that one
// piece gives.
TEST(NetcdfLike, SlabsOfAnyThicknessGiveTheWhole) {
  const TempFolder folder;
  const Tensor values = noise(Shape{kX, kY, kZ});
  const hdf5::Storage kStorages[] = {
      {},
      {.chunk = {4, 4, 4}, .deflate = 3, .shuffle = true, .fletcher32 = true},
      {.chunk = {100, 100, 100}, .deflate = 1},
      {.chunk = {1, 2, 5}}};
  for (const hdf5::Storage& storage : kStorages)
    for (const std::vector<std::string>& order :
         {std::vector<std::string>{"x", "y", "z"}, {"z", "y", "x"}, {"y", "x", "z"}}) {
      write_source(folder.file("source.nc"), order, storage);
      const NetcdfLike wanted = like(folder.file("source.nc"));
      {
        NetcdfLikeWriter out(folder.file("whole.nc"), wanted);
        out.write(values);
        out.close();
      }
      const std::string whole = read_file(folder.file("whole.nc"));
      const NetcdfFile found = NetcdfFile::open(folder.file("whole.nc"));
      EXPECT_EQ(found.read("wind", {"x", "y", "z"}, {}).to_vector<float>(),
                values.to_vector<float>());
      EXPECT_EQ(found.info("wind").dimensions, order);
      // As the input is stored.
      const hdf5::Storage kept = found.hdf5().open_dataset("wind").storage();
      const hdf5::Storage source =
          NetcdfFile::open(folder.file("source.nc")).hdf5().open_dataset("mask").storage();
      EXPECT_EQ(kept.chunk, source.chunk);
      EXPECT_EQ(kept.deflate, storage.deflate);
      EXPECT_EQ(kept.shuffle, storage.shuffle);
      EXPECT_EQ(kept.fletcher32, storage.fletcher32);
      for (const int64_t thickness : {1, 3, 4, 7, 11}) {
        NetcdfLikeWriter out(folder.file("slabs.nc"), wanted);
        for (int64_t x = 0; x < kX; x += thickness)
          out.write(values.rows(x, std::min(x + thickness, kX)));
        out.close();
        EXPECT_EQ(NetcdfFile::open(folder.file("slabs.nc"))
                      .read("wind", {"x", "y", "z"}, {})
                      .to_vector<float>(),
                  values.to_vector<float>())
            << thickness;
      }
    }
}

TEST(NetcdfLike, ItsOwnAttributesReplaceThoseOfTheOther) {
  const TempFolder folder;
  write_source(folder.file("source.nc"), {"x", "y", "z"}, {});
  NetcdfLike wanted = like(folder.file("source.nc"));
  const auto units = [&] {
    NetcdfLikeWriter out(folder.file("out.nc"), wanted);
    out.write(noise(out.shape()));
    out.close();
    return NetcdfFile::open(folder.file("out.nc")).info("wind").units;
  };
  EXPECT_EQ(units(), "1");
  wanted.variable_attributes = {{"units", "m s-1"}};
  EXPECT_EQ(units(), "m s-1");
}

TEST(NetcdfLike, AnUnfinishedFileIsRefusedAndGoes) {
  const TempFolder folder;
  write_source(folder.file("source.nc"), {"x", "y", "z"}, {.chunk = {4, 4, 4}});
  {
    NetcdfLikeWriter out(folder.file("out.nc"), like(folder.file("source.nc")));
    const Tensor values = noise(Shape{kX, kY, kZ});
    out.write(values.rows(0, 5));
    EXPECT_THAT(message_of([&] { out.close(); }), HasSubstr("of 11 planes"));
    EXPECT_THAT(message_of([&] { out.write(values); }), HasSubstr("11 planes behind 5 of 11"));
    EXPECT_THAT(message_of([&] {
                  out.write(noise(Shape{1, kY, kZ + 1}));
                }),
                HasSubstr("a slab of shape"));
  }
  EXPECT_EQ(folder.n_files(), 1);
}

/// Runs `body` in a process whose files may have so many bytes, as on a disk that is full then; its
/// exit code.  HDF5's own handler at exit runs, too.
template <class Body>
int in_a_child_with_a_full_disk(rlim_t bytes, Body body) {
  const pid_t child = ::fork();
  if (child == 0) {
    std::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{bytes, bytes};
    if (::setrlimit(RLIMIT_FSIZE, &limit) != 0) std::exit(90);
    std::exit(body());
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 200 + WTERMSIG(status);
}

// The library cannot close a file that it could not write: it crashes at exit.  With a driver of
// ours it does not know.  Bytes at which the disk is full: in the first chunk, in a later one, in
// what is written at the end.
TEST(NetcdfLike, AFullDiskIsToldAndLeavesNothingBehind) {
  const TempFolder folder;
  // Incompressible, of about 200 kB.
  {
    NetcdfWriter out(folder.file("source.nc"));
    out.dimension("x", 64), out.dimension("y", 32), out.dimension("z", 32);
    out.variable("mask", {"x", "y", "z"}, Tensor::zeros(Shape{64, 32, 32}, DType::u8),
                 {.chunk = {8, 32, 32}, .deflate = 1});
    out.close();
  }
  const Tensor values = noise(Shape{64, 32, 32});
  const auto write = [&] {
    NetcdfLikeWriter out(folder.file("out.nc"), like(folder.file("source.nc")));
    out.write(values);
    out.close();
  };
  write();
  const auto size = static_cast<int64_t>(std::filesystem::file_size(folder.file("out.nc")));
  std::filesystem::remove(folder.file("out.nc"));
  ASSERT_GT(size, 150000);
  for (const int64_t limit : {int64_t{0}, int64_t{1000}, int64_t{60000}, size - 1000, size - 1}) {
    const int code = in_a_child_with_a_full_disk(static_cast<rlim_t>(limit), [&] {
      for (int i = 0; i < 2; ++i) {  // the library goes on working
        const std::string text = message_of([&] { write(); });
        if (text.find("out.nc") == text.npos || text.find("File too large") == text.npos) return 1;
        if (folder.n_files() != 1) return 2;
        // Reading still works.
        NetcdfFile::open(folder.file("source.nc")).read("mask", {"x", "y", "z"}, {});
      }
      return 0;
    });
    EXPECT_EQ(code, 0) << limit << " of " << size << " bytes";
    EXPECT_EQ(folder.n_files(), 1) << limit;
  }
  // Enough room: as ever.
  EXPECT_EQ(in_a_child_with_a_full_disk(static_cast<rlim_t>(size),
                                        [&] {
                                          write();
                                          return 0;
                                        }),
            0);
  EXPECT_EQ(folder.n_files(), 2);
}

}  // namespace
}  // namespace bora::data::test
