// SPDX-License-Identifier: Apache-2.0
#include "data/hdf5_writer_driver.hpp"

#include <fcntl.h>
#include <hdf5.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "data/hdf5.hpp"
#if __has_include(<H5FDdevelop.h>)
#include <H5FDdevelop.h>  // where newer libraries declare H5FD_class_t
#endif

namespace bora::data::hdf5::detail {
namespace {

constexpr haddr_t kLargest = (haddr_t{1} << 62) - 1;  // what off_t can say, with room for sums

/// The library sees its first member; the rest is ours.
struct OpenFile {
  H5FD_t shared;
  int fd;
  haddr_t end_of_allocation, end_of_file;
  dev_t device;
  ino_t inode;
  std::shared_ptr<WriteFault> fault;
};

OpenFile& mine(H5FD_t* file) { return *reinterpret_cast<OpenFile*>(file); }
const OpenFile& mine(const H5FD_t* file) { return *reinterpret_cast<const OpenFile*>(file); }

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
  auto* file = new OpenFile{{}, fd, 0, 0, s.st_dev, s.st_ino, **info};
  return &file->shared;
}

herr_t close_file(H5FD_t* file) {
  const std::unique_ptr<OpenFile> own(&mine(file));
  if (::close(own->fd) != 0 && own->fault->code == 0) own->fault->code = errno;
  return 0;
}

int compare(const H5FD_t* a, const H5FD_t* b) {
  const OpenFile &x = mine(a), &y = mine(b);
  if (x.device != y.device) return x.device < y.device ? -1 : 1;
  return x.inode == y.inode ? 0 : x.inode < y.inode ? -1 : 1;
}

herr_t query(const H5FD_t*, unsigned long* flags) {
  *flags = H5FD_FEAT_AGGREGATE_METADATA | H5FD_FEAT_ACCUMULATE_METADATA | H5FD_FEAT_DATA_SIEVE |
           H5FD_FEAT_AGGREGATE_SMALLDATA | H5FD_FEAT_DEFAULT_VFD_COMPATIBLE;
  return 0;
}

haddr_t get_end_of_allocation(const H5FD_t* file, H5FD_mem_t) {
  return mine(file).end_of_allocation;
}
herr_t set_end_of_allocation(H5FD_t* file, H5FD_mem_t, haddr_t end) {
  mine(file).end_of_allocation = end;
  return 0;
}
haddr_t get_end_of_file(const H5FD_t* file, H5FD_mem_t) { return mine(file).end_of_file; }
herr_t get_handle(H5FD_t* file, hid_t, void** handle) {
  *handle = &mine(file).fd;
  return 0;
}

herr_t read(H5FD_t* file, H5FD_mem_t, hid_t, haddr_t at, size_t bytes, void* buffer) {
  OpenFile& f = mine(file);
  char* out = static_cast<char*>(buffer);
  while (bytes > 0) {
    const ssize_t n = ::pread(f.fd, out, bytes, static_cast<off_t>(at));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && f.fault->code == 0) f.fault->code = errno;
    if (n <= 0) break;
    out += n;
    at += static_cast<haddr_t>(n);
    bytes -= static_cast<size_t>(n);
  }
  std::memset(out, 0, bytes);
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
    H5FD_class_t c{};
#ifdef H5FD_CLASS_VERSION
    c.version = H5FD_CLASS_VERSION;
    c.value = static_cast<H5FD_class_value_t>(512);  // the range of drivers that nobody registered
#endif
    c.name = "bora_writer";
    c.maxaddr = kLargest;
    c.fc_degree = H5F_CLOSE_WEAK;
    c.fapl_size = sizeof(void*);  // a pointer to the caller's shared_ptr, which open_file() copies
    c.open = &open_file;
    c.close = &close_file;
    c.cmp = &compare;
    c.query = &query;
    c.get_eoa = &get_end_of_allocation;
    c.set_eoa = &set_end_of_allocation;
    c.get_eof = &get_end_of_file;
    c.get_handle = &get_handle;
    c.read = &read;
    c.write = &write;
    c.truncate = &truncate;
    constexpr H5FD_mem_t kMap[] = H5FD_FLMAP_DICHOTOMY;
    std::copy(std::begin(kMap), std::end(kMap), c.fl_map);
    return BORA_HDF5(H5FDregister(&c));
  }();
  return id;
}

}  // namespace

void set_writer_driver(int64_t access_list, const std::shared_ptr<WriteFault>& fault) {
  const std::shared_ptr<WriteFault>* info = &fault;
  BORA_HDF5(H5Pset_driver(access_list, driver(), &info));
}

}  // namespace bora::data::hdf5::detail
