// SPDX-License-Identifier: Apache-2.0
#include "data/hdf5_chunks.hpp"

#include <hdf5.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <optional>

#include "core/error.hpp"
#include "data/hdf5_blocks.hpp"

namespace bora::data::hdf5::detail {

namespace {

using Place = std::array<int64_t, Shape::kMaxRank>;

std::atomic<int64_t> g_decoded{0};

/// A chunk that holds a part of the block.
struct Chunk {
  Place first{};               // its first element in the data set
  int64_t at = -1, bytes = 0;  // in the file, or in Scratch::raw; bytes 0: never written
  uint32_t mask = 0;
};

std::string text_of(const Place& place, size_t rank) {
  std::string text = "(";
  for (size_t i = 0; i < rank; ++i) text += bora::detail::join(i ? ", " : "", place[i]);
  return text + ")";
}

/// The operating system's number of the file, if the library reads it from there itself and nobody
/// writes to it.
std::optional<int> descriptor_of(int64_t file, std::string& why) {
  unsigned intent = 0;
  BORA_HDF5(H5Fget_intent(file, &intent));
  if (intent != H5F_ACC_RDONLY) {
    why = "the file is open for writing";
    return std::nullopt;
  }
  const Id list(BORA_HDF5(H5Fget_access_plist(file)));
  if (BORA_HDF5(H5Pget_driver(list.get())) != H5FD_SEC2) {
    why = "the file has a driver of its own";
    return std::nullopt;
  }
  void* handle = nullptr;
  BORA_HDF5(H5Fget_vfd_handle(file, H5P_DEFAULT, &handle));
  return *static_cast<const int*>(handle);
}

bool filters_of(int64_t list, std::vector<Filter>& filters, std::string& why) {
  const int n = BORA_HDF5(H5Pget_nfilters(list));
  for (int i = 0; i < n; ++i) {
    unsigned flags = 0, config = 0, values[8] = {};
    size_t n_values = std::size(values);
    char name[64] = "";
    const H5Z_filter_t id = BORA_HDF5(H5Pget_filter2(
        list, static_cast<unsigned>(i), &flags, &n_values, values, sizeof(name), name, &config));
    Filter f;
    if (id == H5Z_FILTER_DEFLATE) {
      f.kind = Filter::Kind::deflate;
    } else if (id == H5Z_FILTER_FLETCHER32) {
      f.kind = Filter::Kind::fletcher32;
    } else if (id == H5Z_FILTER_SHUFFLE && n_values > 0) {
      f.kind = Filter::Kind::shuffle;
      f.shuffle_bytes = values[0];
    } else {
      why = bora::detail::join("filter ", id, " '", name, "'");
      return false;
    }
    for (const Filter& other : filters)
      if (other.kind == f.kind) {
        why = "a filter that stands twice";
        return false;
      }
    filters.push_back(f);
  }
  return true;
}

}  // namespace

struct DirectRead::Plan {
  int64_t dataset = -1;
  Id file;  // keeps it open
  int descriptor = -1;
  int64_t file_bytes = 0;
  std::vector<int64_t> extents, begin, count;
  DType type = DType::f32;
  Element element;
  Conversion conversion;

  int64_t array_at = -1;  // byte of an array in one piece

  std::vector<int64_t> chunk;  // else of chunks
  int64_t chunk_elements = 1, chunk_bytes = 0;
  std::vector<Filter> filters;
  std::array<std::byte, 8> fill{};  // an element as in the file
  bool by_address = true;           // else the library reads the stored bytes

  size_t rank() const { return extents.size(); }

  /// How to get at stored chunks: to look up addresses, the library (1.10) goes through all chunks
  /// of the data set, about 120 ns each the first time and 8 ns (half of 16) for each one wanted;
  /// it finds one to read fast, but reads it under the lock.
  bool choose_way(std::string& why) {
    double n_all = 1, n_wanted = 1;
    for (size_t i = 0; i < rank(); ++i) {
      n_all *= static_cast<double>((extents[i] + chunk[i] - 1) / chunk[i]);
      n_wanted *=
          static_cast<double>((begin[i] + count[i] - 1) / chunk[i] - begin[i] / chunk[i] + 1);
    }
    const double search_ns = n_all * (8 * n_wanted + 120);
    // About 1.4 ns a byte to inflate.  Waiting for files, too, counts more than the search; below
    // 50 us it is little beside opening the file.
    const double decode_ns = 1.4 * n_wanted * static_cast<double>(chunk_bytes);
    by_address = search_ns <= std::max(decode_ns / 20, 5e4);
    if (by_address) return true;
    // The library says nothing of chunks without filters that were not written.
    if (filters.empty()) why = "many small chunks without compression";
    return !filters.empty();
  }

  bool plan_chunks(int64_t list, int64_t type_id, std::string& why) {
    unsigned options = 0;
    BORA_HDF5(H5Pget_chunk_opts(list, &options));
    if (options != 0) {
      why = "chunks at the edge are stored without filters";
      return false;
    }
    const Id creation(BORA_HDF5(H5Fget_create_plist(file.get())));
    hsize_t user_block = 0;
    BORA_HDF5(H5Pget_userblock(creation.get(), &user_block));
    if (user_block != 0) {  // versions of the library differ in where they count addresses from
      why = "a user block";
      return false;
    }
    if (!filters_of(list, filters, why)) return false;
    std::array<hsize_t, Shape::kMaxRank> sizes{};
    BORA_HDF5(H5Pget_chunk(list, static_cast<int>(rank()), sizes.data()));
    for (size_t i = 0; i < rank(); ++i) {
      chunk.push_back(static_cast<int64_t>(sizes[i]));
      BORA_CHECK(chunk[i] > 0, "chunk extent ", chunk[i], " on axis ", i);
      // The library keeps chunks below 4 GiB.
      BORA_CHECK(!__builtin_mul_overflow(chunk_elements, chunk[i], &chunk_elements) &&
                     chunk_elements < int64_t{1} << 32,
                 "a chunk of more than 4 GiB");
    }
    chunk_bytes = chunk_elements * element.bytes;
    H5D_fill_value_t kind{};
    BORA_HDF5(H5Pfill_value_defined(list, &kind));
    if (kind != H5D_FILL_VALUE_UNDEFINED) BORA_HDF5(H5Pget_fill_value(list, type_id, fill.data()));
    return choose_way(why);
  }

  /// Where a chunk is stored; with by_address false, its bytes are put behind Scratch::raw.
  void locate(Chunk& c, Scratch& scratch) const {
    std::array<hsize_t, Shape::kMaxRank> first{};
    for (size_t i = 0; i < rank(); ++i) first[i] = static_cast<hsize_t>(c.first[i]);
    hsize_t bytes = 0;
    if (by_address) {
      unsigned mask = 0;
      haddr_t at = HADDR_UNDEF;
      BORA_HDF5(H5Dget_chunk_info_by_coord(dataset, first.data(), &mask, &at, &bytes));
      if (at == HADDR_UNDEF) return;
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
    BORA_CHECK(c.bytes >= 0 && c.bytes <= file_bytes && c.at <= file_bytes - c.bytes &&
                   (c.at >= 0 || !by_address),
               c.bytes, " bytes at byte ", c.at, " of a file of ", file_bytes,
               ": truncated or damaged");
    if (by_address || c.bytes == 0) return;
    c.at = static_cast<int64_t>(scratch.raw.size());
    scratch.raw.resize(scratch.raw.size() + static_cast<size_t>(bytes));
    BORA_HDF5(
        H5Dread_chunk(dataset, H5P_DEFAULT, first.data(), &c.mask, scratch.raw.data() + c.at));
  }

  /// Inflates a chunk and copies what the block has of it.
  bool take(const Chunk& c, void* to, Scratch& scratch) const {
    Place low{}, part{};
    int64_t from = 0, value = 0;
    for (size_t i = 0; i < rank(); ++i) {
      low[i] = std::max(begin[i], c.first[i]);
      part[i] = std::min(begin[i] + count[i], c.first[i] + chunk[i]) - low[i];
      from = from * chunk[i] + low[i] - c.first[i];
      value = value * count[i] + low[i] - begin[i];
    }
    DecodedChunk decoded;
    if (c.bytes > 0) {
      std::span<const std::byte> stored;
      if (by_address) {
        if (static_cast<int64_t>(scratch.raw.size()) < c.bytes)
          scratch.raw.resize(static_cast<size_t>(c.bytes));
        read_bytes(descriptor, c.at, c.bytes, scratch.raw.data());
        stored = {scratch.raw.data(), static_cast<size_t>(c.bytes)};
      } else {
        stored = {scratch.raw.data() + c.at, static_cast<size_t>(c.bytes)};
      }
      decoded = decode_chunk(stored, filters, c.mask, chunk_bytes, element.bytes, scratch);
      g_decoded += chunk_bytes;
    }
    const int64_t value_bytes = size_of(type);
    auto* values = static_cast<std::byte*>(to);
    return for_rows({part.data(), rank()}, chunk, count, from, value,
                    [&](int64_t at, int64_t value_at, int64_t n) {
                      std::byte* out = values + value_at * value_bytes;
                      if (c.bytes > 0)
                        return copy_run(decoded, chunk_elements, at, n, element, conversion, out,
                                        scratch);
                      bool fits = true;
                      for (int64_t k = 0; k < n; ++k)
                        fits &= conversion.apply(fill.data(), out + k * value_bytes, 1);
                      return fits;
                    });
  }

  /// Runs body(); what goes wrong names the chunk.  (with_context would make the text each time.)
  template <class Body>
  void naming(const Chunk& c, Body&& body) const {
    try {
      body();
    } catch (const Error& e) {
      throw Error("chunk at " + text_of(c.first, rank()) +
                  (c.bytes > 0 ? ", " + std::to_string(c.bytes) + " bytes stored: " : ": ") +
                  e.what());
    }
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
  const auto none = [&](const char* reason) {
    why = reason;
    return nullptr;
  };
  if (extents.size() > static_cast<size_t>(Shape::kMaxRank)) return none("many axes");
  const Id type_id(BORA_HDF5(H5Dget_type(dataset.id())));
  const std::optional<Element> element = element_of(type_id.get());
  if (!element) return none("an unusual type");
  const std::optional<Conversion> conversion = detail::conversion(*element, type);
  if (!conversion) return none("a conversion between kinds of numbers");
  p->element = *element;
  p->conversion = *conversion;
  p->dataset = dataset.id();
  p->type = type;
  p->extents.assign(extents.begin(), extents.end());
  p->begin.assign(begin.begin(), begin.end());
  p->count.assign(count.begin(), count.end());
  p->file = Id(BORA_HDF5(H5Iget_file_id(dataset.id())));
  const std::optional<int> descriptor = descriptor_of(p->file.get(), why);
  if (!descriptor) return nullptr;
  p->descriptor = *descriptor;
  struct stat s {};
  if (::fstat(p->descriptor, &s) != 0) return none("the system does not tell the file's size");
  p->file_bytes = s.st_size;

  const Id list(BORA_HDF5(H5Dget_create_plist(dataset.id())));
  const H5D_layout_t layout = BORA_HDF5(H5Pget_layout(list.get()));
  if (layout == H5D_CHUNKED) {
    if (!p->plan_chunks(list.get(), type_id.get(), why)) return nullptr;
  } else if (layout == H5D_CONTIGUOUS && H5Pget_external_count(list.get()) == 0) {
    const haddr_t at = H5Dget_offset(dataset.id());
    if (at == HADDR_UNDEF) {
      H5Eclear2(H5E_DEFAULT);
      return none("nothing was written to it");
    }
    p->array_at = static_cast<int64_t>(at);
    BORA_CHECK(p->array_at >= 0 && p->array_at <= p->file_bytes, "its values begin at byte ", at,
               " of a file of ", p->file_bytes, ": truncated or damaged");
  } else {
    return none("a compact, virtual or external layout");
  }
  return std::unique_ptr<DirectRead>(new DirectRead(std::move(p)));
}

bool DirectRead::read(void* to) {
  const Plan& p = *plan_;
  bool fits = false;
  if (p.array_at >= 0) {
    const Unlocked unlocked;
    fits = read_block({p.descriptor, p.array_at, p.extents, p.element, p.conversion}, p.begin,
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
  Place at{}, low{}, n{};  // in chunks
  for (size_t i = 0; i < p.rank(); ++i) {
    low[i] = p.begin[i] / p.chunk[i];
    n[i] = (p.begin[i] + p.count[i] - 1) / p.chunk[i] - low[i] + 1;
  }
  std::vector<Chunk> chunks;
  for (bool more = true; more;) {
    chunks.clear();
    if (!p.by_address) scratch.raw.clear();
    while (more && chunks.size() < kChunks && (p.by_address || scratch.raw.size() < kStored)) {
      Chunk c;
      for (size_t i = 0; i < p.rank(); ++i) c.first[i] = (low[i] + at[i]) * p.chunk[i];
      p.naming(c, [&] { p.locate(c, scratch); });
      chunks.push_back(c);
      size_t i = p.rank();
      for (; i > 0 && ++at[i - 1] == n[i - 1]; --i) at[i - 1] = 0;
      more = i > 0;
    }
    const Unlocked unlocked;
    for (const Chunk& c : chunks) {
      bool fits = false;
      p.naming(c, [&] { fits = p.take(c, to, scratch); });
      if (!fits) return false;
    }
  }
  return true;
}

int64_t chunk_bytes_decoded() { return g_decoded.load(); }

}  // namespace bora::data::hdf5::detail
