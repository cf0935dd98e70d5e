// SPDX-License-Identifier: Apache-2.0
#include "kernels/simt/memory.hpp"

#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <string>

#include "core/error.hpp"
#include "kernels/simt/emulator.hpp"

namespace bora::simt {
namespace {

constexpr size_t kPage = 4096;
constexpr ssize_t kPattern = ssize_t{4} << 20;
constexpr size_t kRegionBytes = size_t{1} << 38;  // addresses, not memory

size_t round_up(int64_t bytes) { return (static_cast<size_t>(bytes) + kPage - 1) / kPage * kPage; }

class DeviceMemory {
 public:
  DeviceMemory() {
    void* base = ::mmap(nullptr, kRegionBytes, PROT_NONE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    BORA_CHECK(base != MAP_FAILED, "emulated device: no addresses for its memory (",
               std::strerror(errno), ")");
    base_ = static_cast<char*>(base);
    const char* strict = std::getenv("BORA_EMULATOR_STRICT");
    if (strict != nullptr && std::strcmp(strict, "0") != 0 && *strict != '\0') set_strict(true);
  }

  void* allocate(int64_t bytes) {
    const std::lock_guard lock(mutex_);
    const size_t size = round_up(bytes);
    char* data = nullptr;
    // First fit; a page is left free behind every piece.
    for (auto hole = holes_.begin(); hole != holes_.end(); ++hole) {
      if (hole->second < size + kPage) continue;
      data = hole->first;
      const size_t rest = hole->second - size - kPage;
      holes_.erase(hole);
      if (rest > 0) holes_[data + size + kPage] = rest;
      break;
    }
    if (data == nullptr) {
      BORA_CHECK(top_ + size + kPage <= kRegionBytes, "emulated device: out of memory, ",
                 bytes >> 20, " MiB were asked for");
      data = base_ + top_;
      top_ += size + kPage;
    }
    map_nan(data, size);
    pieces_[data] = size;
    if (strict_ && open_ == 0) protect(data, size, PROT_NONE);
    return data;
  }

  void free(void* data, int64_t bytes) noexcept {
    const std::lock_guard lock(mutex_);
    const size_t size = round_up(bytes);
    pieces_.erase(static_cast<char*>(data));
    ::mmap(data, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
    auto hole = holes_.insert({static_cast<char*>(data), size + kPage}).first;
    const auto next = std::next(hole);
    if (next != holes_.end() && hole->first + hole->second == next->first) {
      hole->second += next->second;
      holes_.erase(next);
    }
    if (hole != holes_.begin()) {
      const auto before = std::prev(hole);
      if (before->first + before->second == hole->first) {
        before->second += hole->second;
        holes_.erase(hole);
      }
    }
  }

  void open() {
    if (!strict_) return;
    const std::lock_guard lock(mutex_);
    if (open_++ == 0) protect_all(PROT_READ | PROT_WRITE);
  }
  void close() noexcept {
    if (!strict_) return;
    const std::lock_guard lock(mutex_);
    if (--open_ == 0) protect_all(PROT_NONE);
  }

  bool contains(const void* p) const { return p >= base_ && p < base_ + kRegionBytes; }

  bool strict() const { return strict_; }
  void set_strict(bool on) {
    const std::lock_guard lock(mutex_);
    BORA_CHECK(open_ == 0, "emulated device: strict memory cannot change inside a launch");
    if (on == strict_) return;
    if (on && !handler_set_) {
      struct sigaction action {};
      action.sa_sigaction = &DeviceMemory::on_fault;
      action.sa_flags = SA_SIGINFO;
      ::sigaction(SIGSEGV, &action, &before_);
      handler_set_ = true;
    }
    strict_ = on;
    protect_all(on ? PROT_NONE : PROT_READ | PROT_WRITE);
  }

 private:
  static void on_fault(int signal, siginfo_t* info, void*);

  /// Memory that reads as NaN in all floating types (-1 or 255 in the others).  One piece of it,
  /// mapped again and again and copied where it is written: a test that uses little of a segment
  /// does not pay for all of it.
  void map_nan(char* data, size_t size) {
    if (pattern_ < 0) {
      pattern_ = ::memfd_create("bora_emulated_device", MFD_CLOEXEC);
      const std::string bytes(kPattern, '\xff');
      BORA_CHECK(pattern_ >= 0 && ::write(pattern_, bytes.data(), kPattern) == kPattern,
                 "emulated device: memfd_create: ", std::strerror(errno));
    }
    for (size_t at = 0; at < size; at += kPattern) {
      const void* got = ::mmap(data + at, std::min<size_t>(kPattern, size - at),
                               PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED, pattern_, 0);
      BORA_CHECK(got != MAP_FAILED, "emulated device: out of memory, ", size >> 20,
                 " MiB were asked for (", std::strerror(errno), ")");
    }
  }

  static void protect(char* data, size_t size, int how) {
    BORA_CHECK(::mprotect(data, size, how) == 0,
               "emulated device: mprotect: ", std::strerror(errno));
  }
  void protect_all(int how) {
    for (const auto& [data, size] : pieces_) ::mprotect(data, size, how);
  }

  char* base_ = nullptr;
  size_t top_ = 0;
  std::mutex mutex_;
  std::map<char*, size_t> pieces_, holes_;  // address -> bytes; a hole's with the page behind it
  int open_ = 0, pattern_ = -1;
  bool strict_ = false, handler_set_ = false;
  struct sigaction before_ {};
};

// Never destroyed: tensors in static variables are freed late.
DeviceMemory& memory() {
  static auto* instance = new DeviceMemory();
  return *instance;
}

void DeviceMemory::on_fault(int signal, siginfo_t* info, void*) {
  DeviceMemory& m = memory();
  if (m.contains(info->si_addr)) {
    static constexpr char kText[] =
        "bora emulator: the host read or wrote memory of the emulated device outside a launch: "
        "code "
        "that dereferences a pointer into device memory would crash with a GPU\n";
    [[maybe_unused]] const auto written = ::write(STDERR_FILENO, kText, sizeof kText - 1);
  }
  // The access is repeated and finds the handler that was there before.
  ::sigaction(signal, &m.before_, nullptr);
}

}  // namespace

void set_strict(bool on) { memory().set_strict(on); }
bool strict() { return memory().strict(); }
bool is_device_memory(const void* p) { return memory().contains(p); }

namespace detail {

void* device_allocate(int64_t bytes) { return memory().allocate(bytes); }
void device_free(void* data, int64_t bytes) noexcept { memory().free(data, bytes); }
DeviceAccess::DeviceAccess() { memory().open(); }
DeviceAccess::~DeviceAccess() { memory().close(); }

}  // namespace detail

}  // namespace bora::simt
