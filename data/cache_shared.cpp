// SPDX-License-Identifier: Apache-2.0
// The store of kind = shared: one copy for the ranks of a host, in POSIX shared memory.
//
// A segment without a name: its leader makes it, the others of the host open it, and the name is
// removed before the first field is read.  So the kernel gives the memory back when the last rank
// has ended, however it did.  The fields are written by write(), which says ENOSPC where a store
// through the mapping would end in SIGBUS, and are mapped for reading only.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <functional>
#include <random>
#include <utility>

#include "core/error.hpp"
#include "core/host.hpp"
#include "data/cache_store.hpp"

namespace bora::data {
namespace {

namespace fs = std::filesystem;

constexpr const char* kFolder = "/dev/shm";
constexpr int64_t kAlign = 64;

int64_t rounded(int64_t bytes, int64_t to) { return (bytes + to - 1) / to * to; }

/// Ranks that say the same see the same /dev/shm: containers of one host may have their own.
std::string place() {
  struct stat s {};
  const bool there = ::stat(kFolder, &s) == 0;
  return bora::detail::join(host_name(), " ", boot_id(), " ", there ? s.st_dev : 0, " ",
                            there ? s.st_ino : 0);
}

std::string new_name() {
  std::random_device random;
  const int64_t pid = ::getpid();
  return bora::detail::join("bora-", pid, "-cache-", process_born(pid), "-", random());
}

/// Segments whose maker was killed between making and unnaming them, at least a minute ago: a
/// living one of a container whose processes are hidden from us is unnamed by then.
void remove_dead_segments() {
  std::error_code ignored;
  for (fs::directory_iterator it(kFolder, ignored), end; !ignored && it != end;
       it.increment(ignored)) {
    const std::string name = it->path().filename().string();
    int64_t pid = 0, born = 0;
    if (std::sscanf(name.c_str(), "bora-%" SCNd64 "-cache-%" SCNd64 "-", &pid, &born) != 2)
      continue;
    struct stat s {};
    if (::stat(it->path().c_str(), &s) != 0 || ::time(nullptr) - s.st_mtime < 60) continue;
    if (process_ended(pid) || process_born(pid) != born) ::shm_unlink(("/" + name).c_str());
  }
}

class SharedStore final : public CacheStore {
 public:
  SharedStore(std::vector<int64_t> bytes, int64_t limit, const std::string& key, Collective* ranks)
      : bytes_(std::move(bytes)), limit_(limit), key_(key) {
    const auto n = static_cast<int64_t>(bytes_.size());
    const int64_t page = ::sysconf(_SC_PAGESIZE);
    header_bytes_ = rounded(
        static_cast<int64_t>(sizeof(Header)) + n * static_cast<int64_t>(sizeof(Slot)), page);
    int64_t all = 0;
    for (const int64_t b : bytes_) all += rounded(b, kAlign);
    room_ = std::min(all, limit);
    join(ranks);
  }
  ~SharedStore() override {
    if (data_ != nullptr) ::munmap(data_, static_cast<size_t>(total()));
    if (header_ != nullptr) ::munmap(header_, static_cast<size_t>(header_bytes_));
    if (fd_ >= 0) ::close(fd_);
  }
  SharedStore(const SharedStore&) = delete;
  SharedStore& operator=(const SharedStore&) = delete;

  bool read(size_t field, const CacheBox& box, void* to) override {
    const Slot& slot = slots()[field];
    if (slot.state.load(std::memory_order_acquire) != kKept) return false;
    copy_box(data_ + header_bytes_ + slot.offset, box, to);
    return true;
  }
  bool claim(size_t field) override {
    Slot& slot = slots()[field];
    uint32_t open = kOpen;
    if (full() || !slot.state.compare_exchange_strong(open, kTaken)) return false;
    const int64_t want = rounded(bytes_[field], kAlign);
    int64_t used = header_->used.load();
    while (used + want <= room_ && !header_->used.compare_exchange_weak(used, used + want)) {
    }
    slot.offset = used;
    if (used + want <= room_) return true;
    slot.state = kOpen;
    return false;
  }
  // A rank that dies in here leaves the state at `taken`: nobody looks at these bytes.
  void put(size_t field, const Tensor& whole) override {
    Slot& slot = slots()[field];
    const auto* from = static_cast<const char*>(whole.raw());
    for (int64_t done = 0; done < bytes_[field];) {
      const ssize_t n =
          ::pwrite(fd_, from + done, static_cast<size_t>(std::min(bytes_[field] - done, kPiece)),
                   header_bytes_ + slot.offset + done);
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) {
        const int code = n < 0 ? errno : ENOSPC;
        header_->full = 1;
        BORA_FAIL("shared memory is full after ", header_->used.load() >> 20, " MiB, though ",
                  kFolder, " had the room at the start: somebody else has filled it (",
                  std::strerror(code), "); no more is kept");
      }
      done += n;
    }
    slot.state.store(kKept, std::memory_order_release);
  }
  // The place is lost, since others lie behind it; its pages are given back.
  void drop(size_t field) noexcept override {
    Slot& slot = slots()[field];
    slot.state = kRefused;
    ::fallocate(fd_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, header_bytes_ + slot.offset,
                bytes_[field]);
  }
  int64_t bytes() const override { return header_->used.load(); }
  int64_t room_for(int64_t field_bytes) const override { return rounded(field_bytes, kAlign); }
  std::string where() const override { return "by the ranks of a host"; }

 private:
  static constexpr uint32_t kOpen = 0, kTaken = 1, kKept = 2, kRefused = 3;
  static constexpr int64_t kPiece = int64_t{64} << 20;
  // All zero when it is made.
  struct Header {
    std::atomic<int64_t> used;
    std::atomic<uint32_t> full;
  };
  struct Slot {
    std::atomic<uint32_t> state;
    int64_t offset;  // written by who has taken it, read by all once it is kept
  };
  static_assert(std::atomic<int64_t>::is_always_lock_free &&
                std::atomic<uint32_t>::is_always_lock_free);  // else not between processes

  int64_t total() const { return header_bytes_ + room_; }
  bool full() const { return header_->full.load(std::memory_order_relaxed) != 0; }
  Slot* slots() const {
    return reinterpret_cast<Slot*>(reinterpret_cast<char*>(header_) + sizeof(Header));
  }

  void join(Collective* ranks) {
    const auto agree = [&](const char* what, const std::function<void()>& body) {
      ranks != nullptr ? ranks->agree(what, body) : body();
    };
    const auto all = [&](const std::string& text) {
      return ranks != nullptr ? ranks->all_gather_text(text, "shared cache")
                              : std::vector<std::string>{text};
    };
    const size_t mine = ranks != nullptr ? static_cast<size_t>(ranks->rank()) : 0;
    const std::vector<std::string> places = all(place());
    const auto leader =
        static_cast<size_t>(std::find(places.begin(), places.end(), places[mine]) - places.begin());

    struct Name {  // removed once all have opened it, or will not
      std::string name;
      ~Name() {
        if (!name.empty()) ::shm_unlink(("/" + name).c_str());
      }
    } name;
    agree("making the shared cache", [&] {
      if (leader == mine) make(name.name);
    });
    const std::string theirs = all(name.name)[leader];
    agree("opening the shared cache", [&] {
      if (leader != mine) {
        fd_ = ::shm_open(("/" + theirs).c_str(), O_RDWR | O_CLOEXEC, 0);
        BORA_CHECK(fd_ >= 0, kFolder, "/", theirs, ": ", std::strerror(errno));
      }
      map();
    });
  }

  void make(std::string& name) {
    remove_dead_segments();
    struct statvfs s {};
    BORA_CHECK(::statvfs(kFolder, &s) == 0, kFolder, ": ", std::strerror(errno));
    const auto free = static_cast<int64_t>(s.f_bavail) * static_cast<int64_t>(s.f_frsize);
    if (total() > free)
      throw UsageError(bora::detail::join(key_, ".kind=shared: ", total() >> 20,
                                          " MiB are wanted (the data, or ", key_, ".limit_gib), ",
                                          kFolder, " of host ", host_name(), " has ", free >> 20,
                                          " MiB free: a smaller ", key_, ".limit_gib, ", key_,
                                          ".kind=ram or disk, or a larger ", kFolder));
    const std::string own = new_name();
    fd_ = ::shm_open(("/" + own).c_str(), O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, 0600);
    BORA_CHECK(fd_ >= 0, "making ", kFolder, "/", own, ": ", std::strerror(errno));
    name = own;
    BORA_CHECK(::ftruncate(fd_, total()) == 0, kFolder, "/", own, ", ", total(),
               " bytes: ", std::strerror(errno));
    const int lacking = ::posix_fallocate(fd_, 0, header_bytes_);  // the part written in place
    BORA_CHECK(lacking == 0, kFolder, "/", own, ": ", std::strerror(lacking));
  }

  void map() {
    void* header = ::mmap(nullptr, static_cast<size_t>(header_bytes_), PROT_READ | PROT_WRITE,
                          MAP_SHARED, fd_, 0);
    BORA_CHECK(header != MAP_FAILED, "mapping shared memory: ", std::strerror(errno));
    header_ = static_cast<Header*>(header);
    void* data = ::mmap(nullptr, static_cast<size_t>(total()), PROT_READ, MAP_SHARED, fd_, 0);
    BORA_CHECK(data != MAP_FAILED, "mapping ", total(),
               " bytes of shared memory: ", std::strerror(errno));
    data_ = static_cast<char*>(data);
  }

  const std::vector<int64_t> bytes_;
  const int64_t limit_;
  const std::string key_;
  int64_t header_bytes_ = 0, room_ = 0;
  int fd_ = -1;
  Header* header_ = nullptr;
  char* data_ = nullptr;
};

}  // namespace

std::unique_ptr<CacheStore> make_shared_store(std::vector<int64_t> bytes, int64_t limit,
                                              const std::string& key, Collective* ranks) {
  return std::make_unique<SharedStore>(std::move(bytes), limit, key, ranks);
}

}  // namespace bora::data
