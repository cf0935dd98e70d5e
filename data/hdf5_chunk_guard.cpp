// SPDX-License-Identifier: Apache-2.0
#include <hdf5.h>

#include <array>
#include <optional>
#include <vector>

#include "core/error.hpp"
#include "data/hdf5.hpp"
#include "data/hdf5_chunks.hpp"
#include "data/hdf5_filters.hpp"
#include "data/hdf5_reader_driver.hpp"
#include "data/hdf5_stored.hpp"

namespace bora::data::hdf5::detail {

namespace {

/// Unpacks a chunk; throws Error if it does not give its bytes.  `is_plain`: it has no filters.
void check_chunk(const Dataset& dataset, StoredChunk& c, size_t rank,
                 const std::vector<ListedFilter>& filters, bool is_plain, int64_t chunk_bytes,
                 int64_t element_bytes, int64_t file_bytes) {
  std::array<hsize_t, Shape::kMaxRank> first{};
  for (size_t i = 0; i < rank; ++i) first[i] = static_cast<hsize_t>(c.first[i]);
  hsize_t bytes = 0;
  if (H5Dget_chunk_storage_size(dataset.id(), first.data(), &bytes) < 0) {
    H5Eclear2(H5E_DEFAULT);  // for 1.10 a chunk that was never written is an error
    return;
  }
  if (bytes == 0) return;
  c.bytes = static_cast<int64_t>(bytes);
  BORA_CHECK(bytes <= static_cast<hsize_t>(file_bytes), "more than the file's ", file_bytes,
             " bytes: truncated or damaged");
  Scratch& scratch = Scratch::of_this_thread();
  scratch.raw.resize(static_cast<size_t>(bytes));
  uint32_t mask = 0;
  BORA_HDF5(H5Dread_chunk(dataset.id(), H5P_DEFAULT, first.data(), &mask, scratch.raw.data()));
  std::vector<Filter> used;  // each chunk may have gone without some of them
  for (size_t i = 0; i < filters.size() && !is_plain; ++i) {
    if (((mask >> i) & 1u) != 0) continue;
    const std::optional<Filter> f = filter_of(filters[i]);
    if (!f) return;  // what it gives only the library knows
    used.push_back(*f);
  }
  decode_chunk(scratch.raw, used, 0, chunk_bytes, element_bytes, chunk_bytes / element_bytes,
               scratch);
}

/// The library would go through one twice, and how many bytes that gives nobody here knows.
void check_each_once(const std::vector<ListedFilter>& filters) {
  for (size_t i = 0; i < filters.size(); ++i)
    for (size_t k = 0; k < i; ++k)
      BORA_CHECK(filters[k].id != filters[i].id, "filter ", filters[i].id,
                 " stands twice: the file is damaged, or to be rewritten (h5repack)");
}

}  // namespace

void check_filters(const Dataset& dataset) {
  const Id list(BORA_HDF5(H5Dget_create_plist(dataset.id())));
  if (H5Pget_layout(list.get()) != H5D_CHUNKED) {
    H5Eclear2(H5E_DEFAULT);
    return;
  }
  const std::vector<ListedFilter> filters = list_filters(list.get());
  for (const ListedFilter& f : filters)
    BORA_CHECK(H5Zfilter_avail(f.id) > 0, "stored with filter ", f.id, " '", f.name,
               "', which this HDF5 library does not have; install its plug-in (HDF5_PLUGIN_PATH) "
               "or rewrite the file with deflate");
  // The library's n-bit and szip filters look at their parameters without counting them.
  for (const ListedFilter& f : filters)
    BORA_CHECK((f.id != H5Z_FILTER_NBIT && f.id != H5Z_FILTER_SZIP) || f.n_values >= 4,
               "stored with filter ", f.id, " '", f.name, "' and ", f.n_values,
               " parameters of it: the file is damaged");
}

ChunkGuard::ChunkGuard(const Dataset& dataset, std::span<const int64_t> begin,
                       std::span<const int64_t> count) {
  const Id list(BORA_HDF5(H5Dget_create_plist(dataset.id())));
  if (H5Pget_layout(list.get()) != H5D_CHUNKED) {
    H5Eclear2(H5E_DEFAULT);
    return;
  }
  const std::vector<ListedFilter> filters = list_filters(list.get());
  check_each_once(filters);
  if (begin.empty() || begin.size() > static_cast<size_t>(Shape::kMaxRank)) return;
  const size_t rank = begin.size();
  std::array<hsize_t, Shape::kMaxRank> sizes{};
  BORA_HDF5(H5Pget_chunk(list.get(), static_cast<int>(rank), sizes.data()));
  const Id type(BORA_HDF5(H5Dget_type(dataset.id())));
  const auto element_bytes = static_cast<int64_t>(H5Tget_size(type.get()));
  std::vector<int64_t> chunk;
  int64_t bytes = element_bytes;
  for (size_t i = 0; i < rank; ++i) {
    chunk.push_back(static_cast<int64_t>(sizes[i]));
    BORA_ASSERT(chunk[i] > 0);  // else the library opens no data set
    // The library keeps chunks below 4 GiB, but its product of the extents overflows.
    BORA_CHECK(!__builtin_mul_overflow(bytes, chunk[i], &bytes) && bytes < int64_t{1} << 32,
               "a chunk of more than 4 GiB");
  }
  file_ = Id(BORA_HDF5(H5Iget_file_id(dataset.id())));
  hsize_t file_bytes = 0;
  BORA_HDF5(H5Fget_filesize(file_.get(), &file_bytes));
  ChunksOfBlock chunks(chunk, begin, count);
  if (!filters.empty()) {
    unsigned options = 0;
    BORA_HDF5(H5Pget_chunk_opts(list.get(), &options));
    const std::vector<int64_t> extents = dataset.extents();
    while (!chunks.is_at_end()) {
      StoredChunk c = chunks.next();
      bool is_plain = false;
      if ((options & H5D_CHUNK_DONT_FILTER_PARTIAL_CHUNKS) != 0)
        for (size_t i = 0; i < rank; ++i) is_plain |= c.first[i] + chunk[i] > extents[i];
      naming_chunk(c, rank, [&] {
        check_chunk(dataset, c, rank, filters, is_plain, bytes, element_bytes,
                    static_cast<int64_t>(file_bytes));
      });
    }
    Scratch::of_this_thread().shrink();
    return;
  }
  // Without filters the library makes room by the same extents (and does not believe the layout's
  // size of an element); where a chunk is stored with fewer bytes, the driver sees it read them.
  if (chunks.is_at_end()) return;
  const Id access(BORA_HDF5(H5Dget_access_plist(dataset.id())));
  size_t slots = 0, cache_bytes = 0;
  double preemption = 0;
  BORA_HDF5(H5Pget_chunk_cache(access.get(), &slots, &cache_bytes, &preemption));
  const Id how(BORA_HDF5(H5Fget_access_plist(file_.get())));
  // Larger ones are not read whole, but their wanted part, to where it belongs.
  if (!is_reader_driver(how.get()) || static_cast<size_t>(bytes) > cache_bytes) return;
  void* handle = nullptr;
  BORA_HDF5(H5Fget_vfd_handle(file_.get(), H5P_DEFAULT, &handle));
  handle_ = static_cast<const ReaderHandle*>(handle);
  handle_->least_read = bytes;
}

ChunkGuard::~ChunkGuard() {
  if (handle_ != nullptr) handle_->least_read = 0;
}

}  // namespace bora::data::hdf5::detail
