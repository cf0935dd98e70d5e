// SPDX-License-Identifier: Apache-2.0
// The writer's driver keeps what could not be written, the reader's mistrusts the file.
#include <fcntl.h>
#include <hdf5.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <iterator>
#include <memory>
#include <utility>
#include <vector>

#include "core/error.hpp"
#include "data/hdf5.hpp"
#include "data/hdf5_reader_driver.hpp"
#include "data/hdf5_stored.hpp"
#include "data/hdf5_writer_driver.hpp"
#include "data/read_at.hpp"
#if __has_include(<H5FDdevelop.h>)
#include <H5FDdevelop.h>  // where newer libraries declare H5FD_class_t
#endif

namespace bora::data::hdf5::detail {
namespace {

/// An open file.  The library sees its first member; a driver derives from it.
struct DriverFile {
  H5FD_t shared{};
  haddr_t end_of_allocation = 0, end_of_file = 0;
  dev_t device = 0;
  ino_t inode = 0;

  void set_identity(const struct stat& s) {
    device = s.st_dev;
    inode = s.st_ino;
  }
};

constexpr haddr_t kLargestAddress = (haddr_t{1} << 62) - 1;  // what off_t can say, and sums of two

DriverFile& driver_file(H5FD_t* file) { return *reinterpret_cast<DriverFile*>(file); }
const DriverFile& driver_file(const H5FD_t* file) {
  return *reinterpret_cast<const DriverFile*>(file);
}

/// A class with what depends on DriverFile alone filled in.  `value`: 512 and up belong to drivers
/// that nobody registered.
H5FD_class_t driver_class(const char* name, int value) {
  H5FD_class_t c{};
#ifdef H5FD_CLASS_VERSION
  c.version = H5FD_CLASS_VERSION;
  c.value = static_cast<H5FD_class_value_t>(value);
#else
  static_cast<void>(value);
#endif
  c.name = name;
  c.maxaddr = kLargestAddress;
  c.fc_degree = H5F_CLOSE_WEAK;
  c.cmp = [](const H5FD_t* a, const H5FD_t* b) {
    const DriverFile &x = driver_file(a), &y = driver_file(b);
    if (x.device != y.device) return x.device < y.device ? -1 : 1;
    return x.inode == y.inode ? 0 : x.inode < y.inode ? -1 : 1;
  };
  c.get_eoa = [](const H5FD_t* file, H5FD_mem_t) { return driver_file(file).end_of_allocation; };
  c.set_eoa = [](H5FD_t* file, H5FD_mem_t, haddr_t end) -> herr_t {
    driver_file(file).end_of_allocation = end;
    return 0;
  };
  c.get_eof = [](const H5FD_t* file, H5FD_mem_t) { return driver_file(file).end_of_file; };
  constexpr H5FD_mem_t kMap[] = H5FD_FLMAP_DICHOTOMY;
  std::copy(std::begin(kMap), std::end(kMap), c.fl_map);
  return c;
}

namespace writer {

struct OpenFile : DriverFile {
  int fd = -1;
  std::shared_ptr<WriteFault> fault;
};

OpenFile& mine(H5FD_t* file) { return static_cast<OpenFile&>(driver_file(file)); }

H5FD_t* open_file(const char* name, unsigned, hid_t access_list, haddr_t) {
  const auto* info =
      static_cast<const std::shared_ptr<WriteFault>* const*>(H5Pget_driver_info(access_list));
  if (info == nullptr) return nullptr;
  // 0666: the umask decides who may read the result.
  const int fd = ::open(name, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, mode_t{0666});
  struct stat s {};
  if (fd < 0 || ::fstat(fd, &s) != 0) {
    (**info)->code = errno;
    if (fd >= 0) ::close(fd);
    return nullptr;
  }
  auto* file = new OpenFile;
  file->set_identity(s);
  file->fd = fd;
  file->fault = **info;
  return &file->shared;
}

herr_t close_file(H5FD_t* file) {
  const std::unique_ptr<OpenFile> own(&mine(file));
  if (::close(own->fd) != 0 && own->fault->code == 0) own->fault->code = errno;
  return 0;
}

herr_t query(const H5FD_t*, unsigned long* flags) {
  *flags = H5FD_FEAT_AGGREGATE_METADATA | H5FD_FEAT_ACCUMULATE_METADATA | H5FD_FEAT_DATA_SIEVE |
           H5FD_FEAT_AGGREGATE_SMALLDATA | H5FD_FEAT_DEFAULT_VFD_COMPATIBLE;
  return 0;
}

herr_t get_handle(H5FD_t* file, hid_t, void** handle) {
  *handle = &mine(file).fd;
  return 0;
}

herr_t read(H5FD_t* file, H5FD_mem_t, hid_t, haddr_t at, size_t bytes, void* buffer) {
  OpenFile& f = mine(file);
  const int64_t n = read_at(f.fd, static_cast<int64_t>(at), static_cast<int64_t>(bytes), buffer);
  if (n < 0 && f.fault->code == 0) f.fault->code = static_cast<int>(-n);
  const size_t done = n < 0 ? 0 : static_cast<size_t>(n);
  std::memset(static_cast<char*>(buffer) + done, 0, bytes - done);
  return 0;
}

herr_t write(H5FD_t* file, H5FD_mem_t, hid_t, haddr_t at, size_t bytes, const void* buffer) {
  OpenFile& f = mine(file);
  f.end_of_file = std::max(f.end_of_file, at + bytes);
  const char* in = static_cast<const char*>(buffer);
  while (bytes > 0 && f.fault->code == 0) {
    const ssize_t n = ::pwrite(f.fd, in, bytes, static_cast<off_t>(at));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) {
      f.fault->code = n < 0 ? errno : EIO;
      break;
    }
    in += n;
    at += static_cast<haddr_t>(n);
    bytes -= static_cast<size_t>(n);
  }
  return 0;
}

herr_t truncate(H5FD_t* file, hid_t, hbool_t) {
  OpenFile& f = mine(file);
  if (f.end_of_file == f.end_of_allocation) return 0;
  if (f.fault->code == 0 && ::ftruncate(f.fd, static_cast<off_t>(f.end_of_allocation)) != 0)
    f.fault->code = errno;
  f.end_of_file = f.end_of_allocation;
  return 0;
}

hid_t driver() {
  static const hid_t id = [] {
    H5FD_class_t c = driver_class("bora_writer", 512);
    c.fapl_size = sizeof(void*);  // a pointer to the caller's shared_ptr, which open_file() copies
    c.open = &open_file;
    c.close = &close_file;
    c.query = &query;
    c.get_handle = &get_handle;
    c.read = &read;
    c.write = &write;
    c.truncate = &truncate;
    return BORA_HDF5(H5FDregister(&c));
  }();
  return id;
}

}  // namespace writer

namespace reader {

struct OpenFile : DriverFile {
  ReaderHandle handle;
  mutable haddr_t header_begin = HADDR_UNDEF,
                  header_end = HADDR_UNDEF;  // the last read of a header
};

OpenFile& mine(H5FD_t* file) { return static_cast<OpenFile&>(driver_file(file)); }

H5FD_t* open_file(const char* name, unsigned flags, hid_t, haddr_t) {
  if ((flags & (H5F_ACC_RDWR | H5F_ACC_TRUNC | H5F_ACC_CREAT)) != 0) return nullptr;
  const int fd = ::open(name, O_RDONLY | O_CLOEXEC);
  struct stat s {};
  if (fd < 0 || ::fstat(fd, &s) != 0) {
    if (fd >= 0) ::close(fd);
    return nullptr;
  }
  auto* file = new OpenFile;
  file->set_identity(s);
  file->end_of_file = static_cast<haddr_t>(s.st_size);
  file->handle = {fd, state_of(fd).value_or("")};
  return &file->shared;
}

herr_t close_file(H5FD_t* file) {
  const std::unique_ptr<OpenFile> own(&mine(file));
  ::close(own->handle.descriptor);
  return 0;
}

herr_t query(const H5FD_t*, unsigned long* flags) {
  // As sec2, but without H5FD_FEAT_ACCUMULATE_METADATA: that buffer of the library's copies behind
  // its end for addresses of a damaged file.
  if (flags != nullptr) *flags = H5FD_FEAT_DATA_SIEVE | H5FD_FEAT_DEFAULT_VFD_COMPATIBLE;
  return 0;
}

herr_t get_handle(H5FD_t* file, hid_t, void** handle) {
  *handle = &mine(file).handle;
  return 0;
}

uint64_t little_endian(const unsigned char* at) {
  uint64_t value = 0;
  for (int i = 7; i >= 0; --i) value = value << 8 | at[i];
  return value;
}

/// Whether the objects of a global heap collection lie in it, if it is one.  "HDF5 File Format
/// Specification", III.E: "GCOL", version 1, 3 bytes, size of all; then objects of index (2),
/// references (2), 4 bytes, size (8), contents up to a multiple of 8; index 0 is the space that is
/// left.  The library reads it as values are (H5FD_MEM_DRAW), the first 4096 bytes, then the rest.
bool is_sound_heap(const OpenFile& f, haddr_t begin, const unsigned char* at, size_t n) {
  constexpr size_t kHeader = 16;
  if (n < kHeader || std::memcmp(at, "GCOL\1\0\0", 8) != 0) return true;
  const uint64_t size = little_endian(at + 8);
  if (size < 4096 || size > f.end_of_file - begin) return false;
  std::vector<unsigned char> whole(size > n ? size : 0);
  if (size > n) at = whole.data();
  const auto wanted = static_cast<int64_t>(whole.size());
  if (read_at(f.handle.descriptor, static_cast<int64_t>(begin), wanted, whole.data()) != wanted)
    return false;
  for (size_t offset = kHeader; size - offset >= kHeader;) {
    const uint64_t bytes = little_endian(at + offset + 8), rest = size - offset;
    if ((at[offset] | at[offset + 1]) == 0) return bytes <= rest;
    if (bytes > rest - kHeader) return false;
    const uint64_t step = kHeader + (bytes + 7) / 8 * 8;
    if (step > rest) return false;
    offset += step;
  }
  return true;
}

/// Whether an attribute's message holds all that it says.  "HDF5 File Format Specification",
/// IV.A.2.m: version (1), flags (1), sizes of name with its final zero, type and space (2 each), in
/// version 3 one byte more; then these, in version 1 each up to a multiple of 8, and the values. Of
/// the type bytes 4 to 7 are its size; the space: version (1), rank (1), extents of 8 bytes from
/// byte 8 on (version 2: 4).  Shared types and spaces are elsewhere: then the name alone is judged.
bool is_sound_attribute(const unsigned char* message, size_t bytes) {
  const auto two = [&](size_t i) { return static_cast<size_t>(message[i] | message[i + 1] << 8); };
  if (bytes < 8) return false;
  const unsigned version = message[0];
  const size_t name = version == 3 ? 9 : 8, name_bytes = two(2), type_bytes = two(4),
               space_bytes = two(6);
  if (bytes < name || name_bytes > bytes - name ||
      std::memchr(message + name, 0, name_bytes) == nullptr)
    return false;
  if (version != 1 && (message[1] & 3) != 0) return true;
  const auto padded = [&](size_t n) { return version == 1 ? (n + 7) / 8 * 8 : n; };
  const size_t type = name + padded(name_bytes), space = type + padded(type_bytes),
               values = space + padded(space_bytes);
  if (values > bytes) return false;
  if (type_bytes < 8 || space_bytes < 4) return true;  // the library says so
  const unsigned char* s = message + space;
  if (s[0] == 2 && s[3] == 2) return true;  // no values
  const size_t rank = s[1], extents = s[0] == 1 ? 8 : 4;
  if (extents + 8 * rank > space_bytes) return true;
  uint64_t n = little_endian(message + type + 4) & 0xffffffff;
  for (size_t i = 0; i < rank; ++i)
    if (__builtin_mul_overflow(n, little_endian(s + extents + 8 * i), &n)) return false;
  return n <= bytes - values;
}

/// Whether messages of the old object header fill n bytes exactly; `sound` becomes false for an
/// attribute that does not hold what it says.  IV.A.1.a: type (2), size (2), flags (1), 3 bytes,
/// contents.
bool are_messages(const unsigned char* at, size_t n, bool& sound) {
  constexpr size_t kHead = 8;
  constexpr unsigned kAttribute = 12, kShared = 2;
  size_t offset = 0;
  while (n - offset >= kHead) {
    const unsigned char* head = at + offset;
    const unsigned type = head[0] | head[1] << 8;
    const size_t bytes = static_cast<size_t>(head[2] | head[3] << 8);
    if (bytes > n - offset - kHead) return false;
    if (type == kAttribute && (head[4] & kShared) == 0 && !is_sound_attribute(head + kHead, bytes))
      sound = false;
    offset += kHead + bytes;
  }
  return offset == n;
}

/// False for an object header of the old kind, or a continuation of one, with an attribute that
/// does not hold what it says.  The new kind begins with a signature and has checksums.
///
/// What a read holds is not said.  The library reads 512 bytes first, and then what a longer header
/// has behind them: a read that begins where the last one ended may be such a rest, and is judged
/// with its beginning.
bool is_sound_header(const OpenFile& f, haddr_t at, const unsigned char* begin, size_t n) {
  constexpr size_t kPrefix = 16;
  const haddr_t last_end = std::exchange(f.header_end, at + n);
  const haddr_t last_begin = std::exchange(f.header_begin, at);
  const auto looks_old = [](const unsigned char* b, size_t bytes) {
    return bytes >= kPrefix && b[0] == 1 && b[1] == 0;
  };
  const auto old_size = [](const unsigned char* b) {
    return static_cast<size_t>(little_endian(b + 8) & 0xffffffff);
  };
  bool sound = true;
  if (at == last_end) {
    std::vector<unsigned char> whole(static_cast<size_t>(at + n - last_begin));
    const auto bytes = static_cast<int64_t>(whole.size());
    if (read_at(f.handle.descriptor, static_cast<int64_t>(last_begin), bytes, whole.data()) !=
            bytes ||
        !looks_old(whole.data(), whole.size()) || old_size(whole.data()) != whole.size() - kPrefix)
      return true;
    return !are_messages(whole.data() + kPrefix, whole.size() - kPrefix, sound) || sound;
  }
  if (n >= 4 && (std::memcmp(begin, "OHDR", 4) == 0 || std::memcmp(begin, "OCHK", 4) == 0))
    return true;
  if (looks_old(begin, n)) {
    const size_t bytes = old_size(begin);
    if (bytes > n - kPrefix) return true;  // the rest is read next
    if (are_messages(begin + kPrefix, bytes, sound)) return sound;
    sound = true;
  }
  return !are_messages(begin, n, sound) || sound;
}

herr_t read(H5FD_t* file, H5FD_mem_t type, hid_t, haddr_t at, size_t bytes, void* buffer) {
  const OpenFile& f = mine(file);
  if (type == H5FD_MEM_DRAW && bytes < static_cast<size_t>(f.handle.least_read)) return -1;
  if (at > kLargestAddress || bytes > kLargestAddress || at >= f.end_of_file) return -1;
  const int64_t n =
      read_at(f.handle.descriptor, static_cast<int64_t>(at), static_cast<int64_t>(bytes), buffer);
  if (n < 0) return -1;
  const auto done = static_cast<size_t>(n);
  if (bytes - done > 65536) return -1;  // more than a guess of a header's size; GiB have been seen
  std::memset(static_cast<char*>(buffer) + done, 0, bytes - done);  // as sec2 does
  const auto* begin = static_cast<const unsigned char*>(buffer);
  if (type == H5FD_MEM_OHDR && !is_sound_header(f, at, begin, bytes)) return -1;
  return type == H5FD_MEM_DRAW && !is_sound_heap(f, at, begin, bytes) ? -1 : 0;
}

herr_t write(H5FD_t*, H5FD_mem_t, hid_t, haddr_t, size_t, const void*) { return -1; }

hid_t driver() {
  static const hid_t id = [] {
    H5FD_class_t c = driver_class("bora_reader", 513);
    c.open = &open_file;
    c.close = &close_file;
    c.query = &query;
    c.get_handle = &get_handle;
    c.read = &read;
    c.write = &write;
    return BORA_HDF5(H5FDregister(&c));
  }();
  return id;
}

}  // namespace reader

}  // namespace

void set_writer_driver(int64_t access_list, const std::shared_ptr<WriteFault>& fault) {
  const std::shared_ptr<WriteFault>* info = &fault;
  BORA_HDF5(H5Pset_driver(access_list, writer::driver(), &info));
}

void set_reader_driver(int64_t access_list) {
  BORA_HDF5(H5Pset_driver(access_list, reader::driver(), nullptr));
}

bool is_reader_driver(int64_t access_list) {
  return BORA_HDF5(H5Pget_driver(access_list)) == reader::driver();
}

void check_compact(const Dataset& dataset) {
  Lock lock;
  const Id list(BORA_HDF5(H5Dget_create_plist(dataset.id())));
  if (H5Pget_layout(list.get()) != H5D_COMPACT) {
    H5Eclear2(H5E_DEFAULT);
    return;
  }
  const Id type(BORA_HDF5(H5Dget_type(dataset.id())));
  const Id space(BORA_HDF5(H5Dget_space(dataset.id())));
  const auto n = static_cast<uint64_t>(BORA_HDF5(H5Sget_simple_extent_npoints(space.get())));
  const uint64_t bytes = H5Tget_size(type.get()), stored = H5Dget_storage_size(dataset.id());
  BORA_CHECK(bytes > 0 && n <= stored / bytes, "'", dataset.label(), "' has ", n, " elements of ",
             bytes, " bytes, but ", stored, " bytes are stored: the file is damaged");
}

}  // namespace bora::data::hdf5::detail
