// SPDX-License-Identifier: Apache-2.0
#include "data/hdf5_decode.hpp"

#include <libdeflate.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <memory>

#include "core/error.hpp"

namespace bora::data::hdf5::detail {

namespace {

struct FreeDecompressor {
  void operator()(libdeflate_decompressor* d) const { libdeflate_free_decompressor(d); }
};

libdeflate_decompressor* decompressor() {
  thread_local const std::unique_ptr<libdeflate_decompressor, FreeDecompressor> own(
      libdeflate_alloc_decompressor());
  BORA_CHECK(own, "no memory to inflate with");
  return own.get();
}

/// The first `wanted` bytes of output, into `out`; false if they cannot be had without the rest of
/// `bytes`, or if something is wrong with them.
///
/// libdeflate is given less room than all needs: it fills what it has from the front and says that
/// it was too little.  That it does fill it is nowhere promised, so a mark is put where output must
/// have come by, so far behind the wanted bytes that what a match copies too much (39 bytes in
/// 1.14) does not reach from one to the other.  Where the mark still stands, the output did not
/// come so far: before a block that is stored as it is and does not fit, or with a library that
/// works in another way.
bool inflate_front(std::span<const std::byte> in, int64_t wanted, int64_t bytes,
                   std::vector<std::byte>& out) {
  constexpr int64_t kApart = 256, kLongestMatch = 258;
  constexpr std::array<uint8_t, 8> kMark = {0x5a, 0xc3, 0x1e, 0xf7, 0x84, 0x6b, 0xd2, 0x39};
  const int64_t mark_at = wanted + kApart;
  const int64_t room = mark_at + std::ssize(kMark) + 2 * kLongestMatch;
  if (room > bytes - bytes / 32) return false;
  if (static_cast<int64_t>(out.size()) < bytes) out.resize(static_cast<size_t>(bytes));
  std::memcpy(out.data() + mark_at, kMark.data(), kMark.size());
  size_t n = 0;
  const libdeflate_result result = libdeflate_zlib_decompress(
      decompressor(), in.data(), in.size(), out.data(), static_cast<size_t>(room), &n);
  return result == LIBDEFLATE_INSUFFICIENT_SPACE &&
         std::memcmp(out.data() + mark_at, kMark.data(), kMark.size()) != 0;
}

/// `bytes` of output at most; the result lies in `out`.
std::span<const std::byte> inflate(std::span<const std::byte> in, int64_t bytes,
                                   std::vector<std::byte>& out) {
  // 258 bytes by two codes of one bit each is the most that the format can say.
  constexpr int64_t kMostTimes = 1032;
  BORA_CHECK(bytes / kMostTimes <= static_cast<int64_t>(in.size()), in.size(),
             " compressed bytes cannot hold the ", bytes, " bytes of a chunk");
  if (static_cast<int64_t>(out.size()) < bytes) out.resize(static_cast<size_t>(bytes));
  size_t n = 0;
  const libdeflate_result result = libdeflate_zlib_decompress(
      decompressor(), in.data(), in.size(), out.data(), static_cast<size_t>(bytes), &n);
  BORA_CHECK(result != LIBDEFLATE_INSUFFICIENT_SPACE, "the compressed data give more than the ",
             bytes, " bytes of a chunk: they are damaged");
  BORA_CHECK(result == LIBDEFLATE_SUCCESS,
             "the compressed data are damaged (deflate: bad code or checksum)");
  return {out.data(), n};
}

/// Elements of kBytes from their planes, `n_plane` bytes apart.
template <class Word>
void gather_planes(const std::byte* planes, int64_t n_plane, int64_t n, void* to) {
  const auto* p = reinterpret_cast<const uint8_t*>(planes);
  auto* out = static_cast<std::byte*>(to);
  static_assert(std::endian::native == std::endian::little);
  for (int64_t i = 0; i < n; ++i) {
    Word w = 0;
    for (size_t k = 0; k < sizeof(Word); ++k)
      w = static_cast<Word>(
          w | static_cast<Word>(Word{p[static_cast<int64_t>(k) * n_plane + i]} << (8 * k)));
    std::memcpy(out + i * static_cast<int64_t>(sizeof(Word)), &w, sizeof(Word));
  }
}

void gather(const std::byte* planes, int64_t n_plane, int64_t first, int64_t n, int64_t bytes,
            void* to) {
  planes += first;
  if (bytes == 4) return gather_planes<uint32_t>(planes, n_plane, n, to);
  if (bytes == 2) return gather_planes<uint16_t>(planes, n_plane, n, to);
  if (bytes == 8) return gather_planes<uint64_t>(planes, n_plane, n, to);
  auto* out = static_cast<std::byte*>(to);
  for (int64_t i = 0; i < n; ++i)
    for (int64_t k = 0; k < bytes; ++k) out[i * bytes + k] = planes[k * n_plane + i];
}

void check_fletcher32(std::span<const std::byte> data, std::span<const std::byte> sum) {
  uint32_t stored = 0;
  std::memcpy(&stored, sum.data(), sizeof stored);
  const uint32_t found = fletcher32(data);
  // Old libraries on little-endian machines summed words of swapped bytes: HDF5 accepts both.
  const uint32_t old = ((found & 0x00ff00ffu) << 8) | ((found >> 8) & 0x00ff00ffu);
  BORA_CHECK(stored == found || stored == old,
             "the checksum (fletcher32) differs: the data are damaged; stored ", stored,
             ", of the data ", found);
}

}  // namespace

Scratch& Scratch::of_this_thread() {
  thread_local Scratch scratch;
  return scratch;
}

void Scratch::shrink() {
  constexpr size_t kKept = size_t{8} << 20;
  for (auto* buffer : {&raw, &inflated, &unshuffled, &run})
    if (buffer->capacity() > kKept) *buffer = {};
}

namespace {
/// Up to where a chunk must be inflated for its first elements.
struct Front {
  int64_t bytes = 0;  // 0: to its end
  bool is_shuffled = false;
};
/// For chunks that are deflated, shuffled before or not, and nothing else.
Front front_of(std::span<const Filter> filters, uint32_t mask, int64_t chunk_bytes,
               int64_t element_bytes, int64_t n_elements) {
  const int64_t n_all = chunk_bytes / element_bytes;
  if (n_elements >= n_all || filters.empty() || mask != 0) return {};
  if (filters.back().kind != Filter::Kind::deflate || filters.size() > 2) return {};
  const bool is_shuffled = filters.size() == 2 && element_bytes > 1;
  if (filters.size() == 2 && (filters[0].kind != Filter::Kind::shuffle ||
                              filters[0].shuffle_bytes != element_bytes || n_all <= 1))
    return {};
  if (!is_shuffled) return {n_elements * element_bytes, false};
  return {(element_bytes - 1) * n_all + n_elements, true};  // the last plane is spared in part
}
}  // namespace

DecodedChunk decode_chunk(std::span<const std::byte> stored, std::span<const Filter> filters,
                          uint32_t mask, int64_t chunk_bytes, int64_t element_bytes,
                          int64_t n_elements, Scratch& scratch) {
  const auto is_used = [&](size_t i) { return ((mask >> i) & 1u) == 0; };
  DecodedChunk out;
  std::span<const std::byte> now = stored;
  if (const auto ends = front_of(filters, mask, chunk_bytes, element_bytes, n_elements);
      ends.bytes > 0 && inflate_front(now, ends.bytes, chunk_bytes, scratch.inflated))
    return {scratch.inflated.data(), ends.is_shuffled, ends.bytes};
  for (size_t i = filters.size(); i-- > 0;) {
    if (!is_used(i)) continue;
    int64_t before = chunk_bytes;  // bytes that this filter was given on writing
    bool is_first = true;
    for (size_t j = 0; j < i; ++j)
      if (is_used(j)) {
        is_first = false;
        if (filters[j].kind == Filter::Kind::fletcher32) before += 4;
      }
    switch (filters[i].kind) {
      case Filter::Kind::fletcher32:
        BORA_CHECK(now.size() >= 4, now.size(), " bytes, too few for a checksum");
        check_fletcher32(now.first(now.size() - 4), now.last(4));
        now = now.first(now.size() - 4);
        break;
      case Filter::Kind::deflate:
        now = inflate(now, before, scratch.inflated);
        break;
      case Filter::Kind::shuffle: {
        const int64_t bytes = filters[i].shuffle_bytes, n = static_cast<int64_t>(now.size());
        if (bytes <= 1 || n / bytes <= 1) break;  // as the library does
        if (is_first && bytes == element_bytes && n == chunk_bytes && n % bytes == 0) {
          out.is_shuffled = true;
          break;
        }
        auto& to = scratch.unshuffled;
        if (to.size() < now.size()) to.resize(now.size());
        gather(now.data(), n / bytes, 0, n / bytes, bytes, to.data());
        const auto rest = now.last(static_cast<size_t>(n % bytes));  // is left where it was
        std::copy(rest.begin(), rest.end(), to.begin() + (n - n % bytes));
        now = {to.data(), now.size()};
        break;
      }
    }
  }
  BORA_CHECK(static_cast<int64_t>(now.size()) == chunk_bytes, "the stored data give ", now.size(),
             " bytes, wanted the ", chunk_bytes, " of a chunk: they are damaged");
  out.bytes = now.data();
  out.n_bytes = chunk_bytes;
  return out;
}

bool copy_run(const DecodedChunk& chunk, int64_t n_elements, int64_t first, int64_t n,
              const Element& element, const Conversion& conversion, void* to, Scratch& scratch) {
  if (!chunk.is_shuffled) return conversion.apply(chunk.bytes + first * element.bytes, to, n);
  if (conversion.is_copy) {
    gather(chunk.bytes, n_elements, first, n, element.bytes, to);
    return true;
  }
  const auto n_bytes = static_cast<size_t>(n * element.bytes);
  if (scratch.run.size() < n_bytes) scratch.run.resize(n_bytes);
  gather(chunk.bytes, n_elements, first, n, element.bytes, scratch.run.data());
  return conversion.apply(scratch.run.data(), to, n);
}

uint32_t fletcher32(std::span<const std::byte> bytes) {
  const auto* p = reinterpret_cast<const uint8_t*>(bytes.data());
  size_t n = bytes.size() / 2;
  // Sums modulo 2^16 - 1 where 0 stays 0 and all other multiples are 2^16 - 1.
  const auto fold = [](uint64_t x) {
    while (x > 0xffff) x = (x & 0xffff) + (x >> 16);
    return x;
  };
  uint64_t a = 0, b = 0;
  // Of a block of k words w: a grows by sum(w), b by k a + sum((k - i) w_i).
  constexpr size_t kBlock = 256;
  while (n > 0) {
    const size_t k = std::min(n, kBlock);
    uint32_t sum = 0, weighted = 0;  // 256 * 257 / 2 * 65535 < 2^32
    for (size_t i = 0; i < k; ++i) {
      const uint32_t w = static_cast<uint32_t>(p[2 * i] << 8 | p[2 * i + 1]);
      sum += w;
      weighted += static_cast<uint32_t>(k - i) * w;
    }
    b = fold(b + k * a + weighted);
    a = fold(a + sum);
    p += 2 * k;
    n -= k;
  }
  if (bytes.size() % 2 != 0) {
    a = fold(a + (uint64_t{*p} << 8));
    b = fold(b + a);
  }
  return static_cast<uint32_t>(b << 16 | a);
}

}  // namespace bora::data::hdf5::detail
