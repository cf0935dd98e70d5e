// SPDX-License-Identifier: Apache-2.0
// Row 91: a file that takes another's name while that one is being opened.
#include <gtest/gtest.h>
#include <hdf5.h>

#include <chrono>
#include <future>
#include <memory>
#include <thread>

#include "data/hdf5_volume.hpp"
#include "tests/data/hdf5_known.hpp"
#include "tests/data/held_lock.hpp"
#include "tests/data/pipeline_support.hpp"

namespace bora::data::test {
namespace {

namespace fs = std::filesystem;

/// Whether this process has that file open.
bool is_open(const std::string& path) {
  std::error_code code;
  for (const auto& entry : fs::directory_iterator("/proc/self/fd"))
    if (fs::read_symlink(entry.path(), code) == path) return true;
  return false;
}

// What is told of the new file, where its chunks lie, must not be looked up in the old one, which
// the descriptor has: without filters both have the same layout, so that old values would come
// without a word.
TEST(Hdf5Replaced, TheNewFileIsReadThroughout) {
  for (const Form& form : {Form{}, Form{{8, 8, 8}, {}}, Form{{8, 8, 8}, {kDeflate}}}) {
    const ChunkCache none(0);
    TempFolder folder;
    const std::string path = folder.file("t.h5"), other = folder.file("u.h5");
    const auto write = [&](const std::string& to, int seed) {
      write_by_library(to, H5T_NATIVE_FLOAT, {16, 16, 16}, creation_list(form),
                       numbers(4096, seed));
      make_old(to);
    };
    write(path, 100);
    write(other, 200);
    const Tensor first = library_box(path, {}, Dims3::all(16));
    const Tensor second = library_box(other, {}, Dims3::all(16));
    ASSERT_FALSE(same_bytes(first, second));

    std::future<std::unique_ptr<VolumeFile>> opening;
    {
      const HeldLock library_is_busy;
      opening = std::async(std::launch::async, [&] {
        return open_hdf5_volume({path, "raw", "xyz"});
      });
      const auto begin = std::chrono::steady_clock::now();
      while (!is_open(path) && std::chrono::steady_clock::now() - begin < std::chrono::minutes(1))
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      ASSERT_TRUE(is_open(path));
      std::this_thread::sleep_for(std::chrono::milliseconds(20));  // it asks for the file's state
      fs::rename(other, path);
    }
    const std::unique_ptr<VolumeFile> volume = opening.get();
    for (int again = 0; again < 3; ++again)
      EXPECT_TRUE(same_bytes(volume->read({}, Dims3::all(16), DType::f32), second))
          << text_of(form) << ", time " << again;
    EXPECT_TRUE(same_bytes(volume_box(path, {}, Dims3::all(16)), second));
  }
}

}  // namespace
}  // namespace bora::data::test
