// SPDX-License-Identifier: Apache-2.0
// The store of kind = disk: one file a field in a local folder, for this and later runs.
//
// <hash of the field>-<hash of its file's state>.boracache: a page of text (which field, of which
// state of its file, how many bytes, their checksum), then the values, as they lie in memory.
// Read by pread: a mapping would end the program (SIGBUS) where the disk fails, or where somebody
// cuts the file.
// Written under a temporary name and renamed, so several ranks and jobs may share a folder.  Not
// synced to the disk: after a power cut the checksum tells.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <map>
#include <set>
#include <utility>

#include "core/error.hpp"
#include "core/fnv.hpp"
#include "core/log.hpp"
#include "data/atomic_file.hpp"
#include "data/cache_store.hpp"
#include "data/checkpoint.hpp"
#include "data/output_place.hpp"

namespace bora::data {
namespace {

namespace fs = std::filesystem;

constexpr const char* kSuffix = ".boracache";
constexpr int64_t kHeaderBytes = 4096;
constexpr int64_t kPiece = int64_t{4} << 20;  // of a file that is read or written at once

/// For names only, the header has the whole text.
std::string hash_of(const std::string& text) {
  char hex[17];
  std::snprintf(hex, sizeof hex, "%016" PRIx64, fnv1a(text));
  return hex;
}

std::string header_of(const CacheKey& key, int64_t bytes, uint64_t sum) {
  std::string header = bora::detail::join("Bora cache 1\nfield ", key.field, "\nstate ", key.state,
                                          "\nbytes ", bytes, "\nchecksum ", sum, "\n");
  BORA_CHECK(static_cast<int64_t>(header.size()) <= kHeaderBytes, "cache: a path of ",
             key.field.size(), " letters is too long to be kept");
  header.resize(static_cast<size_t>(kHeaderBytes), '\0');
  return header;
}

struct Fd {
  int fd = -1;
  explicit Fd(int value) : fd(value) {}
  ~Fd() {
    if (fd >= 0) ::close(fd);
  }
  Fd(const Fd&) = delete;
  Fd& operator=(const Fd&) = delete;
};

/// Of all files of caches in the folder, temporary ones too.
int64_t bytes_in(const std::string& folder) {
  int64_t sum = 0;
  std::error_code code;
  for (fs::directory_iterator it(folder, code), end; !code && it != end; it.increment(code)) {
    if (it->path().filename().string().find(kSuffix) == std::string::npos) continue;
    std::error_code gone;
    const uintmax_t bytes = fs::file_size(it->path(), gone);
    if (!gone) sum += static_cast<int64_t>(bytes);
  }
  BORA_CHECK(!code, "the cache's folder '", folder, "': ", code.message());
  return sum;
}

class DiskStore final : public CacheStore {
 public:
  DiskStore(std::vector<int64_t> bytes, int64_t limit, std::vector<CacheKey> keys,
            const CacheConfig& config)
      : bytes_(std::move(bytes)),
        limit_(limit),
        keys_(std::move(keys)),
        key_(config.key),
        folder_(config.folder),
        writes_(!config.only_looks),
        slots_(bytes_.size()) {
    if (folder_.empty())
      throw UsageError(key_ + ".kind=disk wants " + key_ +
                       ".folder, a folder on a disk of this host");
    const std::string what = key_ + ".folder '" + folder_ + "'";
    std::error_code code;
    if (!writes_) {
      check_folder(folder_, what);
      return;
    }
    const bool is_new = !fs::exists(folder_, code);
    make_folder(folder_, what);
    if (is_new) fs::permissions(folder_, fs::perms::owner_all, code);
    if (::access(folder_.c_str(), R_OK | W_OK | X_OK) != 0)
      throw UsageError(what + ": " + std::strerror(errno));
    remove_dead_temporaries(folder_,
                            [](const std::string& name) { return name.ends_with(kSuffix); });
    remove_outdated();
  }
  DiskStore(const DiskStore&) = delete;
  DiskStore& operator=(const DiskStore&) = delete;

  bool read(size_t field, const CacheBox& box, void* to) override {
    std::atomic<State>& state = slots_[field];
    State open = State::open;
    // The first look of this process at what an earlier run or another rank has left.
    if (state.load(std::memory_order_acquire) == State::open &&
        ::access(path(field).c_str(), F_OK) == 0 &&
        state.compare_exchange_strong(open, State::taken))
      state.store(is_whole(field) ? State::kept : State::open, std::memory_order_release);
    if (state.load(std::memory_order_acquire) != State::kept) return false;
    const std::string wrong = read_box(field, box, static_cast<char*>(to));
    if (wrong.empty()) return true;
    State kept = State::kept;
    if (state.compare_exchange_strong(kept, State::refused))
      log_warn("cache: '", path(field), "' is not used any more: ", wrong);
    return false;
  }
  bool claim(size_t field) override {
    State open = State::open;
    return writes_ && !full_ && slots_[field].compare_exchange_strong(open, State::taken);
  }
  void put(size_t field, const Tensor& whole) override {
    const std::string header =
        header_of(keys_[field], bytes_[field], checksum(whole.raw(), bytes_[field]));
    const std::string temporary = temporary_beside(path(field));
    struct Removed {
      const std::string& path;
      ~Removed() { ::unlink(path.c_str()); }  // nothing, once it was renamed
    } removed{temporary};
    {
      const Fd file(::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
      if (file.fd < 0) fail("creating", temporary, errno);
      // Its room is taken first, and then counted with that of all others: so two that see the last
      // of the room at once both give up, rather than both take it.
      const int lacking = ::posix_fallocate(file.fd, 0, kHeaderBytes + bytes_[field]);
      if (lacking != 0) fail("taking room for", temporary, lacking);
      if (bytes_in(folder_) > limit_) {
        full_ = true;
        BORA_FAIL(key_, ".folder '", folder_, "' holds ", (bytes_in(folder_) >> 20),
                  " MiB with it, ", key_, ".limit_gib allows ", limit_ >> 20,
                  " MiB; no more is kept. What other data sets have left there may be removed");
      }
      write(file.fd, header.data(), kHeaderBytes, 0, temporary);
      write(file.fd, whole.raw(), bytes_[field], kHeaderBytes, temporary);
    }
    if (::rename(temporary.c_str(), path(field).c_str()) != 0)
      fail("renaming to", path(field), errno);
    slots_[field].store(State::kept, std::memory_order_release);
  }
  void drop(size_t field) noexcept override { slots_[field] = State::refused; }
  int64_t bytes() const override {
    std::error_code ignored;
    return writes_ || fs::exists(folder_, ignored) ? bytes_in(folder_) : 0;
  }
  int64_t room_for(int64_t field_bytes) const override { return kHeaderBytes + field_bytes; }
  std::string where() const override { return "in '" + folder_ + "'"; }

 private:
  enum class State { open, taken, kept, refused };
  std::string path(size_t field) const {
    return bora::detail::join(folder_, "/", hash_of(keys_[field].field), "-",
                              hash_of(keys_[field].state), kSuffix);
  }
  int64_t file_bytes(size_t field) const { return kHeaderBytes + bytes_[field]; }
  [[noreturn]] void fail(const char* what, const std::string& path, int code) {
    if (code == ENOSPC || code == EDQUOT) full_ = true;
    BORA_FAIL("cache: ", what, " '", path, "': ", std::strerror(code),
              full_ ? "; no more is kept" : "");
  }
  void write(int fd, const void* data, int64_t bytes, int64_t at, const std::string& path) {
    const auto* from = static_cast<const char*>(data);
    while (bytes > 0) {
      const ssize_t n = ::pwrite(fd, from, static_cast<size_t>(std::min(bytes, kPiece)), at);
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) fail("writing", path, n < 0 ? errno : ENOSPC);
      from += n;
      at += n;
      bytes -= n;
    }
  }

  /// These bytes of a file; empty, or why not.
  static std::string read_some(int fd, int64_t at, int64_t bytes, char* to) {
    while (bytes > 0) {
      const ssize_t n = ::pread(fd, to, static_cast<size_t>(std::min(bytes, kPiece)), at);
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) return std::strerror(errno);
      if (n == 0) return bora::detail::join("it ends at byte ", at);
      at += n;
      to += n;
      bytes -= n;
    }
    return {};
  }
  /// Opens it, of the size that it must have; else `wrong` says why not.
  int open_sized(size_t field, std::string& wrong) const {
    const int fd = ::open(path(field).c_str(), O_RDONLY | O_CLOEXEC);
    struct stat s {};
    if (fd < 0 || ::fstat(fd, &s) != 0)
      wrong = std::strerror(errno);
    else if (s.st_size != static_cast<off_t>(file_bytes(field)))
      wrong = bora::detail::join(s.st_size, " bytes, wanted ", file_bytes(field));
    return fd;
  }
  /// Empty, or why not.
  std::string read_box(size_t field, const CacheBox& box, char* to) const {
    std::string wrong;
    const Fd file(open_sized(field, wrong));
    const int64_t row = box.count.w * box.cell_bytes, line = box.of.w * box.cell_bytes;
    if (!wrong.empty() || row == 0 || box.count.h == 0) return wrong;
    // From the first wanted cell of a plane to the last one at once: calls cost more than the cells
    // between them.
    std::vector<char> plane(static_cast<size_t>((box.count.h - 1) * line + row));
    for (int64_t x = 0; x < box.count.d && wrong.empty(); ++x) {
      const int64_t first = ((box.begin.d + x) * box.of.h + box.begin.h) * line;
      wrong = read_some(file.fd, kHeaderBytes + first + box.begin.w * box.cell_bytes,
                        std::ssize(plane), plane.data());
      for (int64_t y = 0; y < box.count.h; ++y, to += row)
        std::memcpy(to, plane.data() + y * line, static_cast<size_t>(row));
    }
    return wrong;
  }
  /// Looks whether what lies there is what it says; what is not is removed.
  bool is_whole(size_t field) const {
    std::string wrong;
    const Fd file(open_sized(field, wrong));
    std::string header(static_cast<size_t>(kHeaderBytes), '\0');
    if (wrong.empty()) wrong = read_some(file.fd, 0, kHeaderBytes, header.data());
    std::vector<char> piece(static_cast<size_t>(std::min(bytes_[field], kPiece)));
    uint64_t sum = kChecksumStart;
    for (int64_t at = 0; at < bytes_[field] && wrong.empty(); at += std::ssize(piece)) {
      const int64_t n = std::min(bytes_[field] - at, std::ssize(piece));
      wrong = read_some(file.fd, kHeaderBytes + at, n, piece.data());
      sum = checksum(piece.data(), n, sum);
    }
    if (wrong.empty() && header == header_of(keys_[field], bytes_[field], sum)) return true;
    log_warn("cache: '", path(field), "' is ", writes_ ? "removed and made anew" : "not used",
             ": damaged: ", wrong.empty() ? "its header or its checksum does not fit" : wrong);
    if (writes_) ::unlink(path(field).c_str());
    return false;
  }
  /// Fields in an earlier state of their file: nobody can use them any more.
  void remove_outdated() const {
    std::map<std::string, std::set<std::string>> good;  // hash of the field -> names
    for (size_t i = 0; i < keys_.size(); ++i)
      good[hash_of(keys_[i].field)].insert(fs::path(path(i)).filename().string());
    std::error_code code;
    for (fs::directory_iterator it(folder_, code), end; !code && it != end; it.increment(code)) {
      const std::string name = it->path().filename().string();
      const auto own = good.find(name.substr(0, name.find('-')));
      if (own == good.end() || !name.ends_with(kSuffix) || own->second.contains(name)) continue;
      if (::unlink(it->path().c_str()) == 0)
        log_info("cache: removed '", it->path().string(), "', of a file that has changed since");
    }
  }

  const std::vector<int64_t> bytes_;
  const int64_t limit_;
  const std::vector<CacheKey> keys_;
  const std::string key_, folder_;
  const bool writes_;
  std::vector<std::atomic<State>> slots_;  // all open at first
  std::atomic<bool> full_{false};
};

}  // namespace

std::unique_ptr<CacheStore> make_disk_store(std::vector<int64_t> bytes, int64_t limit,
                                            std::vector<CacheKey> keys, const CacheConfig& config,
                                            Collective* ranks) {
  std::unique_ptr<CacheStore> store;
  const auto make = [&] {
    store = std::make_unique<DiskStore>(std::move(bytes), limit, std::move(keys), config);
  };
  ranks != nullptr ? ranks->agree("opening the cache's folder", make) : make();
  return store;
}

}  // namespace bora::data
