// SPDX-License-Identifier: Apache-2.0
// The cache in shared memory: one copy, nothing of it stays behind, and nobody trusts half a field.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <functional>

#include "core/host.hpp"
#include "tests/core/thread_collective.hpp"
#include "tests/data/cache_fixture.hpp"
#include "tests/data/small_disk.hpp"

namespace bora::data::test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

/// What `body` in a child process returns; -1: it was killed.
int in_child(const std::function<int()>& body) {
  const pid_t child = ::fork();
  if (child == 0) {
    try {
      ::_exit(body());
    } catch (const std::exception& e) {
      std::fprintf(stderr, "%s\n", e.what());
      ::_exit(99);
    }
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST(SharedCache, HoldsOneCopyForAllRanks) {
  CacheFixture f(6);
  on_ranks(4, [&](Collective& ranks) {
    const auto cache = VolumeCache::make(f.config("shared"), f.fields, &ranks);
    for (size_t i = 0; i < 6; ++i)  // each rank in another order
      EXPECT_TRUE(f.reads_right(*cache, (i + static_cast<size_t>(ranks.rank()) * 2) % 6, {3, 2, 1},
                                {4, 3, 5}));
    ranks.barrier("all have read");
    EXPECT_EQ(cache->counts().bytes, 6 * 1728);  // 7 x 6 x 10 f32, rounded to 64
    const int64_t kept = ranks.all_reduce(cache->counts().kept, ReduceOp::sum, "kept");
    EXPECT_EQ(kept, 6);
  });
  for (const auto& n : f.whole_reads) EXPECT_EQ(n, 1);
}

TEST(SharedCache, HasNoNameOnceItIsThere) {
  CacheFixture f(1);
  on_ranks(2, [&](Collective& ranks) {
    const auto cache = VolumeCache::make(f.config("shared"), f.fields, &ranks);
    ranks.barrier("made");
    EXPECT_EQ(named_segments(), 0);
  });
}

TEST(SharedCache, NeverTrustsAFieldWhoseReaderDied) {
  const auto group = std::make_shared<ThreadCollective::Group>(2);
  const std::vector<int64_t> bytes{64, 64};
  std::unique_ptr<CacheStore> dead, alive;
  on_ranks(2, [&](Collective& ranks) {
    auto store = make_shared_store(bytes, 1000, "cache", &ranks);
    (ranks.rank() == 0 ? dead : alive) = std::move(store);
  });
  ASSERT_TRUE(dead->claim(0));
  dead.reset();  // between claim() and put(), as by SIGKILL
  std::vector<float> values(16);
  const CacheBox all{.of = {1, 1, 16}, .begin = {}, .count = {1, 1, 16}, .cell_bytes = 4};
  EXPECT_FALSE(alive->read(0, all, values.data()));
  EXPECT_FALSE(alive->claim(0));  // and nobody waits for it
  ASSERT_TRUE(alive->claim(1));
  alive->put(1, Tensor::full({16}, 7, DType::f32));
  ASSERT_TRUE(alive->read(1, all, values.data()));
  EXPECT_EQ(values[15], 7.0f);
}

TEST(SharedCache, IsRefusedWhereThereIsNoRoom) {
  CacheFixture f(1);
  f.fields[0].count = {1 << 20, 1 << 12, 1 << 12};  // 64 TiB
  const std::string text = message_of<UsageError>(
      [&] { VolumeCache::make(f.config("shared", 1 << 20), f.fields, nullptr); });
  EXPECT_THAT(text, AllOf(HasSubstr("cache.kind=shared: 671088"), HasSubstr("MiB are wanted"),
                          HasSubstr("/dev/shm of host "),
                          HasSubstr("a smaller cache.limit_gib, cache.kind=ram or disk")));
  EXPECT_EQ(named_segments(), 0);
  // The limit counts, not the data: what does not fit stays in the files.
  EXPECT_NO_THROW(VolumeCache::make(f.config("shared", 0.001), f.fields, nullptr));
}

TEST(SharedCache, TellsMemoryThatIsFullLaterAndGoesOn) {
  CacheFixture f(3);
  const auto cache = VolumeCache::make(f.config("shared"), f.fields, nullptr);
  EXPECT_TRUE(f.reads_right(*cache, 0, {3, 2, 1}, {4, 3, 5}));
  ::testing::internal::CaptureStderr();
  {
    const SmallDisk full(4096);
    EXPECT_TRUE(f.reads_right(*cache, 1, {3, 2, 1}, {4, 3, 5}));
  }
  EXPECT_THAT(::testing::internal::GetCapturedStderr(),
              AllOf(HasSubstr(f.fields[1].path + "' is not kept but read each time: shared memory "
                                                 "is full"),
                    HasSubstr("somebody else has filled it"), HasSubstr("no more is kept")));
  EXPECT_TRUE(f.reads_right(*cache, 2, {3, 2, 1}, {4, 3, 5}));
  EXPECT_TRUE(f.reads_right(*cache, 0, {3, 2, 1}, {4, 3, 5}));
  EXPECT_EQ(cache->counts().kept, 1);
  EXPECT_EQ(cache->counts().from_file, 2);
}

// The real thing: /dev/shm of 1 MiB that somebody fills after the start.  A store through a mapping
// would end in SIGBUS here.
TEST(SharedCache, SurvivesASmallShmThatFills) {
  constexpr int kNotHere = 77;
  const int code = in_child([] {
    const std::string user = "0 " + std::to_string(::getuid()) + " 1";
    const std::string group = "0 " + std::to_string(::getgid()) + " 1";
    if (::unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0) return kNotHere;
    std::ofstream("/proc/self/setgroups") << "deny";
    std::ofstream("/proc/self/uid_map") << user;
    std::ofstream("/proc/self/gid_map") << group;
    if (::mount("shm", "/dev/shm", "tmpfs", 0, "size=1m") != 0) return kNotHere;
    CacheFixture f(3);
    for (CachedField& field : f.fields) field.count = {40, 40, 40};  // 250 KiB
    const auto cache = VolumeCache::make(f.config("shared"), f.fields, nullptr);
    if (!f.reads_right(*cache, 0, {3, 2, 1}, {4, 3, 5})) return 1;
    const int fd = ::open("/dev/shm/other", O_CREAT | O_WRONLY, 0600);
    const std::vector<char> page(4096);
    while (::write(fd, page.data(), page.size()) == 4096) {
    }
    for (size_t i = 0; i < 3; ++i)
      if (!f.reads_right(*cache, i, {3, 2, 1}, {4, 3, 5})) return 2;
    return cache->counts().kept == 1 ? 0 : 3;
  });
  if (code == kNotHere) GTEST_SKIP() << "no namespaces of users and mounts here";
  EXPECT_EQ(code, 0);
}

TEST(SharedCache, LeavesNothingAfterSigkill) {
  int pipe[2];
  ASSERT_EQ(::pipe(pipe), 0);
  CacheFixture f(1);
  EXPECT_EQ(in_child([&] {
              const auto cache = VolumeCache::make(f.config("shared"), f.fields, nullptr);
              const bool right = static_cast<bool>(f.reads_right(*cache, 0, {3, 2, 1}, {4, 3, 5}));
              const pid_t me = ::getpid();
              if (!right || ::write(pipe[1], &me, sizeof me) != sizeof me) return 1;
              return ::raise(SIGKILL);
            }),
            -1);
  pid_t child = 0;
  ASSERT_EQ(::read(pipe[0], &child, sizeof child), static_cast<ssize_t>(sizeof child));
  EXPECT_EQ(named_segments(child), 0);
}

TEST(SharedCache, ClearsNamesOfTheDeadAtTheStart) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(0);
  ::waitpid(child, nullptr, 0);
  const std::string mine = bora::detail::join("/bora-", ::getpid(), "-cache-", 1, "-5");
  const std::string dead = bora::detail::join("/bora-", child, "-cache-1-5");
  const std::string young = bora::detail::join("/bora-", child, "-cache-1-6");
  for (const std::string& name : {mine, dead, young}) {
    const int fd = ::shm_open(name.c_str(), O_CREAT | O_RDWR, 0600);
    ASSERT_GE(fd, 0);
    const timespec old{::time(nullptr) - 3600, 0};
    const timespec times[2]{old, old};
    ASSERT_TRUE(name == young || ::futimens(fd, times) == 0);
    ::close(fd);
  }
  CacheFixture f(1);
  VolumeCache::make(f.config("shared"), f.fields, nullptr);
  EXPECT_NE(::shm_unlink(dead.c_str()), 0);
  EXPECT_NE(::shm_unlink(mine.c_str()), 0);  // of an earlier process with this number
  EXPECT_EQ(::shm_unlink(young.c_str()), 0);
}

// A rank may take minutes between making a segment and unnaming it: while the others of its host
// open it, on a busy machine or under a debugger.
TEST(SharedCache, LeavesOldNamesOfTheLiving) {
  int pipe[2];
  ASSERT_EQ(::pipe(pipe), 0);
  const pid_t child = ::fork();
  if (child == 0) {  // lives until the parent closes its end, or ends
    ::close(pipe[1]);
    char byte = 0;
    ::_exit(::read(pipe[0], &byte, 1) == 0 ? 0 : 1);
  }
  ASSERT_GT(child, 0);
  std::vector<std::string> names;
  for (const pid_t pid : {::getpid(), child}) {
    names.push_back(bora::detail::join("/bora-", pid, "-cache-", process_born(pid), "-7"));
    const int fd = ::shm_open(names.back().c_str(), O_CREAT | O_RDWR, 0600);
    EXPECT_GE(fd, 0);
    const timespec old{::time(nullptr) - 3600, 0};
    const timespec times[2]{old, old};
    EXPECT_EQ(::futimens(fd, times), 0);
    ::close(fd);
  }
  CacheFixture f(1);
  VolumeCache::make(f.config("shared"), f.fields, nullptr);
  for (const std::string& name : names) EXPECT_EQ(::shm_unlink(name.c_str()), 0) << name;
  ::close(pipe[1]);
  ::close(pipe[0]);
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

}  // namespace
}  // namespace bora::data::test
