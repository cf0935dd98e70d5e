// SPDX-License-Identifier: Apache-2.0
#include "data/hdf5.hpp"

#include <fcntl.h>
#include <hdf5.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <mutex>
#include <string_view>

#include "core/crash_note.hpp"
#include "core/error.hpp"
#include "core/profile.hpp"
#include "data/hdf5_chunks.hpp"
#include "data/hdf5_lock.hpp"
#include "data/hdf5_mark.hpp"
#include "data/hdf5_reader_driver.hpp"
#include "data/hdf5_writer_driver.hpp"
#include "data/read_at.hpp"

namespace bora::data::hdf5 {

static_assert(sizeof(hid_t) == sizeof(int64_t), "ids are kept as int64_t");

namespace {

std::recursive_mutex& library_mutex() {
  static std::recursive_mutex mutex;
  return mutex;
}

/// How often the calling thread holds the mutex.
int& lock_depth() {
  thread_local int depth = 0;
  return depth;
}

/// Of the mutex's present owner.  The name has a mutex of its own, never held for long: who asks
/// must not wait for the owner.
struct Holder {
  std::atomic<double> since_s{-1};  // now_s(); negative: nobody
  std::mutex mutex;
  std::string file;
};
Holder& holder() {
  static Holder* holder = new Holder;  // never destroyed: threads that hang outlive main()
  return *holder;
}

/// Collects the library's error stack; walked from the outermost call to the deepest.
herr_t collect(unsigned, const H5E_error2_t* entry, void* out) {
  auto& text = *static_cast<std::string*>(out);
  if (entry->desc == nullptr || *entry->desc == '\0') return 0;
  if (!text.empty()) text += " <- ";
  text += entry->desc;
  return 0;
}

/// Refuses what is not HDF5 with a word on what it is, before the library's own vague message.
void check_signature(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);  // a FIFO must not block
  if (fd < 0) {
    const int code = errno;
    BORA_FAIL("cannot open '", path, "' for reading: ", std::strerror(code), " (errno ", code, ")");
  }
  struct stat status {};
  if (::fstat(fd, &status) == 0 && !S_ISREG(status.st_mode)) {
    ::close(fd);
    BORA_FAIL("cannot read '", path, "': it is ",
              S_ISDIR(status.st_mode) ? "a folder" : "no plain file");
  }
  std::array<unsigned char, 4> head{};
  const int64_t n = read_at(fd, 0, std::ssize(head), head.data());
  const off_t size = ::lseek(fd, 0, SEEK_END);
  const bool found = has_hdf5_mark(
      size, [fd](int64_t at, void* to, int64_t bytes) { return read_at(fd, at, bytes, to); });
  ::close(fd);
  const int code = static_cast<int>(-n);
  BORA_CHECK(n >= 0, "cannot read '", path, "': ", std::strerror(code), " (errno ", code, ")");
  if (found) return;
  BORA_CHECK(n > 0, "'", path, "' is empty (0 bytes); wanted an HDF5 or NetCDF-4 file");
  if (n >= 4 && std::memcmp(head.data(), "CDF", 3) == 0) {
    const char* kind = head[3] == 1   ? "NetCDF-3 (classic, CDF-1)"
                       : head[3] == 2 ? "NetCDF-3 (64-bit offset, CDF-2)"
                       : head[3] == 5 ? "NetCDF-3 (64-bit data, CDF-5)"
                                      : "NetCDF (unknown classic version)";
    BORA_FAIL("'", path, "' is a ", kind,
              " file, which is not HDF5; convert it with: nccopy -k nc4 '", path,
              "' out.nc (or: ncks -4 '", path, "' out.nc)");
  }
  if (n >= 2 && head[0] == 0x1f && head[1] == 0x8b)
    BORA_FAIL("'", path, "' is compressed as a whole by gzip; unpack it first (gunzip)");
  BORA_FAIL("'", path, "' is not an HDF5 or NetCDF-4 file (no HDF5 signature; ", size, " bytes)");
}

}  // namespace

Lock::Lock() {
  library_mutex().lock();
  if (++lock_depth() == 1) holder().since_s = now_s();
  // The switch is per thread in a thread-safe build.
  thread_local bool silent = false;
  if (!silent) {
    // Every file is closed by its owner.  The library's own handler at exit would wait for a thread
    // that hangs in a read (data/loader.hpp), for ever.  Before the library's first call, else it
    // does nothing.
    H5dont_atexit();
    H5open();
    H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);
    silent = true;
  }
}

Lock::~Lock() {
  if (--lock_depth() == 0) holder().since_s = -1;
  library_mutex().unlock();
}

LockHeld lock_held() {
  Holder& h = holder();
  const double since_s = h.since_s;
  if (since_s < 0) return {};
  const std::lock_guard lock(h.mutex);
  return {std::max(now_s() - since_s, 1e-9), h.file};
}

void detail::note_holder(const std::string& file) {
  const std::lock_guard lock(holder().mutex);
  holder().file = file;
}

bool detail::holds_lock() { return lock_depth() > 0; }

void detail::require_lock(const char* call) {
  BORA_CHECK(holds_lock(), "hdf5: a call of the library without the Lock: ", call);
}

detail::Unlocked::Unlocked() : depth_(std::exchange(lock_depth(), 0)) {
  if (depth_ > 0) holder().since_s = -1;
  for (int i = 0; i < depth_; ++i) library_mutex().unlock();
}

detail::Unlocked::~Unlocked() {
  for (int i = 0; i < depth_; ++i) library_mutex().lock();
  if (depth_ > 0) holder().since_s = now_s();
  lock_depth() = depth_;
}

namespace {
/// "truncated file: eof = 20000, sblock->base_addr = 0, stored_eof = 134273" for people; empty for
/// other reasons.
std::string truncation_of(const std::string& text) {
  const size_t at = text.find("truncated file: eof = ");
  if (at == text.npos) return {};
  unsigned long long found = 0, base = 0, wanted = 0;
  if (std::sscanf(text.c_str() + at,
                  "truncated file: eof = %llu, sblock->base_addr = %llu, stored_eof = %llu", &found,
                  &base, &wanted) != 3)
    return {};
  return bora::detail::join("the file is truncated: it has ", found, " of ", base + wanted,
                            " bytes; was it copied or written to its end?");
}
}  // namespace

std::string Status::text(Code) {
  std::string text;
  H5Ewalk2(H5E_DEFAULT, H5E_WALK_DOWNWARD, &collect, &text);
  H5Eclear2(H5E_DEFAULT);
  if (const std::string truncation = truncation_of(text); !truncation.empty()) return truncation;
  // What our own driver says is clearer than what the library makes of it.
  if (text.find("driver read request failed") != text.npos)
    if (const std::string refusal = detail::take_refusal(); !refusal.empty())
      text += "; in the file: " + refusal;
  // "bad version number for layout message" and its kin: what a later library made of the file.
  if (text.find("version number") != text.npos)
    text += "; the file is damaged, or written for a later HDF5 than " + library_version() +
            ": then rewrite it there, with h5repack --high=2 FILE NEW (in h5py: "
            "libver=('earliest', 'v110'))";
  return text.empty() ? "no reason given by the library" : text;
}

void detail::refuse_call(const char* call, int64_t code, std::source_location where) {
  const std::string_view text = call;
  bora::detail::throw_error(bora::detail::join(Status::name, ": ", text.substr(0, text.find('(')),
                                               " failed: ", Status::text(code)),
                            where);
}

Id::Id(int64_t value) : value_(value), process_(::getpid()) {}

Id::Id(Id&& other) noexcept : value_(std::exchange(other.value_, -1)), process_(other.process_) {}

Id& Id::operator=(Id&& other) noexcept {
  if (this != &other) {
    reset();
    value_ = std::exchange(other.value_, -1);
    process_ = other.process_;
  }
  return *this;
}

int64_t Id::get() const {
  BORA_CHECK(value_ >= 0, "hdf5: use of a file, group or data set that is not open");
  BORA_CHECK(process_ == ::getpid(), "hdf5: a file opened before fork() is used in the child (pid ",
             ::getpid(), "); open it again there");
  return value_;
}

void Id::reset() noexcept {
  const int64_t value = std::exchange(value_, -1);
  // A forked child must not write the parent's buffers or move its file position.
  if (value < 0 || process_ != ::getpid()) return;
  Lock lock;
  BORA_HDF5_WARN(H5Idec_ref(value));
}

File File::open(const std::string& path) {
  const CrashNote note(path);
  Lock lock;
  detail::note_holder(path);
  check_signature(path);
  return with_context("cannot open '" + path + "'", [&] {
    const Id list(BORA_HDF5(H5Pcreate(H5P_FILE_ACCESS)));
    detail::set_reader_driver(list.get());  // which has no locks
    File file;
    file.file_ = path;
    file.label_ = path + ":/";
    file.file_id_ = Id(BORA_HDF5(H5Fopen(path.c_str(), H5F_ACC_RDONLY, list.get())));
    file.id_ = Id(BORA_HDF5(H5Gopen2(file.file_id_.get(), "/", H5P_DEFAULT)));
    return file;
  });
}

File File::create(const std::string& path) {
  Lock lock;
  const Id list(BORA_HDF5(H5Pcreate(H5P_FILE_ACCESS)));
  // Writers go to a name of their own (AtomicFile), so a lock would guard nothing: the driver has
  // none.
  const auto fault = std::make_shared<detail::WriteFault>();
  detail::set_writer_driver(list.get(), fault);
  return with_context("cannot create '" + path + "'", [&] {
    // As NetCDF-4 wants it: links and attributes keep the order in which they were made.
    const Id creation(BORA_HDF5(H5Pcreate(H5P_FILE_CREATE)));
    BORA_HDF5(
        H5Pset_link_creation_order(creation.get(), H5P_CRT_ORDER_TRACKED | H5P_CRT_ORDER_INDEXED));
    BORA_HDF5(
        H5Pset_attr_creation_order(creation.get(), H5P_CRT_ORDER_TRACKED | H5P_CRT_ORDER_INDEXED));
    BORA_HDF5(H5Pset_obj_track_times(creation.get(), false));
    File file;
    file.file_ = path;
    file.label_ = path + ":/";
    file.fault_ = fault;
    const hid_t id = H5Fcreate(path.c_str(), H5F_ACC_TRUNC, creation.get(), list.get());
    if (id < 0 && fault->code != 0) {
      H5Eclear2(H5E_DEFAULT);
      BORA_FAIL(std::strerror(fault->code), " (errno ", fault->code, ")");
    }
    file.file_id_ = Id(BORA_HDF5(id));
    file.writable_ = true;
    file.id_ = Id(BORA_HDF5(H5Gopen2(file.file_id_.get(), "/", H5P_DEFAULT)));
    return file;
  });
}

void File::check_written() const {
  Lock lock;
  BORA_CHECK(!fault_ || fault_->code == 0, "writing '", file_, "': ", std::strerror(fault_->code),
             " (errno ", fault_->code, ")");
}

void File::flush() {
  Lock lock;
  with_context("writing '" + file_ + "'",
               [&] { BORA_HDF5(H5Fflush(file_id_.get(), H5F_SCOPE_LOCAL)); });
  check_written();
}

void File::close() {
  if (!file_id_) return;
  Lock lock;
  with_context("closing '" + file_ + "'", [&] {
    if (writable_) BORA_HDF5(H5Fflush(file_id_.get(), H5F_SCOPE_LOCAL));
    id_.reset();
    BORA_HDF5(H5Idec_ref(file_id_.release()));
  });
  check_written();
}

File::~File() {
  if (!file_id_) return;
  Lock lock;
  id_.reset();
  file_id_.reset();
}

std::string detail::list_of(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names)
    text += bora::detail::join(text.empty() ? "'" : ", '", name, "'");
  return text.empty() ? "none" : text;
}

int64_t open_objects() {
  Lock lock;
  return BORA_HDF5(H5Fget_obj_count(static_cast<hid_t>(H5F_OBJ_ALL), H5F_OBJ_ALL));
}

bool library_is_threadsafe() {
  Lock lock;
  hbool_t safe = 0;
  BORA_HDF5(H5is_library_threadsafe(&safe));
  return safe != 0;
}

std::string library_version() {
  Lock lock;
  unsigned a = 0, b = 0, c = 0;
  BORA_HDF5(H5get_libversion(&a, &b, &c));
  return std::to_string(a) + "." + std::to_string(b) + "." + std::to_string(c);
}

}  // namespace bora::data::hdf5
