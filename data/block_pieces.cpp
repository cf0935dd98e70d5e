// SPDX-License-Identifier: Apache-2.0
#include "data/block_pieces.hpp"

#include <algorithm>
#include <cstring>
#include <vector>

#include "core/error.hpp"

namespace bora::data {
namespace {

/// Counts up like an odometer, the last axis fastest; false behind the end.
template <class Next>
bool advance(size_t rank, Next&& next) {
  for (size_t i = rank; i > 0; --i)
    if (next(i - 1)) return true;
  return false;
}

}  // namespace

void each_piece(
    std::span<const int64_t> begin, std::span<const int64_t> count, std::span<const int64_t> chunk,
    int64_t most,
    const std::function<void(std::span<const int64_t>, std::span<const int64_t>)>& use) {
  const size_t rank = count.size();
  BORA_CHECK(begin.size() == rank && (chunk.empty() || chunk.size() == rank) && most > 0,
             "each_piece: ", rank, " axes, ", begin.size(), " begins, ", chunk.size(),
             " extents of a chunk, at most ", most, " elements");
  if (std::find(count.begin(), count.end(), 0) != count.end()) return;
  // Chunks of a piece along each axis: as many of the fastest axes as there is room for.
  std::vector<int64_t> unit(rank, 1), step(rank);
  int64_t n = 1;
  for (size_t i = 0; i < rank; ++i) {
    if (!chunk.empty()) unit[i] = std::max<int64_t>(1, chunk[i]);
    step[i] = unit[i];
    n *= std::min(unit[i], count[i]);
  }
  for (size_t i = rank; i-- > 0;) {
    const int64_t all = (begin[i] + count[i] - 1) / unit[i] - begin[i] / unit[i] + 1;
    const int64_t k = std::clamp<int64_t>(most / n, 1, all);
    step[i] = k * unit[i];
    n *= k;
    if (k < all) break;
  }
  std::vector<int64_t> at(begin.begin(), begin.end()), size(rank);
  do {
    for (size_t i = 0; i < rank; ++i)
      size[i] = std::min(begin[i] + count[i], at[i] / unit[i] * unit[i] + step[i]) - at[i];
    use(at, size);
  } while (advance(rank, [&](size_t i) {
    const bool is_inside = at[i] + size[i] < begin[i] + count[i];
    at[i] = is_inside ? at[i] + size[i] : begin[i];
    return is_inside;
  }));
}

void put_piece(const Tensor& piece, std::span<const int64_t> at, Tensor& whole) {
  const auto rank = static_cast<size_t>(whole.rank());
  BORA_CHECK(piece.dtype() == whole.dtype() && piece.rank() == whole.rank() && at.size() == rank,
             "put_piece: ", piece.shape(), ' ', piece.dtype(), " into ", whole.shape(), ' ',
             whole.dtype());
  for (int i = 0; i < whole.rank(); ++i)
    BORA_CHECK(at[static_cast<size_t>(i)] >= 0 &&
                   at[static_cast<size_t>(i)] <= whole.size(i) - piece.size(i),
               "put_piece: ", piece.shape(), " from element ", at[static_cast<size_t>(i)],
               " of axis ", i, " of ", whole.shape());
  if (piece.numel() == 0) return;
  const int64_t row = rank == 0 ? 1 : piece.size(-1), bytes = size_of(whole.dtype());
  const auto* from = static_cast<const char*>(piece.raw());
  auto* to = static_cast<char*>(whole.raw());
  std::vector<int64_t> place(rank, 0);  // of the row in the piece; its last one stays 0
  do {
    int64_t first = 0;
    for (size_t i = 0; i < rank; ++i)
      first = first * whole.size(static_cast<int>(i)) + at[i] + place[i];
    std::memcpy(to + first * bytes, from, static_cast<size_t>(row * bytes));
    from += row * bytes;
  } while (rank > 0 && advance(rank - 1, [&](size_t i) {
             const bool is_inside = place[i] + 1 < piece.size(static_cast<int>(i));
             place[i] = is_inside ? place[i] + 1 : 0;
             return is_inside;
           }));
}

}  // namespace bora::data
