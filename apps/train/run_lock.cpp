// SPDX-License-Identifier: Apache-2.0
#include "apps/train/run_lock.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>

#include "core/error.hpp"
#include "core/host.hpp"
#include "core/log.hpp"
#include "data/atomic_file.hpp"

namespace bora::train {
namespace {

// Where a lock was taken from a run that may live: that one must not think that nobody has been
// here.
constexpr const char* kFree = "free\n";

struct Owner {
  std::string host;
  int64_t process = 0, began = 0;
  std::string boot;

  std::string text() const { return detail::join(host, " ", process, " ", began, " ", boot, "\n"); }
  std::string who() const { return detail::join("process ", process, " on host ", host); }
  /// Of this host since its start; one that /proc hides (another user's) may be the one.
  bool lives() const {
    if (process <= 0 || process_ended(process)) return false;
    const int64_t born = process_born(process);
    return born == 0 || born == began;
  }
};

std::string read_text(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return std::string{std::istreambuf_iterator<char>(in), {}};
}

Owner owner_of(const std::string& text) {
  Owner owner;
  std::istringstream(text) >> owner.host >> owner.process >> owner.began >> owner.boot;
  return owner;
}

Owner this_process() {
  return {.host = host_name(),
          .process = ::getpid(),
          .began = process_born(::getpid()),
          .boot = boot_id()};
}

/// Creates the file; false if it is there.
bool create(const std::string& path, const std::string& text) {
  const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode_t{0666});
  if (fd < 0 && errno == EEXIST) return false;
  BORA_CHECK(fd >= 0, "creating ", path, ": ", std::strerror(errno));
  const ssize_t n = ::write(fd, text.data(), text.size());
  const int code = n < 0 ? errno : ENOSPC;
  ::close(fd);
  if (n == static_cast<ssize_t>(text.size())) return true;
  ::unlink(path.c_str());
  BORA_FAIL("writing ", path, ": ", std::strerror(code));
}

}  // namespace

RunLock::RunLock(const std::string& folder) : folder_(folder), path_(folder + "/run.lock") {
  const Owner me = this_process();
  mine_ = me.text();
  if (create(path_, mine_)) return;
  const std::string found = read_text(path_);
  const Owner other = owner_of(found);
  const bool here = other.host == me.host && other.boot == me.boot;
  if (here && other.lives())
    throw UsageError(detail::join("output.dir ", folder, ": another run is at work in it (",
                                  other.who(), "): wait for its end, stop it, or choose another"));
  from_elsewhere_ = !here && !found.empty();
  if (from_elsewhere_ && found != kFree && other.host != me.host)
    log_warn("the run of ", other.who(), " did not leave ", folder,
             " in order. If it still runs, it will end at its next save and write no more");
  write();
}

RunLock::~RunLock() {
  if (read_text(path_) != mine_) return;
  try {
    if (from_elsewhere_)
      data::write_file_atomic(path_, kFree);
    else
      ::unlink(path_.c_str());
  } catch (const Error& e) {
    log_warn(e.what());
  }
}

void RunLock::write() const { data::write_file_atomic(path_, mine_); }

void RunLock::require() const {
  const std::string found = read_text(path_);
  if (found == mine_) return;
  if (found.empty()) return write();
  const Owner other = owner_of(found);
  BORA_FAIL("two runs with one output.dir: ", folder_, " was taken over by another",
            found == kFree ? std::string() : " (" + other.who() + ")",
            ", and this one writes no more into it");
}

}  // namespace bora::train
