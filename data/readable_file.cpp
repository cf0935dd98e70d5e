// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "core/error.hpp"
#include "data/preflight.hpp"

namespace bora::data {

void check_readable_file(const std::string& path) {
  struct stat s {};
  if (::stat(path.c_str(), &s) != 0) {
    const int code = errno;
    std::error_code ignored;
    const auto target = std::filesystem::read_symlink(path, ignored);
    if (!ignored)
      BORA_FAIL("'", path, "' is a link to '", target.string(), "': ", std::strerror(code));
    BORA_FAIL("'", path, "': ", std::strerror(code), " (errno ", code, ")");
  }
  const char* kind = S_ISDIR(s.st_mode)    ? "a folder"
                     : S_ISFIFO(s.st_mode) ? "a pipe"
                     : S_ISSOCK(s.st_mode) ? "a socket"
                     : S_ISREG(s.st_mode)  ? nullptr
                                           : "a device";
  BORA_CHECK(kind == nullptr, "'", path, "' is ", kind ? kind : "", ", wanted a file");
  BORA_CHECK(::faccessat(AT_FDCWD, path.c_str(), R_OK, AT_EACCESS) == 0, "'", path,
             "' may not be read: ", std::strerror(errno));
  BORA_CHECK(s.st_size > 0, "'", path, "' is empty (0 bytes)");
}

}  // namespace bora::data
