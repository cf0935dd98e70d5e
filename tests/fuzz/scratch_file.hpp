// SPDX-License-Identifier: Apache-2.0
// ScratchFile: a file in memory that a fuzzer fills again for each input.
#pragma once

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <utility>

namespace bora::fuzz {

/// One file of this process, in memory where /dev/shm is there.  A child of fork() gets its own.
class ScratchFile {
 public:
  /// Of a file that was written just now, readers keep nothing (data/hdf5_stored.hpp).  `old`: as
  /// if each input had been written long ago, at a time of its own.
  enum class Age { young, old };

  /// `extension`: ".nc", for readers that look at the name.
  explicit ScratchFile(std::string extension, Age age = Age::young)
      : extension_(std::move(extension)), age_(age) {}
  ~ScratchFile() { remove(); }
  ScratchFile(const ScratchFile&) = delete;
  ScratchFile& operator=(const ScratchFile&) = delete;

  /// The file's path, after it was given these contents.
  const std::string& with(const uint8_t* data, size_t size) {
    if (process_ != ::getpid()) {
      process_ = ::getpid();
      const bool has_shm = ::access("/dev/shm", W_OK) == 0;
      path_ = std::string(has_shm ? "/dev/shm" : "/tmp") + "/bora_fuzz_" +
              std::to_string(process_) + extension_;
    }
    const int fd = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0) std::abort();
    for (size_t done = 0; done < size;) {
      const ssize_t n = ::write(fd, data + done, size - done);
      if (n <= 0) std::abort();
      done += static_cast<size_t>(n);
    }
    if (age_ == Age::old) {
      ++n_written_;
      const timespec then{1000000000 + n_written_ / 1000000000, n_written_ % 1000000000};
      const timespec times[] = {then, then};
      if (::futimens(fd, times) != 0) std::abort();
    }
    ::close(fd);
    return path_;
  }
  void remove() {
    if (process_ == ::getpid()) ::unlink(path_.c_str());
  }

 private:
  std::string extension_, path_;
  Age age_;
  int64_t n_written_ = 0;
  pid_t process_ = -1;
};

}  // namespace bora::fuzz
