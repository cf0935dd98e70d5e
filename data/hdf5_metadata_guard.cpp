// SPDX-License-Identifier: Apache-2.0
#include "data/hdf5_metadata_guard.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <iterator>
#include <utility>
#include <vector>

#include "core/error.hpp"
#include "data/read_at.hpp"

namespace bora::data::hdf5::detail {
namespace {

constexpr size_t kHeapHead = 16;  // of a global heap collection, and of each object in it

/// An unsigned number of 1 to 8 bytes.
uint64_t little_endian(const unsigned char* at, size_t n_bytes) {
  uint64_t value = 0;
  for (size_t i = n_bytes; i-- > 0;) value = value << 8 | at[i];
  return value;
}

size_t two_bytes(const unsigned char* at) { return static_cast<size_t>(at[0] | at[1] << 8); }

bool begins_with(const unsigned char* bytes, size_t n, const char* mark) {
  return n >= 4 && std::memcmp(bytes, mark, 4) == 0;
}

/// Where the values of an attribute are that lie in a global heap ("variable length").
struct AttributeValues {
  const unsigned char* at = nullptr;
  size_t bytes = 0;
};

/// Whether an attribute's message holds all that it says; `found` where its values refer to a heap.
/// IV.A.2.m: version (1), flags (1), sizes of name with its final zero, type and space (2 each), in
/// version 3 one byte more; then these, in version 1 each up to a multiple of 8, and the values. Of
/// the type bytes 4 to 7 are its size; the space: version (1), rank (1), extents of 8 bytes from
/// byte 8 on (version 2: 4).  Shared types and spaces are elsewhere: then the name alone is judged.
bool is_sound_attribute(const unsigned char* message, size_t bytes, AttributeValues& found) {
  if (bytes < 8) return false;
  const unsigned version = message[0];
  const size_t name = version == 3 ? 9 : 8, name_bytes = two_bytes(message + 2),
               type_bytes = two_bytes(message + 4), space_bytes = two_bytes(message + 6);
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
  uint64_t n = little_endian(message + type + 4, 4);
  for (size_t i = 0; i < rank; ++i)
    if (__builtin_mul_overflow(n, little_endian(s + extents + 8 * i, 8), &n)) return false;
  if (n > bytes - values) return false;
  constexpr unsigned kVariableLength = 9;
  if ((message[type] & 15) == kVariableLength) found = {message + values, static_cast<size_t>(n)};
  return true;
}

/// Whether a message of filters holds all that it says, with names that end in it.  IV.A.2.l:
/// version (1), how many (1), in version 1 six bytes more; for each its number (2), bytes of its
/// name (2; in version 2 only from number 256 on), flags (2), how many values (2), the name, values
/// of 4 bytes, in version 1 an even number of them.
bool are_sound_filters(const unsigned char* message, size_t bytes) {
  if (bytes < 2) return false;
  const unsigned version = message[0];
  size_t at = version == 1 ? 8 : 2;
  for (unsigned i = 0; i < message[1]; ++i) {
    if (at + 8 > bytes) return false;
    const bool is_named = version == 1 || two_bytes(message + at) >= 256;
    const size_t name_bytes = is_named ? two_bytes(message + at + 2) : 0;
    at += is_named ? 6 : 4;
    size_t values = two_bytes(message + at);
    if (version == 1) values += values % 2;
    at += 2;
    if (name_bytes > bytes - at ||
        (name_bytes > 0 && std::memchr(message + at, 0, name_bytes) == nullptr))
      return false;
    at += name_bytes;
    if (4 * values > bytes - at) return false;
    at += 4 * values;
  }
  return true;
}

/// Whether chunks have an extent on every axis: the library divides by it.  IV.A.2.i: version (1);
/// in versions 1 and 2 axes (1), class (1), five bytes, an address; in 3 class, axes, an address;
/// in 4 class, flags, axes, bytes of an extent (1); then the extents (of 4 bytes but for 4).  Class
/// 2: chunks.  The element counts as an axis.
bool is_sound_layout(const unsigned char* message, size_t bytes, size_t address_bytes) {
  if (bytes < 5) return false;
  const unsigned version = message[0], kind = message[version < 3 ? 2 : 1];
  if (version < 1 || version > 4 || kind != 2) return true;  // the library's matter
  const size_t axes = message[version < 3 ? 1 : version == 3 ? 2 : 3];
  const size_t width = version == 4 ? message[4] : 4;
  const size_t at = version < 3 ? 8 + address_bytes : version == 3 ? 3 + address_bytes : 5;
  if (axes < 2 || width < 1 || width > 8 || at + axes * width > bytes) return false;
  for (size_t i = 0; i < axes; ++i)
    if (little_endian(message + at + i * width, width) == 0) return false;
  return true;
}

/// Whether a link holds what it says: the library copies its name and value by their lengths.
/// IV.A.2.g: version (1), flags (1), kind (1, if flag 3), creation order (8, if flag 2), character
/// set (1, if flag 4), length of the name (1, 2, 4 or 8 by flags 0 and 1), name; then of a hard
/// link (0) an address, of others a length (2) and a value.  That of an external one (64) is a byte
/// and two texts with their final zeros, the file and the object.
bool is_sound_link(const unsigned char* message, size_t bytes, size_t address_bytes) {
  constexpr unsigned kHard = 0, kExternal = 64;
  if (bytes < 2 || message[0] != 1) return false;
  const unsigned flags = message[1];
  size_t at = 2;
  const unsigned kind = (flags & 8) != 0 && bytes > at ? message[at] : kHard;
  at += ((flags & 8) != 0 ? 1u : 0u) + ((flags & 4) != 0 ? 8u : 0u) + ((flags & 16) != 0 ? 1u : 0u);
  const size_t width = size_t{1} << (flags & 3);
  if (at + width > bytes) return false;
  const uint64_t name = little_endian(message + at, width);
  at += width;
  if (name == 0 || name > bytes - at) return false;
  at += static_cast<size_t>(name);
  if (kind == kHard) return at + address_bytes <= bytes;
  if (at + 2 > bytes) return false;
  const size_t value = two_bytes(message + at);
  at += 2;
  if (value > bytes - at) return false;
  if (kind != kExternal) return value > 0;
  const unsigned char *begin = message + at + 1, *end = message + at + value;
  for (int text = 0; text < 2; ++text) {
    begin = std::find(std::min(begin, end), end, 0);
    if (begin == end) return false;
    ++begin;
  }
  return true;
}

}  // namespace

template <class... Parts>
bool MetadataGuard::refuse(const Parts&... parts) {
  why_ = bora::detail::join(parts...);
  return false;
}

bool MetadataGuard::takes(Part part, uint64_t at, unsigned char* bytes, size_t n, uint64_t base) {
  base_ = base;
  switch (part) {
    case Part::superblock:
      learn_widths(bytes, n);
      return true;
    case Part::header:
      return is_sound_header(at, bytes, n);
    case Part::values:
      return is_sound_heap(at, bytes, n);
    case Part::local_heap:
      return end_names(at, bytes, n);
    case Part::index:
      return is_sound_index(bytes, n);
  }
  return false;
}

/// II: the mark (8), version (1); in versions 0 and 1 four bytes more; bytes of an address (1) and
/// of a length (1).
void MetadataGuard::learn_widths(const unsigned char* bytes, size_t n) {
  if (n < 15 || std::memcmp(bytes + 1, "HDF", 3) != 0) return;
  const unsigned char* widths = bytes + (bytes[8] < 2 ? 13 : 9);
  // The library refuses others.
  if (widths[0] >= 1 && widths[0] <= 8) address_bytes_ = widths[0];
  if (widths[1] >= 1 && widths[1] <= 8) length_bytes_ = widths[1];
}

/// Whether messages of the old object header fill n bytes exactly; `sound` becomes false for one
/// that does not hold what it says.  IV.A.1.a: type (2), size (2), flags (1), 3 bytes, contents.
bool MetadataGuard::are_messages(const unsigned char* at, size_t n, bool& sound) {
  constexpr size_t kHead = 8;
  constexpr size_t kLink = 6, kLayout = 8, kFilters = 11, kAttribute = 12, kContinuation = 16;
  constexpr unsigned kShared = 2;
  size_t offset = 0;
  while (n - offset >= kHead) {
    const unsigned char *head = at + offset, *message = head + kHead;
    const size_t type = two_bytes(head), bytes = two_bytes(head + 2);
    if (bytes > n - offset - kHead) return false;
    if ((head[4] & kShared) == 0) {
      if (type == kLink && !is_sound_link(message, bytes, address_bytes_))
        sound = refuse("a link that does not hold what it says");
      if (type == kLayout && !is_sound_layout(message, bytes, address_bytes_))
        sound = refuse("a layout of chunks without an extent on each axis");
      if (type == kFilters && !are_sound_filters(message, bytes))
        sound = refuse("a list of filters that does not hold what it says");
      AttributeValues values;
      if (type == kAttribute && !is_sound_attribute(message, bytes, values))
        sound = refuse("an attribute that does not hold what it says");
      else if (!are_in_heaps(values.at, values.bytes))
        sound = refuse("an attribute whose text or list is not in its heap");
      if (type == kContinuation) {  // where further messages are
        const uint64_t rest = bytes < address_bytes_ + length_bytes_
                                  ? UINT64_MAX
                                  : little_endian(message + address_bytes_, length_bytes_);
        // The library takes memory of this length before it reads.
        if (rest > file_bytes_)
          sound = refuse("an object header that goes on for ", rest, " bytes in a file of ",
                         file_bytes_);
      }
    }
    offset += kHead + bytes;
  }
  return offset == n;
}

/// False for an object header of the old kind, or a continuation of one, with a message that does
/// not hold what it says.  The new kind begins with a signature and has checksums.
///
/// What a read holds is not said.  The library reads 512 bytes first, and then what a longer header
/// has behind them: a read that begins where the last one ended may be such a rest, and is judged
/// with its beginning.
bool MetadataGuard::is_sound_header(uint64_t at, const unsigned char* begin, size_t n) {
  constexpr size_t kPrefix = 16;
  const uint64_t last_end = std::exchange(header_end_, at + n);
  const uint64_t last_begin = std::exchange(header_begin_, at);
  const auto looks_old = [](const unsigned char* b, size_t bytes) {
    return bytes >= kPrefix && b[0] == 1 && b[1] == 0;
  };
  const auto old_size = [](const unsigned char* b) {
    return static_cast<size_t>(little_endian(b + 8, 4));
  };
  bool sound = true;
  if (at == last_end) {
    std::vector<unsigned char> whole(static_cast<size_t>(at + n - last_begin));
    const auto bytes = static_cast<int64_t>(whole.size());
    const bool is_rest =
        read_at(descriptor_, static_cast<int64_t>(last_begin), bytes, whole.data()) == bytes &&
        looks_old(whole.data(), whole.size()) && old_size(whole.data()) == whole.size() - kPrefix;
    if (is_rest)
      return !are_messages(whole.data() + kPrefix, whole.size() - kPrefix, sound) || sound;
  }
  if (begins_with(begin, n, "OHDR") || begins_with(begin, n, "OCHK")) return true;
  if (looks_old(begin, n)) {
    const size_t bytes = old_size(begin);
    if (bytes > n - kPrefix) return true;  // the rest is read next
    if (are_messages(begin + kPrefix, bytes, sound)) return sound;
    sound = true;
  }
  return !are_messages(begin, n, sound) || sound;
}

/// Whether what references name is there: the length (4), where the heap is (address), which of its
/// objects (4).  The library looks an object up without counting them.
bool MetadataGuard::are_in_heaps(const unsigned char* references, size_t n_bytes) {
  const size_t step = 8 + address_bytes_;
  uint64_t known = UINT64_MAX;  // the heap whose objects these are: mostly one has all
  std::vector<size_t> objects;
  for (size_t i = 0; i + step <= n_bytes; i += step) {
    const unsigned char* r = references + i;
    if (little_endian(r, 4) == 0) continue;  // an empty one has no object
    const uint64_t heap = base_ + little_endian(r + 4, address_bytes_);
    if (heap != known) {
      std::array<unsigned char, kHeapHead> head{};
      objects.clear();
      if (heap > file_bytes_ ||
          read_at(descriptor_, static_cast<int64_t>(heap), std::ssize(head), head.data()) !=
              std::ssize(head) ||
          !begins_with(head.data(), head.size(), "GCOL") ||
          !is_sound_heap(heap, head.data(), head.size(), &objects))
        return false;
      std::sort(objects.begin(), objects.end());
      known = heap;
    }
    const auto wanted = static_cast<size_t>(little_endian(r + 4 + address_bytes_, 4));
    if (!std::binary_search(objects.begin(), objects.end(), wanted)) return false;
  }
  return true;
}

/// Whether the objects of a global heap collection lie in it, if it is one.  III.E: "GCOL", version
/// 1, 3 bytes, size of all; then objects of index (2), references (2), 4 bytes, size (8), contents
/// up to a multiple of 8; index 0 is the space that is left.  The library reads the first 4096
/// bytes, then the rest.  Lengths of 8 bytes, as every writer has them; with others the walk meets
/// a wrong size and refuses.  The objects' indices go to `objects`.
bool MetadataGuard::is_sound_heap(uint64_t at, const unsigned char* bytes, size_t n,
                                  std::vector<size_t>* objects) {
  constexpr size_t kHeader = kHeapHead, kLeast = 4096;
  if (n < kHeader || std::memcmp(bytes, "GCOL\1\0\0", 8) != 0) return true;
  const uint64_t size = little_endian(bytes + 8, 8);
  const auto refused = [&] {
    return refuse("a global heap at byte ", at, " whose objects do not lie in it");
  };
  if (size < kLeast || size > file_bytes_ - at) return refused();
  std::vector<unsigned char> whole(size > n ? size : 0);
  if (!whole.empty()) {
    const auto wanted = static_cast<int64_t>(size);
    if (read_at(descriptor_, static_cast<int64_t>(at), wanted, whole.data()) != wanted)
      return refused();
    bytes = whole.data();
  }
  for (size_t offset = kHeader; size - offset >= kHeader;) {
    const uint64_t held = little_endian(bytes + offset + 8, 8), rest = size - offset;
    const size_t index = two_bytes(bytes + offset);
    if (index == 0) {  // space that is left: the library goes on behind it
      if (held < kHeader || held > rest) return refused();
      offset += held;
      continue;
    }
    if (held > rest - kHeader) return refused();
    const uint64_t step = kHeader + (held + 7) / 8 * 8;
    if (step > rest) return refused();
    if (objects != nullptr) objects->push_back(index);
    offset += step;
  }
  return true;
}

/// III.D: a local heap holds the names of a group.  "HEAP", version 0, 3 bytes, size of its data
/// (length), free list (length), where its data are (address); they may be right behind it, and
/// then be read with it.  The library copies a name up to its zero, wherever that is.  In a sound
/// heap the last byte is a zero already, or belongs to nothing.
bool MetadataGuard::end_names(uint64_t at, unsigned char* bytes, size_t n) {
  constexpr size_t kFixed = 8;
  if (begins_with(bytes, n, "HEAP") && n >= kFixed + 2 * length_bytes_ + address_bytes_) {
    const uint64_t size = little_endian(bytes + kFixed, length_bytes_);
    const uint64_t data = base_ + little_endian(bytes + kFixed + 2 * length_bytes_, address_bytes_);
    if (size > file_bytes_)  // the library takes as much memory before it reads
      return refuse("names of a group that take ", size, " bytes in a file of ", file_bytes_);
    if (size > 0 && data <= file_bytes_) name_ends_.insert(data + size);
  }
  for (auto end = name_ends_.upper_bound(at); end != name_ends_.end() && *end <= at + n; ++end)
    bytes[*end - 1 - at] = 0;
  return true;
}

/// III.A.1: whether a data set's old index of chunks ("TREE", type 1) can be: a chunk stored with 0
/// bytes makes other memory the library's values, one with more than the file has takes memory;
/// one without an address, or out of order, is not found, and fill values come in its place.
///
/// Level (1), entries used (2), two siblings; then keys and addresses in turn, one key more than
/// addresses.  A key: bytes of the chunk (4), mask (4), where it begins on each axis and in the
/// element (8 each, the last one 0).  How many axes is not said, but what was read is the whole
/// node: 2 k addresses and 2 k + 1 keys, k = 32 unless the file says other.  With another k several
/// numbers of axes may fit; then one of them that is sound is enough.
bool MetadataGuard::is_sound_index(const unsigned char* bytes, size_t n) {
  constexpr size_t kMostAxes = 33, kUsualK = 32;
  const size_t head = 8 + 2 * address_bytes_;
  if (n < head || !begins_with(bytes, n, "TREE") || bytes[4] != 1 || bytes[5] != 0) return true;
  const size_t used = two_bytes(bytes + 6);
  const uint64_t no_address = UINT64_MAX >> (64 - 8 * address_bytes_);
  const auto is_sound_with = [&](size_t axes) {
    const size_t key = 8 + 8 * axes;
    std::vector<uint64_t> begin(axes), last;
    for (size_t i = 0; i < used; ++i) {
      const unsigned char* entry = bytes + head + i * (key + address_bytes_);
      const uint64_t stored = little_endian(entry, 4);
      for (size_t a = 0; a < axes; ++a) begin[a] = little_endian(entry + 8 + 8 * a, 8);
      const auto refused = [&](const auto&... parts) {
        std::string place;
        for (size_t a = 0; a + 1 < axes; ++a) place += (a ? ", " : "") + std::to_string(begin[a]);
        return refuse("chunk at (", place, ")", parts...);
      };
      if (begin.back() != 0 || begin <= last)
        return refused(" is out of order in the index of chunks: it is damaged");
      if (stored == 0) return refused(", 0 bytes stored: the file is damaged");
      if (stored > file_bytes_)
        return refused(", ", stored, " bytes stored: more than the file's ", file_bytes_,
                       " bytes: truncated or damaged");
      if (little_endian(entry + key, address_bytes_) == no_address)
        return refused(", ", stored, " bytes stored, but not where: the file is damaged");
      last = begin;
    }
    return true;
  };
  bool is_known = false;
  for (size_t axes = 2; axes <= kMostAxes; ++axes) {
    const size_t key = 8 + 8 * axes, pair = 2 * (key + address_bytes_);
    if (n < head + key || (n - head - key) % pair != 0) continue;
    const size_t k = (n - head - key) / pair;
    if (used > 2 * k) continue;
    if (is_sound_with(axes)) return true;
    is_known = true;
    if (k == kUsualK) return false;
  }
  return !is_known;
}

}  // namespace bora::data::hdf5::detail
