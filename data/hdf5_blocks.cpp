// SPDX-License-Identifier: Apache-2.0
#include "data/hdf5_blocks.hpp"

#include <cstring>
#include <vector>

#include "core/error.hpp"
#include "data/read_at.hpp"

namespace bora::data::hdf5::detail {

void read_bytes(int file, int64_t at, int64_t bytes, void* to) {
  const int64_t done = data::read_at(file, at, bytes, to);
  BORA_CHECK(done >= 0, "reading ", bytes, " bytes at byte ", at,
             " of the file: ", std::strerror(static_cast<int>(-done)), " (errno ", -done, ")");
  BORA_CHECK(done == bytes, "wanted ", bytes, " bytes at byte ", at,
             " of the file, which ends at byte ", at + done, ": it is truncated");
}

namespace {

// A call to the system costs about as much as copying this many bytes more.
constexpr int64_t kGap = 2048;
// What is read together with gaps, or for conversion, stays in a core's cache.
constexpr int64_t kSpan = int64_t{128} << 10;

struct Row {
  int64_t at = 0, to = 0, n = 0;  // byte in the file; value; elements
};

/// Rows that are read by one call.
class Rows {
 public:
  Rows(const PlainArray& array, DType type, void* to)
      : array_(array), value_bytes_(size_of(type)), to_(static_cast<std::byte*>(to)) {}

  bool add(const Row& row) {
    const int64_t end = row.at + row.n * array_.element.bytes;
    if (!rows_.empty() && (row.at - end_ > kGap || end - rows_.front().at > kSpan))
      if (!flush()) return false;
    if (end - row.at > kSpan) return read_long(row);
    rows_.push_back(row);
    end_ = end;
    return true;
  }
  bool flush() {
    if (rows_.empty()) return true;
    bool fits = true;
    if (rows_.size() == 1 && array_.conversion.is_copy) {
      const Row& r = rows_.front();
      read_bytes(array_.file, r.at, r.n * array_.element.bytes, value(r.to));
    } else {
      const int64_t first = rows_.front().at, n = end_ - first;
      std::vector<std::byte>& raw = scratch_.raw;
      if (static_cast<int64_t>(raw.size()) < n) raw.resize(static_cast<size_t>(n));
      read_bytes(array_.file, first, n, raw.data());
      for (const Row& r : rows_)
        fits &= array_.conversion.apply(raw.data() + (r.at - first), value(r.to), r.n);
    }
    rows_.clear();
    return fits;
  }

 private:
  std::byte* value(int64_t i) { return to_ + i * value_bytes_; }
  bool read_long(Row row) {
    const int64_t bytes = array_.element.bytes;
    if (array_.conversion.is_copy) {
      read_bytes(array_.file, row.at, row.n * bytes, value(row.to));
      return true;
    }
    while (row.n > 0) {  // in parts that stay in the cache between reading and converting
      const int64_t n = std::min(row.n, kSpan / bytes);
      rows_.push_back({row.at, row.to, n});
      end_ = row.at + n * bytes;
      if (!flush()) return false;
      row = {end_, row.to + n, row.n - n};
    }
    return true;
  }

  const PlainArray& array_;
  const int64_t value_bytes_;
  std::byte* to_;
  Scratch& scratch_ = Scratch::of_this_thread();
  std::vector<Row> rows_;
  int64_t end_ = 0;  // byte behind the last row
};

}  // namespace

bool read_block(const PlainArray& array, std::span<const int64_t> begin,
                std::span<const int64_t> count, DType type, void* to) {
  int64_t first = 0;
  for (size_t i = 0; i < count.size(); ++i) first = first * array.extents[i] + begin[i];
  Rows rows(array, type, to);
  return for_rows(count, array.extents, count, first, 0,
                  [&](int64_t from, int64_t value, int64_t n) {
                    return rows.add({array.at + from * array.element.bytes, value, n});
                  }) &&
         rows.flush();
}

}  // namespace bora::data::hdf5::detail
