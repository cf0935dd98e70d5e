// SPDX-License-Identifier: Apache-2.0
// A disk that is full for this process.
#pragma once

#include <signal.h>
#include <sys/resource.h>

namespace bora::data::test {

/// Limits the size of files that this process can write, as a full disk does, while it lives.
class SmallDisk {
 public:
  enum class Signal { ignored, as_it_is };
  explicit SmallDisk(rlim_t bytes, Signal signal = Signal::ignored)
      : ignores_(signal == Signal::ignored) {
    ::getrlimit(RLIMIT_FSIZE, &old_);
    rlimit now = old_;
    now.rlim_cur = bytes;
    ::setrlimit(RLIMIT_FSIZE, &now);
    if (ignores_) handler_ = ::signal(SIGXFSZ, SIG_IGN);
  }
  ~SmallDisk() {
    ::setrlimit(RLIMIT_FSIZE, &old_);
    if (ignores_) ::signal(SIGXFSZ, handler_);
  }
  SmallDisk(const SmallDisk&) = delete;
  SmallDisk& operator=(const SmallDisk&) = delete;

 private:
  bool ignores_;
  rlimit old_{};
  void (*handler_)(int) = nullptr;
};

}  // namespace bora::data::test
