// SPDX-License-Identifier: Apache-2.0
// Which processes of a host live: what locks, leftovers and watchdogs go by.
#include <gtest/gtest.h>

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <limits>

#include "core/error.hpp"
#include "core/host.hpp"

namespace bora {
namespace {

TEST(Host, HasANameAndAStart) {
  EXPECT_FALSE(host_name().empty());
  EXPECT_EQ(host_name().find('\n'), std::string::npos);
  EXPECT_EQ(boot_id().size(), 36u) << "a UUID";
}

TEST(Process, LivesUntilItEndsAlsoAsAZombie) {
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    ::pause();
    ::_exit(0);
  }
  EXPECT_FALSE(process_ended(child));
  const int64_t born = process_born(child);
  EXPECT_GE(born, process_born(::getpid()));
  EXPECT_GT(born, 0);
  ASSERT_EQ(::kill(child, SIGKILL), 0);
  siginfo_t info{};
  // A zombie: it has ended, and stays until it is waited for.
  ASSERT_EQ(::waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | WNOWAIT), 0);
  EXPECT_TRUE(process_ended(child));
  EXPECT_EQ(process_born(child), 0);
  ASSERT_EQ(::waitpid(child, nullptr, 0), child);
  EXPECT_TRUE(process_ended(child));
  EXPECT_EQ(process_born(child), 0);
}

TEST(Process, ANumberThatThereIsNotHasEnded) {
  EXPECT_TRUE(process_ended(std::numeric_limits<pid_t>::max()));
  EXPECT_EQ(process_born(std::numeric_limits<pid_t>::max()), 0);
}

}  // namespace
}  // namespace bora
