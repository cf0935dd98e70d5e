// SPDX-License-Identifier: Apache-2.0
#include "data/hdf5_skeleton.hpp"

#include <hdf5.h>

#if H5_VERSION_GE(1, 14, 0)
#include <H5FDdevelop.h>
#endif

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <new>

namespace bora::data::hdf5 {

struct Skeleton::Pages {
  static constexpr haddr_t kPage = 4096;
  std::map<haddr_t, std::array<char, kPage>> pages;  // by number
  haddr_t end = 0;                                   // of what was written
  haddr_t size = 0;                                  // of the file when it was closed
  bool closed = false;

  /// Calls visit(page, offset in the page, bytes, offset in the range) for a range's parts.
  template <class Visit>
  static void split(haddr_t at, size_t n, Visit&& visit) {
    for (size_t done = 0; done < n;) {
      const haddr_t offset = (at + done) % kPage;
      const size_t bytes = std::min<size_t>(kPage - offset, n - done);
      visit((at + done) / kPage, offset, bytes, done);
      done += bytes;
    }
  }
  void write(haddr_t at, const void* data, size_t n) {
    split(at, n, [&](haddr_t page, haddr_t offset, size_t bytes, size_t done) {
      std::memcpy(pages[page].data() + offset, static_cast<const char*>(data) + done, bytes);
    });
    end = std::max(end, at + n);
  }
  void read(haddr_t at, void* out, size_t n) const {
    split(at, n, [&](haddr_t page, haddr_t offset, size_t bytes, size_t done) {
      char* to = static_cast<char*>(out) + done;
      const auto found = pages.find(page);
      if (found == pages.end())
        std::memset(to, 0, bytes);
      else
        std::memcpy(to, found->second.data() + offset, bytes);
    });
  }
};

namespace {

using Pages = Skeleton::Pages;

/// The library's idea of an open file of this driver: its own part first.
struct DriverFile {
  H5FD_t common;
  Pages* pages;
  haddr_t allocated;
};
/// What an access list carries for this driver.
struct DriverInfo {
  Pages* pages;
};

DriverFile& own(H5FD_t* file) { return *reinterpret_cast<DriverFile*>(file); }
const DriverFile& own(const H5FD_t* file) { return *reinterpret_cast<const DriverFile*>(file); }

constexpr haddr_t kMaxAddress = haddr_t{1} << 62;

// The library calls these from C: nothing may be thrown through it.
extern "C" {
H5FD_t* skeleton_open(const char*, unsigned flags, hid_t access, haddr_t) {
  // The library first asks whether the file is there already.
  if ((flags & H5F_ACC_CREAT) == 0) return nullptr;
  const auto* info = static_cast<const DriverInfo*>(H5Pget_driver_info(access));
  if (info == nullptr) return nullptr;
  auto* file = new (std::nothrow) DriverFile{};
  if (file == nullptr) return nullptr;
  file->pages = info->pages;
  return &file->common;
}
herr_t skeleton_close(H5FD_t* file) {
  own(file).pages->size = own(file).allocated;
  own(file).pages->closed = true;
  delete &own(file);
  return 0;
}
herr_t skeleton_query(const H5FD_t*, unsigned long* flags) {
  if (flags != nullptr) *flags = 0;
  return 0;
}
haddr_t skeleton_allocated(const H5FD_t* file, H5FD_mem_t) { return own(file).allocated; }
herr_t skeleton_allocate(H5FD_t* file, H5FD_mem_t, haddr_t end) {
  own(file).allocated = end;
  return 0;
}
haddr_t skeleton_end(const H5FD_t* file, H5FD_mem_t) { return own(file).pages->end; }
herr_t skeleton_read(H5FD_t* file, H5FD_mem_t, hid_t, haddr_t at, size_t n, void* out) {
  own(file).pages->read(at, out, n);
  return 0;
}
herr_t skeleton_write(H5FD_t* file, H5FD_mem_t, hid_t, haddr_t at, size_t n, const void* data) {
  try {
    own(file).pages->write(at, data, n);
  } catch (const std::bad_alloc&) {
    return -1;
  }
  return 0;
}
}

/// The driver's id; it stays registered.  The caller holds the Lock.
hid_t driver() {
  static const hid_t id = [] {
    static H5FD_class_t skeleton{};
#if H5_VERSION_GE(1, 14, 0)
    skeleton.version = H5FD_CLASS_VERSION;
    skeleton.value = static_cast<H5FD_class_value_t>(H5_VFD_RESERVED + 0x426f);
#endif
    skeleton.name = "bora_skeleton";
    skeleton.maxaddr = kMaxAddress;
    skeleton.fc_degree = H5F_CLOSE_WEAK;
    skeleton.fapl_size = sizeof(DriverInfo);
    skeleton.open = &skeleton_open;
    skeleton.close = &skeleton_close;
    skeleton.query = &skeleton_query;
    skeleton.get_eoa = &skeleton_allocated;
    skeleton.set_eoa = &skeleton_allocate;
    skeleton.get_eof = &skeleton_end;
    skeleton.read = &skeleton_read;
    skeleton.write = &skeleton_write;
    constexpr H5FD_mem_t kTypes[] = H5FD_FLMAP_DICHOTOMY;
    std::copy(std::begin(kTypes), std::end(kTypes), skeleton.fl_map);
    return BORA_HDF5(H5FDregister(&skeleton));
  }();
  return id;
}

}  // namespace

Skeleton::Skeleton(int64_t user_block) : pages_(std::make_unique<Pages>()) {
  BORA_CHECK(user_block >= 0, "hdf5: a user block of ", user_block, " bytes");
  const Lock lock;
  const Id access(BORA_HDF5(H5Pcreate(H5P_FILE_ACCESS)));
  const DriverInfo info{pages_.get()};
  BORA_HDF5(H5Pset_driver(access.get(), driver(), &info));
  const Id creation(BORA_HDF5(H5Pcreate(H5P_FILE_CREATE)));
  BORA_HDF5(H5Pset_userblock(creation.get(), static_cast<hsize_t>(user_block)));
  file_ = Id(BORA_HDF5(H5Fcreate("skeleton", H5F_ACC_TRUNC, creation.get(), access.get())));
  layout_ = Id(BORA_HDF5(H5Pcreate(H5P_DATASET_CREATE)));
  BORA_HDF5(H5Pset_obj_track_times(layout_.get(), false));
  BORA_HDF5(H5Pset_alloc_time(layout_.get(), H5D_ALLOC_TIME_EARLY));
  BORA_HDF5(H5Pset_fill_time(layout_.get(), H5D_FILL_TIME_NEVER));
}

Skeleton::~Skeleton() = default;

void Skeleton::close() {
  const Lock lock;
  layout_.reset();
  const hid_t file = file_.release();
  BORA_CHECK(file >= 0, "hdf5: second close of a Skeleton");
  BORA_HDF5(H5Fclose(file));
  BORA_CHECK(pages_->closed, "hdf5: a Skeleton is closed while something in it is open");
}

int64_t Skeleton::bytes() const {
  BORA_CHECK(pages_->closed, "hdf5: the Skeleton is not closed yet");
  return static_cast<int64_t>(pages_->size);
}

void Skeleton::read(int64_t at, void* out, int64_t n) const {
  BORA_CHECK(at >= 0 && n >= 0 && at + n <= bytes() && (out != nullptr || n == 0), "hdf5: bytes ",
             at, " to ", at + n, " of a Skeleton of ", bytes());
  pages_->read(static_cast<haddr_t>(at), out, static_cast<size_t>(n));
}

}  // namespace bora::data::hdf5
