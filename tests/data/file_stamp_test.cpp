// SPDX-License-Identifier: Apache-2.0
// Row 75 (caches): a file is another one when its size or its time differs, by as little as one
// nanosecond.
#include "data/file_stamp.hpp"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "tests/data/pipeline_support.hpp"

namespace bora::data::test {
namespace {

void set_time(const std::string& path, int64_t seconds, int64_t nanoseconds) {
  const timespec times[2] = {{seconds, nanoseconds}, {seconds, nanoseconds}};
  ASSERT_EQ(::utimensat(AT_FDCWD, path.c_str(), times, 0), 0);
}

TEST(FileStamp, TellsFilesApartBySizeAndByNanoseconds) {
  TempFolder folder;
  const std::string path = folder.file("a");
  write_file(path, "abc");
  set_time(path, 1700000000, 123456789);
  const FileStamp first = FileStamp::of(path);
  EXPECT_EQ(first.bytes, 3);
  EXPECT_EQ(first.mtime_ns, 1700000000123456789);
  require_unchanged(path, first);
  const auto changed = [&] { return message_of([&] { require_unchanged(path, first); }); };
  set_time(path, 1700000000, 123456790);
  EXPECT_THAT(changed(), ::testing::HasSubstr("has changed since the start"));
  set_time(path, 1700000001, 123456789);
  EXPECT_THAT(changed(), ::testing::HasSubstr("has changed since the start"));
  write_file(path, "abcd");
  set_time(path, 1700000000, 123456789);
  EXPECT_THAT(changed(), ::testing::HasSubstr("has changed since the start"));
  std::filesystem::remove(path);
  EXPECT_THAT(changed(), ::testing::HasSubstr("No such file"));
}

}  // namespace
}  // namespace bora::data::test
