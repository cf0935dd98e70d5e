// SPDX-License-Identifier: Apache-2.0
// Work in a forked process, so that a crash of a library is a failure with a name.
#pragma once

#include <sys/wait.h>
#include <unistd.h>

#include <exception>
#include <functional>
#include <string>

#include "core/error.hpp"

namespace bora::test {

/// What a child process reports, line by line; a last line of its own if it ended by a signal or
/// an exception.
/// The child must not have threads to wait for: call this before any were started.
inline std::string in_child(
    const std::function<void(const std::function<void(std::string)>&)>& work) {
  int ends[2];
  BORA_CHECK(pipe(ends) == 0, "in_child: no pipe");
  const pid_t child = fork();
  BORA_CHECK(child >= 0, "in_child: no child process");
  if (child == 0) {
    close(ends[0]);
    const auto report = [&](std::string line) {
      line += '\n';
      for (size_t done = 0; done < line.size();) {
        const ssize_t n = write(ends[1], line.data() + done, line.size() - done);
        if (n <= 0) _exit(3);
        done += static_cast<size_t>(n);
      }
    };
    try {
      work(report);
    } catch (const std::exception& e) {
      report(std::string("FAULT exception: ") + e.what());
    }
    _exit(0);
  }
  close(ends[1]);
  std::string text;
  char buffer[4096];
  for (ssize_t n; (n = read(ends[0], buffer, sizeof buffer)) > 0;)
    text.append(buffer, static_cast<size_t>(n));
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  if (WIFSIGNALED(status)) text += detail::join("FAULT ended by signal ", WTERMSIG(status), '\n');
  if (WIFEXITED(status) && WEXITSTATUS(status) != 0)
    text += detail::join("FAULT exit code ", WEXITSTATUS(status), '\n');
  return text;
}

}  // namespace bora::test
