// SPDX-License-Identifier: Apache-2.0
#include "data/hdf5_chunks.hpp"
#include "data/hdf5_reader_driver.hpp"

#include <hdf5.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <optional>

#include "core/error.hpp"
#include "data/hdf5_blocks.hpp"
#include "data/hdf5_filters.hpp"

namespace bora::data::hdf5::detail {

namespace {

/// The operating system's number of the file and its state, if the library reads it from there
/// itself and nobody writes to it.
std::optional<ReaderHandle> handle_of(int64_t file, std::string& why) {
  unsigned intent = 0;
  BORA_HDF5(H5Fget_intent(file, &intent));
  if (intent != H5F_ACC_RDONLY) {
    why = "the file is open for writing";
    return std::nullopt;
  }
  const Id list(BORA_HDF5(H5Fget_access_plist(file)));
  const bool is_ours = is_reader_driver(list.get());
  if (!is_ours && BORA_HDF5(H5Pget_driver(list.get())) != H5FD_SEC2) {
    why = "the file has a driver of its own";
    return std::nullopt;
  }
  void* handle = nullptr;
  BORA_HDF5(H5Fget_vfd_handle(file, H5P_DEFAULT, &handle));
  if (is_ours) return *static_cast<const ReaderHandle*>(handle);
  return ReaderHandle{*static_cast<const int*>(handle), ""};
}

/// Fills in how the chunks are stored; false, with the reason, if they cannot be read here.
bool describe_chunks(int64_t file, int64_t list, int64_t type_id, StoredArray& out,
                     std::string& why) {
  unsigned options = 0;
  BORA_HDF5(H5Pget_chunk_opts(list, &options));
  if (options != 0) {
    why = "chunks at the edge are stored without filters";
    return false;
  }
  const Id creation(BORA_HDF5(H5Fget_create_plist(file)));
  hsize_t user_block = 0;
  BORA_HDF5(H5Pget_userblock(creation.get(), &user_block));
  if (user_block != 0) {  // versions of the library differ in where they count addresses from
    why = "a user block";
    return false;
  }
  std::optional<std::vector<Filter>> filters = filters_of(list, why);
  if (!filters) return false;
  out.filters = std::move(*filters);
  std::array<hsize_t, Shape::kMaxRank> sizes{};
  BORA_HDF5(H5Pget_chunk(list, static_cast<int>(out.rank()), sizes.data()));
  for (size_t i = 0; i < out.rank(); ++i) {
    out.chunk.push_back(static_cast<int64_t>(sizes[i]));
    BORA_ASSERT(out.chunk[i] > 0);  // else the library opens no data set
    // The library keeps chunks below 4 GiB, but its product of the extents overflows.
    BORA_CHECK(!__builtin_mul_overflow(out.chunk_elements, out.chunk[i], &out.chunk_elements) &&
                   out.chunk_elements < int64_t{1} << 32,
               "a chunk of more than 4 GiB");
  }
  out.chunk_bytes = out.chunk_elements * out.element.bytes;
  H5D_fill_value_t kind{};
  BORA_HDF5(H5Pfill_value_defined(list, &kind));
  if (kind != H5D_FILL_VALUE_UNDEFINED)
    BORA_HDF5(H5Pget_fill_value(list, type_id, out.fill.data()));
  return true;
}

/// What is to be known of a data set; nothing, with the reason, if it cannot be read here.
std::shared_ptr<StoredArray> describe(int64_t dataset, int64_t file, int descriptor,
                                      std::span<const int64_t> extents, std::string& why) {
  const auto none = [&](const char* reason) {
    why = reason;
    return nullptr;
  };
  if (extents.size() > static_cast<size_t>(Shape::kMaxRank)) return none("many axes");
  const Id type_id(BORA_HDF5(H5Dget_type(dataset)));
  const std::optional<Element> element = element_of(type_id.get());
  if (!element) return none("an unusual type");
  auto out = std::make_shared<StoredArray>();
  out->element = *element;
  out->extents.assign(extents.begin(), extents.end());
  struct stat s {};
  if (::fstat(descriptor, &s) != 0) return none("the system does not tell the file's size");
  out->file_bytes = s.st_size;
  const Id list(BORA_HDF5(H5Dget_create_plist(dataset)));
  const H5D_layout_t layout = BORA_HDF5(H5Pget_layout(list.get()));
  if (layout == H5D_CHUNKED) {
    if (!describe_chunks(file, list.get(), type_id.get(), *out, why)) return nullptr;
  } else if (layout == H5D_CONTIGUOUS && H5Pget_external_count(list.get()) == 0) {
    const haddr_t at = H5Dget_offset(dataset);
    if (at == HADDR_UNDEF) {
      H5Eclear2(H5E_DEFAULT);
      return none("nothing was written to it");
    }
    out->array_at = static_cast<int64_t>(at);
    BORA_CHECK(out->array_at >= 0 && out->array_at <= out->file_bytes, "its values begin at byte ",
               at, " of a file of ", out->file_bytes, ": truncated or damaged");
  } else {
    return none("a compact, virtual or external layout");
  }
  return out;
}

/// The path by which a data set was opened; empty if it is too long to be remembered by it.
std::string name_of(int64_t dataset) {
  std::array<char, 512> name{};
  const ssize_t n = H5Iget_name(dataset, name.data(), name.size());
  if (n <= 0 || n >= std::ssize(name)) {
    H5Eclear2(H5E_DEFAULT);
    return {};
  }
  return name.data();
}

/// From what is remembered, or from the library and remembered from now on.
std::shared_ptr<StoredArray> stored_of(int64_t dataset, int64_t file, const ReaderHandle& handle,
                                       std::span<const int64_t> extents, std::string& why) {
  const std::string name = handle.state.empty() ? "" : name_of(dataset);
  if (!name.empty())
    if (auto found = find_stored(handle.state, name)) return found;
  auto stored = describe(dataset, file, handle.descriptor, extents, why);
  if (!stored || name.empty()) return stored;
  stored->state = handle.state;
  return keep_stored(name, std::move(stored));
}

}  // namespace

struct DirectRead::Plan {
  int64_t dataset = -1;
  Id file;  // keeps it open
  int descriptor = -1;
  std::shared_ptr<StoredArray> stored;
  std::vector<int64_t> begin, count;
  DType type = DType::f32;
  Conversion conversion;
  bool by_address = true;  // else the library reads the stored bytes

  size_t rank() const { return stored->rank(); }
  WantedBlock block(void* to) const {
    return {begin, count, type, conversion, to, stored->keeps_chunks_of(begin, count)};
  }

  /// How to get at stored chunks: to look up addresses, the library (1.10) goes through all chunks
  /// of the data set, about 120 ns each the first time and 8 ns (half of 16) for each one wanted;
  /// it finds one to read fast, but reads it under the lock.
  bool choose_way(std::string& why) {
    double n_all = 1, n_wanted = 1;
    for (size_t i = 0; i < rank(); ++i) {
      n_all *= static_cast<double>((stored->extents[i] + stored->chunk[i] - 1) / stored->chunk[i]);
      n_wanted *= static_cast<double>((begin[i] + count[i] - 1) / stored->chunk[i] -
                                      begin[i] / stored->chunk[i] + 1);
    }
    const double search_ns = n_all * (8 * n_wanted + 120);
    // About 1.4 ns a byte to inflate.  Waiting for files, too, counts more than the search; below
    // 50 us it is little beside opening the file.
    const double decode_ns = 1.4 * n_wanted * static_cast<double>(stored->chunk_bytes);
    by_address = search_ns <= std::max(decode_ns / 20, 5e4);
    if (by_address) return true;
    // The library says nothing of chunks without filters that were not written.
    if (stored->filters.empty()) why = "many small chunks without compression";
    return !stored->filters.empty();
  }

  /// Where a chunk is stored; with by_address false, its bytes are put behind Scratch::raw.
  void locate(StoredChunk& c, Scratch& scratch) const {
    if (by_address && stored->find(c)) return;
    std::array<hsize_t, Shape::kMaxRank> first{};
    for (size_t i = 0; i < rank(); ++i) first[i] = static_cast<hsize_t>(c.first[i]);
    hsize_t bytes = 0;
    if (by_address) {
      unsigned mask = 0;
      haddr_t at = HADDR_UNDEF;
      BORA_HDF5(H5Dget_chunk_info_by_coord(dataset, first.data(), &mask, &at, &bytes));
      if (at == HADDR_UNDEF) return stored->keep(c);
      c.mask = mask;
      c.at = static_cast<int64_t>(at);
    } else {
      const herr_t status = H5Dget_chunk_storage_size(dataset, first.data(), &bytes);
      if (status < 0) {  // for 1.10 a chunk that was never written is an error
        const std::string text = Status::text(status);
        BORA_CHECK(text.find("not allocated") != text.npos ||
                       text.find("address isn't defined") != text.npos,
                   "HDF5: ", text);
        bytes = 0;
      }
    }
    c.bytes = static_cast<int64_t>(bytes);
    BORA_CHECK(c.bytes >= 0 && c.bytes <= stored->file_bytes, "more than the file's ",
               stored->file_bytes, " bytes: truncated or damaged");
    if (by_address) {
      BORA_CHECK(c.at >= 0 && c.at <= stored->file_bytes - c.bytes, "they begin at byte ", c.at,
                 " of a file of ", stored->file_bytes, ": truncated or damaged");
      return stored->keep(c);
    }
    if (c.bytes == 0) return;
    c.at = static_cast<int64_t>(scratch.raw.size());
    scratch.raw.resize(scratch.raw.size() + static_cast<size_t>(bytes));
    BORA_HDF5(
        H5Dread_chunk(dataset, H5P_DEFAULT, first.data(), &c.mask, scratch.raw.data() + c.at));
  }
};

DirectRead::DirectRead(std::unique_ptr<Plan> plan) : plan_(std::move(plan)) {}
DirectRead::~DirectRead() = default;

std::unique_ptr<DirectRead> DirectRead::plan(const Dataset& dataset,
                                             std::span<const int64_t> extents,
                                             std::span<const int64_t> begin,
                                             std::span<const int64_t> count, DType type,
                                             std::string& why) {
  auto p = std::make_unique<Plan>();
  p->dataset = dataset.id();
  p->type = type;
  p->begin.assign(begin.begin(), begin.end());
  p->count.assign(count.begin(), count.end());
  p->file = Id(BORA_HDF5(H5Iget_file_id(dataset.id())));
  const std::optional<ReaderHandle> handle = handle_of(p->file.get(), why);
  if (!handle) return nullptr;
  p->descriptor = handle->descriptor;
  p->stored = stored_of(p->dataset, p->file.get(), *handle, extents, why);
  if (!p->stored) return nullptr;
  const std::optional<Conversion> conversion = detail::conversion(p->stored->element, type);
  if (!conversion) {
    why = "a conversion between kinds of numbers";
    return nullptr;
  }
  p->conversion = *conversion;
  if (p->stored->array_at < 0 && !p->choose_way(why)) return nullptr;
  return std::unique_ptr<DirectRead>(new DirectRead(std::move(p)));
}

std::shared_ptr<StoredArray> DirectRead::known(const Dataset& dataset,
                                               std::span<const int64_t> extents) {
  std::string why;
  const Id file(BORA_HDF5(H5Iget_file_id(dataset.id())));
  const std::optional<ReaderHandle> handle = handle_of(file.get(), why);
  if (!handle || handle->state.empty()) return nullptr;
  auto stored = with_context("reading '" + dataset.label() + "'", [&] {
    return stored_of(dataset.id(), file.get(), *handle, extents, why);
  });
  return stored && !stored->state.empty() ? stored : nullptr;
}

bool DirectRead::read(void* to) {
  const Plan& p = *plan_;
  bool fits = false;
  const StoredArray& a = *p.stored;
  if (a.array_at >= 0) {
    const Unlocked unlocked;
    fits = read_block({p.descriptor, a.array_at, a.extents, a.element, p.conversion}, p.begin,
                      p.count, p.type, to);
  } else {
    fits = read_chunks(to);
  }
  Scratch::of_this_thread().shrink();
  return fits;
}

bool DirectRead::read_chunks(void* to) {
  // So many at a time that neither their list nor their stored bytes need much memory.
  constexpr size_t kChunks = 512;
  constexpr size_t kStored = size_t{4} << 20;
  const Plan& p = *plan_;
  Scratch& scratch = Scratch::of_this_thread();
  const WantedBlock block = p.block(to);
  ChunksOfBlock all(p.stored->chunk, p.begin, p.count);
  std::vector<StoredChunk> chunks;
  while (!all.is_at_end()) {
    chunks.clear();
    if (!p.by_address) scratch.raw.clear();
    while (!all.is_at_end() && chunks.size() < kChunks &&
           (p.by_address || scratch.raw.size() < kStored)) {
      StoredChunk c = all.next();
      naming_chunk(c, p.rank(), [&] { p.locate(c, scratch); });
      chunks.push_back(c);
    }
    const Unlocked unlocked;
    for (const StoredChunk& c : chunks) {
      bool fits = false;
      naming_chunk(c, p.rank(), [&] {
        if (p.by_address) {
          fits = p.stored->take_from(p.descriptor, c, block, scratch);
        } else {
          const auto raw = std::span<const std::byte>(scratch.raw);
          const auto stored =
              c.bytes == 0 ? raw.first(0)
                           : raw.subspan(static_cast<size_t>(c.at), static_cast<size_t>(c.bytes));
          fits = p.stored->take(c, stored, block, scratch);
        }
      });
      if (!fits) return false;
    }
  }
  return true;
}

}  // namespace bora::data::hdf5::detail
