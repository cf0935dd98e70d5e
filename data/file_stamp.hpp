// SPDX-License-Identifier: Apache-2.0
// FileStamp: size and time of a file when it was looked at, to notice a change.
#pragma once

#include <cstdint>
#include <string>

namespace bora::data {

struct FileStamp {
  int64_t bytes = 0;
  int64_t mtime_ns = 0;
  static FileStamp of(const std::string& path);  ///< throws Error naming the path
  friend bool operator==(const FileStamp&, const FileStamp&) = default;
};

/// A text that is the same for all names of one file: links, hard links, "./a" and "a".  On this
/// host: others number their devices otherwise.
std::string file_identity(const std::string& path);

/// Throws Error naming the path if the file is gone or no longer the one that was looked at.
void require_unchanged(const std::string& path, const FileStamp& stamp);

}  // namespace bora::data
