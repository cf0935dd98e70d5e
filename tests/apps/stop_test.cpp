// SPDX-License-Identifier: Apache-2.0
// Signals that end a run (feature 167): one is kept, its echo ignored, a later one ends at once.
#include "apps/common/stop.hpp"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

namespace bora::apps {
namespace {

TEST(Stop, TheEchoOfASignalIsIgnoredAndASecondOneEndsAtOnce) {
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    catch_stop_signals();
    if (stop_signal() != 0) ::_exit(1);
    ::raise(SIGUSR1);
    if (stop_signal() != SIGUSR1) ::_exit(2);
    ::raise(SIGTERM);  // what a launcher passes on
    if (stop_signal() != SIGUSR1) ::_exit(3);
    ::usleep(1'200'000);
    ::raise(SIGUSR1);  // another than the echo, so that the exit code tells which one ended it
    ::_exit(4);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 128 + SIGUSR1);
}

// A signal that comes while the program starts is kept where the starter has blocked it.
TEST(Stop, ASignalThatWasBlockedUntilTheProgramListensIsKept) {
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    ::sigprocmask(SIG_BLOCK, &set, nullptr);
    ::raise(SIGUSR1);  // would end the process
    catch_stop_signals();
    ::_exit(stop_signal() == SIGUSR1 ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
}

}  // namespace
}  // namespace bora::apps
