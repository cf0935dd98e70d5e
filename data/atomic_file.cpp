// SPDX-License-Identifier: Apache-2.0
#include "data/atomic_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <string>
#include <utility>

#include "core/host.hpp"
#include "core/log.hpp"

namespace bora::data {
namespace {

namespace fs = std::filesystem;

// No save takes so long without a write that a living writer's file would be taken for a dead
// one's.
constexpr std::chrono::minutes kStaleAfter{15};

constexpr std::string_view kMark = ".tmp-", kOld = "-old";

[[noreturn]] void fail(const std::string& what, const std::string& path, int code) {
  BORA_FAIL(what, " ", path, ": ", std::strerror(code));
}

std::string folder_of(const std::string& path) {
  const fs::path parent = fs::path(path).parent_path();
  return parent.empty() ? "." : parent.string();
}

// "<target>.tmp-<host>-<process>-<number>", perhaps with "-old" behind: its parts.
struct TemporaryName {
  std::string target, host;
  long process = 0;  // 0: not a name of ours
};
TemporaryName parse(std::string name) {
  TemporaryName parts;
  const size_t mark = name.rfind(kMark);
  if (mark == std::string::npos) return parts;
  if (name.ends_with(kOld)) name.resize(name.size() - kOld.size());
  const size_t number = name.rfind('-');
  const size_t process = number == std::string::npos ? number : name.rfind('-', number - 1);
  if (process == std::string::npos || process < mark + kMark.size()) return parts;
  parts.target = name.substr(0, mark);
  parts.host = name.substr(mark + kMark.size(), process - mark - kMark.size());
  const char* last = name.data() + number;
  const auto [end, error] = std::from_chars(name.data() + process + 1, last, parts.process);
  if (error != std::errc{} || end != last || parts.process <= 0) parts.process = 0;
  return parts;
}

bool is_dead(const fs::path& path, const TemporaryName& name) {
  if (name.host == host_name()) return process_ended(name.process);
  std::error_code failure;
  const auto written = fs::last_write_time(path, failure);
  return !failure && fs::file_time_type::clock::now() - written > kStaleAfter;
}

// Makes a rename in the folder durable.  File systems that cannot sync a folder say EINVAL.
void sync_folder(const std::string& folder) {
  const int fd = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) fail("opening folder", folder, errno);
  const int code = ::fsync(fd) == 0 ? 0 : errno;
  ::close(fd);  // nothing was written through it
  if (code != 0 && code != EINVAL && code != ENOTSUP) fail("syncing folder", folder, code);
}

// Gives what is at `path` the second name `other` without a moment in which `path` is missing.
void keep_second_name(const std::string& path, const std::string& other,
                      const std::string& scratch) {
  if (!fs::exists(path)) return;
  ::unlink(scratch.c_str());
  if (::link(path.c_str(), scratch.c_str()) == 0) {
    if (::rename(scratch.c_str(), other.c_str()) != 0) fail("renaming to", other, errno);
    // If both names were already one file, rename() did nothing and left the scratch name.
    ::unlink(scratch.c_str());
    return;
  }
  // A file system without hard links: `other` is valid before `path` comes back by the commit.
  if (::rename(path.c_str(), other.c_str()) != 0) fail("renaming to", other, errno);
}

}  // namespace

std::string temporary_beside(const std::string& path) {
  static std::atomic<int64_t> n_made{0};
  remove_dead_temporaries(folder_of(path), [own = fs::path(path).filename().string()](
                                               const std::string& name) { return name == own; });
  return bora::detail::join(path, kMark, host_name(), "-", ::getpid(), "-", n_made++);
}

AtomicFile::AtomicFile(const std::string& path) : path_(path) {
  BORA_CHECK(!path.empty(), "AtomicFile: wants a path, got an empty one");
  temporary_ = temporary_beside(path);
  // 0666 and not mkstemp's 0600: the umask decides who may read the result.
  fd_ = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, mode_t{0666});
  if (fd_ < 0) fail("creating", temporary_, errno);
}

AtomicFile::~AtomicFile() {
  if (fd_ >= 0) ::close(fd_);  // not committed: what it says no longer matters
  if (!committed_) ::unlink(temporary_.c_str());
}

void AtomicFile::write(const void* data, int64_t bytes) {
  BORA_CHECK(fd_ >= 0, "AtomicFile: write to ", path_, " after commit");
  const char* at = static_cast<const char*>(data);
  while (bytes > 0) {
    const int64_t chunk = bytes < (int64_t{64} << 20) ? bytes : int64_t{64} << 20;
    const ssize_t n = ::write(fd_, at, static_cast<size_t>(chunk));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) fail("writing", path_, n < 0 ? errno : EIO);
    at += n;
    bytes -= n;
  }
}

void AtomicFile::commit(const std::string& keep_as) {
  BORA_CHECK(fd_ >= 0, "AtomicFile: second commit of ", path_);
  BORA_CHECK(keep_as.empty() || folder_of(keep_as) == folder_of(path_), "AtomicFile: the old ",
             path_, " cannot be kept in another folder, as ", keep_as);
  if (::fsync(fd_) != 0) fail("syncing", path_, errno);
  if (::close(std::exchange(fd_, -1)) != 0) fail("closing", path_, errno);
  if (!keep_as.empty()) keep_second_name(path_, keep_as, temporary_ + std::string(kOld));
  if (::rename(temporary_.c_str(), path_.c_str()) != 0) fail("renaming to", path_, errno);
  committed_ = true;
  sync_folder(folder_of(path_));
}

void commit_temporary(const std::string& temporary, const std::string& path) {
  const int fd = ::open(temporary.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) fail("opening", temporary, errno);
  const int code = ::fsync(fd) == 0 ? 0 : errno;
  ::close(fd);  // nothing was written through it
  if (code != 0) fail("syncing", temporary, code);
  if (::rename(temporary.c_str(), path.c_str()) != 0) fail("renaming to", path, errno);
  sync_folder(folder_of(path));
}

void remove_dead_temporaries(const std::string& folder,
                             const std::function<bool(const std::string& name)>& of) {
  std::error_code ignored;  // tidying up must never fail a save
  for (fs::directory_iterator it(folder.empty() ? "." : folder, ignored), end;
       !ignored && it != end; it.increment(ignored)) {
    const TemporaryName name = parse(it->path().filename().string());
    if (name.process == 0 || !of(name.target) || !is_dead(it->path(), name)) continue;
    std::error_code failure;
    if (fs::remove(it->path(), failure))
      log_info("removed ", it->path().string(), ", left by a writer that was killed");
  }
}

void write_file_atomic(const std::string& path, std::string_view content) {
  AtomicFile file(path);
  file.write(content);
  file.commit();
}

}  // namespace bora::data
