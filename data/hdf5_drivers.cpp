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
#include <optional>
#include <string>
#include <utility>

#include "core/error.hpp"
#include "data/hdf5.hpp"
#include "data/hdf5_metadata_guard.hpp"
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
  MetadataGuard guard;
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
  file->guard = {fd, file->end_of_file};
  return &file->shared;
}

herr_t close_file(H5FD_t* file) {
  const std::unique_ptr<OpenFile> own(&mine(file));
  ::close(own->handle.descriptor);
  return 0;
}

herr_t query(const H5FD_t*, unsigned long* flags) {
  // As sec2, but without two buffers of the library's: H5FD_FEAT_ACCUMULATE_METADATA copies behind
  // its end for addresses of a damaged file, and what a read that failed has left in
  // H5FD_FEAT_DATA_SIEVE is given as values to the next one.
  if (flags != nullptr) *flags = H5FD_FEAT_DEFAULT_VFD_COMPATIBLE;
  return 0;
}

herr_t get_handle(H5FD_t* file, hid_t, void** handle) {
  *handle = &mine(file).handle;
  return 0;
}

/// Nothing for what has a checksum.  Global heaps are read as values are (1.10.8).
std::optional<MetadataGuard::Part> part_of(H5FD_mem_t type) {
  using Part = MetadataGuard::Part;
  switch (type) {
    case H5FD_MEM_SUPER:
      return Part::superblock;
    case H5FD_MEM_OHDR:
      return Part::header;
    case H5FD_MEM_GHEAP:
    case H5FD_MEM_DRAW:
      return Part::values;
    case H5FD_MEM_LHEAP:
      return Part::local_heap;
    case H5FD_MEM_BTREE:
      return Part::index;
    default:
      return std::nullopt;
  }
}

std::string& refusal() {
  thread_local std::string text;
  return text;
}

herr_t read(H5FD_t* file, H5FD_mem_t type, hid_t, haddr_t at, size_t bytes, void* buffer) {
  OpenFile& f = mine(file);
  if (type == H5FD_MEM_DRAW && bytes < static_cast<size_t>(f.handle.least_read)) return -1;
  if (at > kLargestAddress || bytes > kLargestAddress || at >= f.end_of_file) return -1;
  const int64_t n =
      read_at(f.handle.descriptor, static_cast<int64_t>(at), static_cast<int64_t>(bytes), buffer);
  if (n < 0) return -1;
  const auto done = static_cast<size_t>(n);
  if (bytes - done > 65536) return -1;  // more than a guess of a header's size; GiB have been seen
  std::memset(static_cast<char*>(buffer) + done, 0, bytes - done);  // as sec2 does
  const auto part = part_of(type);
  if (!part ||
      f.guard.takes(*part, at, static_cast<unsigned char*>(buffer), bytes, file->base_addr))
    return 0;
  refusal() = f.guard.why();
  return -1;
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

std::string take_refusal() { return std::exchange(reader::refusal(), {}); }

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
