// SPDX-License-Identifier: Apache-2.0
#include "data/file_stamp.hpp"

#include <sys/stat.h>

#include <cerrno>
#include <cstring>

#include "core/error.hpp"

namespace bora::data {

FileStamp FileStamp::of(const std::string& path) {
  struct stat s {};
  if (::stat(path.c_str(), &s) != 0) {
    const int code = errno;
    BORA_FAIL("'", path, "': ", std::strerror(code), " (errno ", code, ")");
  }
  return {s.st_size, static_cast<int64_t>(s.st_mtim.tv_sec) * 1000000000 + s.st_mtim.tv_nsec};
}

std::string file_identity(const std::string& path) {
  struct stat s {};
  if (::stat(path.c_str(), &s) != 0) return path;
  return bora::detail::join(s.st_dev, ':', s.st_ino);
}

void require_unchanged(const std::string& path, const FileStamp& stamp) {
  BORA_CHECK(FileStamp::of(path) == stamp, "'", path,
             "' has changed since the start of the program; start again");
}

}  // namespace bora::data
