// SPDX-License-Identifier: Apache-2.0
// Files that are foreign, damaged, locked, shared with a child or with other threads.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "data/byte_source.hpp"
#include "data/hdf5.hpp"
#include "tests/data/pipeline_support.hpp"
#include "tests/data/reference_values.hpp"

namespace bora::data::test {
namespace {

using hdf5::File;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(Hdf5Files, ForeignFilesAreRefusedWithAReason) {
  TempFolder folder;
  const auto refusal = [&](const std::string& path) {
    return message_of([&] { File::open(path); });
  };
  EXPECT_THAT(refusal(folder.file("none.nc")),
              AllOf(HasSubstr("none.nc"), HasSubstr("No such file"), HasSubstr("errno 2")));
  write_file(folder.file("empty.nc"), "");
  EXPECT_THAT(refusal(folder.file("empty.nc")), AllOf(HasSubstr("empty.nc"), HasSubstr("0 bytes")));
  write_file(folder.file("text.nc"), "this is text, and a little longer than a signature");
  EXPECT_THAT(refusal(folder.file("text.nc")), HasSubstr("not an HDF5 or NetCDF-4 file"));
  write_file(folder.file("gz.nc"), "\x1f\x8b\x08 and more");
  EXPECT_THAT(refusal(folder.file("gz.nc")), HasSubstr("gunzip"));
  for (const char* name : {"classic1.nc", "classic2.nc", "classic5.nc"})
    EXPECT_THAT(refusal(kReference + name),
                AllOf(HasSubstr(name), HasSubstr("NetCDF-3"), HasSubstr("nccopy -k nc4")));
  EXPECT_THAT(refusal(folder.path()), HasSubstr(folder.path()));
}

// The library finds a superblock at 0, 512, 1024, 2048, ...; what asks before it must, too.
TEST(Hdf5Files, TheMarkIsLookedForWhereItMayBe) {
  TempFolder folder;
  const std::string path = folder.file("a.h5"), mark = "\x89HDF\r\n\x1a\n";
  const auto is_marked = [&](size_t at, size_t n_more, const std::string& bytes) {
    write_file(path, std::string(at, '.') + bytes + std::string(n_more, '.'));
    const std::string refusal = message_of([&] { File::open(path); });
    const bool marked = has_hdf5_mark(*open_bytes(path));
    EXPECT_EQ(refusal.find("no HDF5 signature") == std::string::npos, marked) << refusal;
    return marked;
  };
  for (const size_t at : {0, 512, 1024, 2048, 4096}) {
    EXPECT_TRUE(is_marked(at, 9, mark)) << at;
    EXPECT_TRUE(is_marked(at, 0, mark)) << at;
    EXPECT_FALSE(is_marked(at, 0, mark.substr(0, 7))) << at;
    EXPECT_FALSE(is_marked(at, 9, "\x89HDF\r\n\x1a\r")) << at;
  }
  for (const size_t at : {1, 8, 256, 511, 513, 1536, 3072}) EXPECT_FALSE(is_marked(at, 9, mark));
}

TEST(Hdf5Files, TruncatedFilesAreRefusedWithAReason) {
  TempFolder folder;
  {
    File file = File::create(folder.file("a.h5"));
    file.write_dataset("t", Tensor::zeros(Shape{1000}, DType::f64));
    file.close();
  }
  const std::string whole = read_file(folder.file("a.h5"));
  for (size_t n : {whole.size() - 1, whole.size() / 2, size_t{100}, size_t{9}, size_t{4}}) {
    write_file(folder.file("cut.h5"), whole.substr(0, n));
    EXPECT_THAT(message_of([&] { File::open(folder.file("cut.h5")); }), HasSubstr("cut.h5")) << n;
  }
  write_file(folder.file("cut.h5"), whole.substr(0, whole.size() / 2));
  EXPECT_THAT(message_of([&] { File::open(folder.file("cut.h5")); }),
              AllOf(HasSubstr("truncated"), Not(HasSubstr("LOCKING"))));
  EXPECT_EQ(hdf5::open_objects(), 0);
}

TEST(Hdf5Files, ADamagedChunkIsFoundByItsChecksum) {
  TempFolder folder;
  {
    File file = File::create(folder.file("a.h5"));
    hdf5::Storage storage;
    storage.fletcher32 = true;
    file.write_dataset("t", Tensor::full(Shape{1000}, 1.25, DType::f64), storage);
    file.close();
  }
  std::string bytes = read_file(folder.file("a.h5"));
  const double value = 1.25;
  const size_t at = bytes.find(std::string(reinterpret_cast<const char*>(&value), 8)) + 4000;
  bytes[at] = static_cast<char>(bytes[at] ^ 1);
  write_file(folder.file("b.h5"), bytes);
  const File file = File::open(folder.file("b.h5"));
  EXPECT_THAT(message_of([&] { file.open_dataset("t").read(); }),
              AllOf(HasSubstr("b.h5:/t"), HasSubstr("checksum")));
}

TEST(Hdf5Files, AMissingFolderAndAFullNameAreNamed) {
  EXPECT_THAT(message_of([] { File::create("/nowhere/at/all.h5"); }),
              AllOf(HasSubstr("/nowhere/at/all.h5"), HasSubstr("No such file")));
  TempFolder folder;
  File file = File::create(folder.file("a.h5"));
  file.write_dataset("t", Tensor::scalar(1.0f));
  EXPECT_THAT(message_of([&] { file.write_dataset("t", Tensor::scalar(1.0f)); }),
              AllOf(HasSubstr("a.h5:/t"), HasSubstr("already exists")));
}

TEST(Hdf5Files, NoHandleStaysOpenAfterUseOrFailure) {
  TempFolder folder;
  ASSERT_EQ(hdf5::open_objects(), 0);
  {
    File file = File::create(folder.file("a.h5"));
    file.create_group("g").set_attribute("a", 1);
    file.write_dataset("g/t", Tensor::zeros(Shape{3}, DType::f32));
    EXPECT_GT(hdf5::open_objects(), 0);
    EXPECT_THROW(file.open_dataset("none"), Error);
    EXPECT_THROW(file.open_group("g").attribute<std::string>("a"), Error);
    File moved = std::move(file);
    moved.close();
    EXPECT_EQ(hdf5::open_objects(), 0);
    moved.close();  // again: nothing
  }
  { const Tensor t = File::open(folder.file("a.h5")).open_dataset("g/t").read(); }
  EXPECT_EQ(hdf5::open_objects(), 0);
  const File closed;
  EXPECT_THAT(message_of([&] { closed.names(); }), HasSubstr("not open"));
}

/// Holds the lock that HDF5 would take, as another process would.
class LockedFile {
 public:
  explicit LockedFile(const std::string& path) : fd_(::open(path.c_str(), O_RDWR)) {
    BORA_CHECK(fd_ >= 0 && ::flock(fd_, LOCK_EX | LOCK_NB) == 0, "cannot lock ", path);
  }
  ~LockedFile() { ::close(fd_); }

 private:
  int fd_;
};

void write_scalar(const std::string& path) {
  File file = File::create(path);
  file.write_dataset("t", Tensor::scalar(3.0f));
  file.close();
}

TEST(Hdf5Files, AFileThatIsLockedElsewhereCanBeReadAndReplaced) {
  TempFolder folder;
  write_scalar(folder.file("a.h5"));
  const LockedFile other(folder.file("a.h5"));
  EXPECT_EQ(File::open(folder.file("a.h5")).open_dataset("t").read().item(), 3.0);
  write_scalar(folder.file("a.h5"));
}

// Our driver for reading has no locks, also where the library would be told to take them.
TEST(Hdf5Files, NoLockIsTakenWhateverTheVariableSays) {
  // In a new process, since the library reads the variable once.
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        {
          ::setenv("HDF5_USE_FILE_LOCKING", "TRUE", 1);
          TempFolder folder;
          write_scalar(folder.file("a.h5"));
          const LockedFile other(folder.file("a.h5"));
          const double found = File::open(folder.file("a.h5")).open_dataset("t").read().item();
          std::fprintf(stderr, "read %g\n", found);
        }
        ::_exit(0);
      },
      ::testing::ExitedWithCode(0), "read 3");
}

TEST(Hdf5Files, AHandleFromBeforeForkIsRefusedInTheChild) {
  TempFolder folder;
  File file = File::create(folder.file("a.h5"));
  file.write_dataset("t", Tensor::scalar(3.0f));
  file.flush();
  const pid_t child = ::fork();
  if (child == 0) {
    int code = 1;
    try {
      file.open_dataset("t");
    } catch (const Error& e) {
      code = std::strstr(e.what(), "fork()") != nullptr ? 0 : 2;
    }
    ::_exit(code);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

// The lock is ours, so this holds with a library that is not thread-safe too.
TEST(Hdf5Files, FourThreadsReadAndFailAtWill) {
  TempFolder folder;
  for (int i = 0; i < 4; ++i) {
    File file = File::create(folder.file(std::to_string(i)));
    hdf5::Storage storage;
    storage.deflate = 1;
    file.write_dataset("t", Tensor::full(Shape{64, 5}, i, DType::f32), storage);
    file.set_attribute("i", i);
    file.close();
  }
  std::vector<std::thread> threads;
  std::array<int, 4> wrong{};
  for (size_t t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (size_t k = 0; k < 250; ++k) {
        const size_t i = (t + k) % 4;
        const File file = File::open(folder.file(std::to_string(i)));
        const Tensor x = file.open_dataset("t").read();
        wrong[t] += x.data<float>()[319] != static_cast<float>(i);
        wrong[t] += file.attribute<int64_t>("i") != static_cast<int64_t>(i);
        try {
          file.open_dataset("none");
          ++wrong[t];
        } catch (const Error&) {
        }
      }
    });
  for (std::thread& t : threads) t.join();
  EXPECT_THAT(wrong, ElementsAre(0, 0, 0, 0));
  EXPECT_EQ(hdf5::open_objects(), 0);
}

TEST(Hdf5Files, EqualContentsGiveEqualBytes) {
  TempFolder folder;
  for (const char* name : {"a", "b"}) {
    File file = File::create(folder.file(name));
    file.write_dataset("g/t", Tensor::full(Shape{100}, 2, DType::f32), {{10}, 4, true, true});
    file.set_attribute("a", "text");
    file.close();
    if (*name == 'a') ::usleep(1100000);  // time stamps count seconds
  }
  EXPECT_EQ(read_file(folder.file("a")), read_file(folder.file("b")));
}

}  // namespace
}  // namespace bora::data::test
