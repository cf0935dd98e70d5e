// SPDX-License-Identifier: Apache-2.0
#include "data/hdf5_stored.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <ctime>

#include "data/hdf5_blocks.hpp"
#include "data/hdf5_kept.hpp"
#include "data/recent.hpp"

namespace bora::data::hdf5::detail {

namespace {

std::atomic<int64_t> g_decoded{0};
std::atomic<int64_t> g_known{0};
std::atomic<int64_t> g_serial{0};

/// About 1 KiB each without chunks.
Recent<StoredArray>& arrays() {
  static auto& recent = *new Recent<StoredArray>(4096);  // threads may outlive main
  return recent;
}

}  // namespace

std::optional<std::string> state_of(int descriptor) {
  // The coarsest step of a file's time that is in use (FAT); others have 10 ms at most.
  constexpr int64_t kYoung_s = 2;
  struct stat s {};
  if (descriptor < 0 || ::fstat(descriptor, &s) != 0) return std::nullopt;
  // Also for a time in the future, as a server with another clock gives it.
  if (s.st_mtim.tv_sec > std::time(nullptr) - kYoung_s) return std::nullopt;
  return bora::detail::join(s.st_dev, ' ', s.st_ino, ' ', s.st_size, ' ', s.st_mtim.tv_sec, '.',
                            s.st_mtim.tv_nsec, ' ', s.st_ctim.tv_sec, '.', s.st_ctim.tv_nsec);
}

std::string state_of_file(const std::string& path) {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);  // no FIFO blocks
  std::string state = state_of(descriptor).value_or("");
  if (descriptor >= 0) ::close(descriptor);
  return state;
}

ChunksOfBlock::ChunksOfBlock(std::span<const int64_t> chunk, std::span<const int64_t> begin,
                             std::span<const int64_t> count)
    : rank_(chunk.size()) {
  for (size_t i = 0; i < rank_; ++i) {
    chunk_[i] = chunk[i];
    low_[i] = begin[i] / chunk[i];
    n_[i] = (begin[i] + count[i] - 1) / chunk[i] - low_[i] + 1;
    if (count[i] == 0) is_at_end_ = true;
  }
}

StoredChunk ChunksOfBlock::next() {
  StoredChunk c;
  for (size_t i = 0; i < rank_; ++i) c.first[i] = (low_[i] + at_[i]) * chunk_[i];
  size_t i = rank_;
  for (; i > 0 && ++at_[i - 1] == n_[i - 1]; --i) at_[i - 1] = 0;
  is_at_end_ = i == 0;
  return c;
}

StoredArray::~StoredArray() { g_known -= static_cast<int64_t>(met_.size()); }

int64_t StoredArray::next_serial() { return g_serial++; }

int64_t StoredArray::number_of(const StoredChunk& c) const {
  int64_t number = 0;  // below the number of elements, which fits
  for (size_t i = 0; i < rank(); ++i)
    number = number * ((extents[i] + chunk[i] - 1) / chunk[i]) + c.first[i] / chunk[i];
  return number;
}

bool StoredArray::find(StoredChunk& c) const {
  if (state.empty()) return false;
  const std::lock_guard lock(mutex_);
  const auto at = met_.find(number_of(c));
  if (at == met_.end()) return false;
  c.at = at->second.at;
  c.bytes = at->second.bytes;
  c.mask = at->second.mask;
  c.is_checked = at->second.is_checked;
  return true;
}

void StoredArray::keep(const StoredChunk& c) {
  if (state.empty()) return;
  // Before this array's lock: the one that is dropped may be this one, which the caller holds.
  while (g_known >= kMostKnownChunks && arrays().drop_oldest()) {
  }
  const std::lock_guard lock(mutex_);
  if (static_cast<int64_t>(met_.size()) >= kMostKnownChunks / 4 && !met_.contains(number_of(c)))
    return;
  const auto [at, is_new] = met_.insert_or_assign(
      number_of(c), Met{.at = c.at, .bytes = c.bytes, .mask = c.mask, .is_checked = c.is_checked});
  if (is_new) ++g_known;
}

StoredArray::Part StoredArray::part_of(const StoredChunk& c, const WantedBlock& block) const {
  Part p;
  int64_t last = 0;
  for (size_t i = 0; i < rank(); ++i) {
    const int64_t low = std::max(block.begin[i], c.first[i]);
    p.count[i] = std::min(block.begin[i] + block.count[i], c.first[i] + chunk[i]) - low;
    p.from = p.from * chunk[i] + low - c.first[i];
    last = last * chunk[i] + low - c.first[i] + p.count[i] - 1;
    p.to = p.to * block.count[i] + low - block.begin[i];
  }
  p.n_front = last + 1;
  return p;
}

DecodedChunk StoredArray::unpack(const StoredChunk& c, std::span<const std::byte> stored,
                                 const Part& part, Scratch& scratch) const {
  const DecodedChunk decoded = decode_chunk(stored, filters, c.mask, chunk_bytes, element.bytes,
                                            c.is_checked ? part.n_front : chunk_elements, scratch);
  g_decoded += decoded.n_bytes;
  return decoded;
}

bool StoredArray::copy_part(const DecodedChunk* decoded, const Part& part, const WantedBlock& block,
                            Scratch& scratch) const {
  const int64_t value_bytes = size_of(block.type);
  auto* values = static_cast<std::byte*>(block.to);
  return for_rows({part.count.data(), rank()}, chunk, block.count, part.from, part.to,
                  [&](int64_t at, int64_t value_at, int64_t n) {
                    std::byte* out = values + value_at * value_bytes;
                    if (decoded != nullptr)
                      return copy_run(*decoded, chunk_elements, at, n, element, block.conversion,
                                      out, scratch);
                    bool fits = true;
                    for (int64_t k = 0; k < n; ++k)
                      fits &= block.conversion.apply(fill.data(), out + k * value_bytes, 1);
                    return fits;
                  });
}

bool StoredArray::take(const StoredChunk& c, std::span<const std::byte> stored,
                       const WantedBlock& block, Scratch& scratch) const {
  const Part part = part_of(c, block);
  if (c.bytes == 0) return copy_part(nullptr, part, block, scratch);
  const DecodedChunk decoded = unpack(c, stored, part, scratch);
  return copy_part(&decoded, part, block, scratch);
}

bool StoredArray::take_from(int descriptor, const StoredChunk& c, const WantedBlock& block,
                            Scratch& scratch) {
  const Part part = part_of(c, block);
  if (c.bytes == 0) return copy_part(nullptr, part, block, scratch);
  const KeptChunks::Name name{serial_, number_of(c)};
  if (block.keeps_chunks)
    if (const auto kept = KeptChunks::of_this_process().find(name, part.n_front)) {
      const DecodedChunk decoded{kept->bytes.data(), kept->is_shuffled, 0};
      return copy_part(&decoded, part, block, scratch);
    }
  if (static_cast<int64_t>(scratch.raw.size()) < c.bytes)
    scratch.raw.resize(static_cast<size_t>(c.bytes));
  read_bytes(descriptor, c.at, c.bytes, scratch.raw.data());
  const DecodedChunk decoded =
      unpack(c, {scratch.raw.data(), static_cast<size_t>(c.bytes)}, part, scratch);
  const bool fits = copy_part(&decoded, part, block, scratch);
  if (!c.is_checked) {
    StoredChunk checked = c;
    checked.is_checked = true;
    keep(checked);
  }
  if (block.keeps_chunks && decoded.bytes == scratch.inflated.data()) {
    KeptChunk kept{.bytes = {},
                   .is_shuffled = decoded.is_shuffled,
                   .n_elements = decoded.n_bytes == chunk_bytes ? chunk_elements : part.n_front};
    if (static_cast<int64_t>(scratch.inflated.capacity()) <= chunk_bytes + chunk_bytes / 4) {
      kept.bytes = std::move(scratch.inflated);
      scratch.inflated = KeptChunks::of_this_process().keep(name, std::move(kept));
    } else {  // the thread's buffer was for larger ones
      kept.bytes.assign(decoded.bytes, decoded.bytes + chunk_bytes);
      KeptChunks::of_this_process().keep(name, std::move(kept));
    }
  }
  return fits;
}

bool StoredArray::keeps_chunks_of(std::span<const int64_t> begin,
                                  std::span<const int64_t> count) const {
  const auto is_deflate = [](const Filter& f) { return f.kind == Filter::Kind::deflate; };
  if (state.empty() || !std::any_of(filters.begin(), filters.end(), is_deflate)) return false;
  double bytes = static_cast<double>(chunk_bytes);
  for (size_t i = 0; i < rank(); ++i)
    bytes *= static_cast<double>((begin[i] + count[i] - 1) / chunk[i] - begin[i] / chunk[i] + 1);
  return bytes <= static_cast<double>(KeptChunks::of_this_process().limit()) / 2;
}

bool StoredArray::knows(std::span<const int64_t> begin, std::span<const int64_t> count,
                        DType type) const {
  if (state.empty() || begin.size() != rank() || count.size() != rank()) return false;
  // A file that lies about its extents is the library's way's to refuse, before memory is taken.
  constexpr int64_t kMost = int64_t{1} << 28;
  int64_t n = 1;
  for (size_t i = 0; i < rank(); ++i) {
    if (begin[i] < 0 || count[i] < 1 || begin[i] > extents[i] - count[i]) return false;
    if (__builtin_mul_overflow(n, count[i], &n) || n > kMost) return false;
  }
  if (!conversion(element, type)) return false;
  if (array_at >= 0) return true;
  for (ChunksOfBlock chunks(chunk, begin, count); !chunks.is_at_end();) {
    StoredChunk c = chunks.next();
    if (!find(c)) return false;
  }
  return true;
}

bool StoredArray::read_known(int descriptor, std::span<const int64_t> begin,
                             std::span<const int64_t> count, DType type, void* to) {
  if (!knows(begin, count, type)) return false;
  const Conversion converted = *conversion(element, type);
  bool fits = true;
  Scratch& scratch = Scratch::of_this_thread();
  if (array_at >= 0) {
    fits = read_block({descriptor, array_at, extents, element, converted}, begin, count, type, to);
  } else {
    const WantedBlock block{begin, count, type, converted, to, keeps_chunks_of(begin, count)};
    for (ChunksOfBlock chunks(chunk, begin, count); fits && !chunks.is_at_end();) {
      StoredChunk c = chunks.next();
      fits = find(c) && take_from(descriptor, c, block, scratch);
    }
  }
  scratch.shrink();
  if (!fits) return false;
  int64_t n = element.bytes;
  for (const int64_t k : count) n *= k;
  count_bytes_read(n);
  return true;
}

std::shared_ptr<StoredArray> find_stored(const std::string& state, const std::string& name) {
  return arrays().find(state + '\n' + name);
}

std::shared_ptr<StoredArray> keep_stored(const std::string& name,
                                         std::shared_ptr<StoredArray> array) {
  BORA_CHECK(!array->state.empty(), "hdf5: keeping '", name, "' of a file without a state");
  const std::string key = array->state + '\n' + name;
  return arrays().keep(key, std::move(array));
}

int64_t n_known_chunks() { return g_known; }
int64_t chunk_bytes_decoded() { return g_decoded; }

}  // namespace bora::data::hdf5::detail
