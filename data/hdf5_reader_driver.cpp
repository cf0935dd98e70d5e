// SPDX-License-Identifier: Apache-2.0
#include "data/hdf5_reader_driver.hpp"

#include <fcntl.h>
#include <hdf5.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>

#include "core/error.hpp"
#include "data/hdf5_stored.hpp"
#if __has_include(<H5FDdevelop.h>)
#include <H5FDdevelop.h>  // where newer libraries declare H5FD_class_t
#endif

namespace bora::data::hdf5::detail {
namespace {

constexpr haddr_t kLargest = (haddr_t{1} << 62) - 1;  // what off_t can say, with room for sums

/// The library sees its first member; the rest is ours.
struct OpenFile {
  H5FD_t shared;
  ReaderHandle handle;
  haddr_t end_of_allocation, end_of_file;
  dev_t device;
  ino_t inode;
};

OpenFile& mine(H5FD_t* file) { return *reinterpret_cast<OpenFile*>(file); }
const OpenFile& mine(const H5FD_t* file) { return *reinterpret_cast<const OpenFile*>(file); }

H5FD_t* open_file(const char* name, unsigned flags, hid_t, haddr_t) {
  if ((flags & (H5F_ACC_RDWR | H5F_ACC_TRUNC | H5F_ACC_CREAT)) != 0) return nullptr;
  const int fd = ::open(name, O_RDONLY | O_CLOEXEC);
  struct stat s {};
  if (fd < 0 || ::fstat(fd, &s) != 0) {
    if (fd >= 0) ::close(fd);
    return nullptr;
  }
  auto* file = new OpenFile{
      {}, {fd, state_of(fd).value_or("")}, 0, static_cast<haddr_t>(s.st_size), s.st_dev, s.st_ino};
  return &file->shared;
}

herr_t close_file(H5FD_t* file) {
  const std::unique_ptr<OpenFile> own(&mine(file));
  ::close(own->handle.descriptor);
  return 0;
}

int compare(const H5FD_t* a, const H5FD_t* b) {
  const OpenFile &x = mine(a), &y = mine(b);
  if (x.device != y.device) return x.device < y.device ? -1 : 1;
  return x.inode == y.inode ? 0 : x.inode < y.inode ? -1 : 1;
}

herr_t query(const H5FD_t*, unsigned long* flags) {
  // As sec2, but without H5FD_FEAT_ACCUMULATE_METADATA: that buffer of the library's copies behind
  // its end for addresses of a damaged file.
  if (flags != nullptr) *flags = H5FD_FEAT_DATA_SIEVE | H5FD_FEAT_DEFAULT_VFD_COMPATIBLE;
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
  *handle = &mine(file).handle;
  return 0;
}

uint64_t little_endian(const unsigned char* at) {
  uint64_t value = 0;
  for (int i = 7; i >= 0; --i) value = value << 8 | at[i];
  return value;
}

/// Whether the objects of a global heap collection lie in it.  "HDF5 File Format Specification",
/// III.E: "GCOL", version 1, 3 bytes, size of all; then objects of index (2), references (2), 4
/// bytes, size (8), contents up to a multiple of 8; index 0 is the space that is left.  The
/// library first reads the least size, 4096, so what is not there yet is judged at the next read.
/// Sizes of 8 bytes, as every writer has them; with others the walk meets a wrong size and refuses.
bool is_sound_heap(const unsigned char* at, size_t n, haddr_t left) {
  constexpr size_t kHeader = 16;
  if (n < kHeader || std::memcmp(at, "GCOL", 4) != 0 || at[4] != 1) return false;
  const uint64_t size = little_endian(at + 8);
  if (size < 4096 || size > left) return false;
  if (size > n) return true;
  size_t offset = kHeader;
  while (size - offset >= kHeader) {
    const unsigned index = at[offset] | at[offset + 1] << 8;
    const uint64_t bytes = little_endian(at + offset + 8), rest = size - offset;
    if (index == 0) return bytes <= rest;
    if (bytes > rest - kHeader) return false;
    const uint64_t step = kHeader + (bytes + 7) / 8 * 8;
    if (step > rest) return false;
    offset += step;
  }
  return true;
}

herr_t read(H5FD_t* file, H5FD_mem_t type, hid_t, haddr_t at, size_t bytes, void* buffer) {
  const OpenFile& f = mine(file);
  if (at > kLargest || bytes > kLargest || at >= f.end_of_file) return -1;
  char* out = static_cast<char*>(buffer);
  size_t left = bytes;
  for (haddr_t from = at; left > 0;) {
    const ssize_t n = ::pread(f.handle.descriptor, out, left, static_cast<off_t>(from));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return -1;
    if (n == 0) break;
    out += n;
    from += static_cast<haddr_t>(n);
    left -= static_cast<size_t>(n);
  }
  std::memset(out, 0, left);  // as sec2 does
  const auto* begin = static_cast<const unsigned char*>(buffer);
  if (type == H5FD_MEM_GHEAP && !is_sound_heap(begin, bytes, f.end_of_file - at)) return -1;
  return 0;
}

herr_t write(H5FD_t*, H5FD_mem_t, hid_t, haddr_t, size_t, const void*) { return -1; }

hid_t driver() {
  static const hid_t id = [] {
    H5FD_class_t c{};
#ifdef H5FD_CLASS_VERSION
    c.version = H5FD_CLASS_VERSION;
    c.value = static_cast<H5FD_class_value_t>(513);  // the range of drivers that nobody registered
#endif
    c.name = "bora_reader";
    c.maxaddr = kLargest;
    c.fc_degree = H5F_CLOSE_WEAK;
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
    constexpr H5FD_mem_t kMap[] = H5FD_FLMAP_DICHOTOMY;
    std::copy(std::begin(kMap), std::end(kMap), c.fl_map);
    return BORA_HDF5(H5FDregister(&c));
  }();
  return id;
}

}  // namespace

void set_reader_driver(int64_t access_list) {
  BORA_HDF5(H5Pset_driver(access_list, driver(), nullptr));
}

bool is_reader_driver(int64_t access_list) {
  return BORA_HDF5(H5Pget_driver(access_list)) == driver();
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
