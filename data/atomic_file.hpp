// SPDX-License-Identifier: Apache-2.0
// AtomicFile: a file that is replaced as a whole or not at all.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace bora::data {

/// Writes to "<path>.tmp-<host>-<process>-<number>" in the same folder; commit() makes it durable
/// and puts it in the place of `path` by a rename, so whoever opens `path` finds the old content or
/// the new one, whole, also after a kill or a power cut at any moment.  Every write and close is
/// checked.  The mode of the new file follows the umask.  Without commit() the destructor removes
/// what was written.
class AtomicFile {
 public:
  /// Throws Error naming the path if the folder is missing or not writable.  Also removes temporary
  /// files that killed writers of the same path have left (see remove_dead_temporaries).
  explicit AtomicFile(const std::string& path);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  /// Appends bytes; throws Error naming the file and the reason (disk full, ...).
  void write(const void* data, int64_t bytes);
  void write(std::string_view text) { write(text.data(), static_cast<int64_t>(text.size())); }
  /// Sync, close, rename, sync the folder.  With `keep_as`, what was at `path` before stays under
  /// that path (in the same folder), replacing what was there; at no moment is `path` missing.
  void commit(const std::string& keep_as = {});

  const std::string& temporary_path() const { return temporary_; }

 private:
  std::string path_, temporary_;
  int fd_ = -1;
  bool committed_ = false;
};

/// "<path>.tmp-<host>-<process>-<number>": a name that no other writer has, for a file that will
/// take the place of `path`.  Removes those that killed writers of the same path have left.
std::string temporary_beside(const std::string& path);

/// Gives a temporary file that a library has written and closed its name `path`, as
/// AtomicFile::commit does: sync, rename, sync the folder.
void commit_temporary(const std::string& temporary, const std::string& path);

/// Removes the temporary files in a folder whose writers are dead, of those targets whose name (in
/// the folder) `of` accepts: their process is gone, if it was of this host, or nobody has written
/// to them for 15 minutes.  Failures are ignored.
void remove_dead_temporaries(const std::string& folder,
                             const std::function<bool(const std::string& name)>& of);

/// Writes a whole small file atomically.
void write_file_atomic(const std::string& path, std::string_view content);

}  // namespace bora::data
