// SPDX-License-Identifier: Apache-2.0
#include "data/foreground.hpp"

#include <algorithm>
#include <numeric>

#include "core/error.hpp"
#include "data/volume_read.hpp"

namespace bora::data {
namespace {

constexpr int64_t kFewestCells = 64;

// Indices of the key's numbers.
constexpr uint64_t kDrawClass = 0, kDrawCell = 1;

}  // namespace

ForegroundCells::ForegroundCells(const Box& box, int64_t n_classes)
    : shape_(box.count),
      most_(static_cast<size_t>(std::clamp(kMostCellsInAll / std::max<int64_t>(1, n_classes - 1),
                                           kFewestCells, kMostCells))),
      counts_(static_cast<size_t>(n_classes), 0),
      cells_(static_cast<size_t>(n_classes)) {
  BORA_CHECK(n_classes >= 1 && n_classes < kIgnoredClass, "ForegroundCells: ", n_classes,
             " classes, wanted 1 to 254");
}

// Vitter's algorithm R: the n-th cell of a class takes the place of a kept one with chance
// most / n, so that each has the same chance to be among them in the end.
void ForegroundCells::add(const Tensor& classes) {
  const uint8_t* c = classes.data<uint8_t>();
  BORA_CHECK(next_ + classes.numel() <= shape_.count(), "ForegroundCells: more labels than the ",
             shape_.count(), " cells of the box");
  std::vector<uint64_t> streams(counts_.size());
  for (size_t k = 0; k < streams.size(); ++k) streams[k] = rng_stream("labelled cells", k);
  for (int64_t i = 0; i < classes.numel(); ++i) {
    if (c[i] == 0 || c[i] == kIgnoredClass) continue;
    BORA_CHECK(c[i] < counts_.size(), "ForegroundCells: class ", int{c[i]}, " of ", counts_.size());
    std::vector<int64_t>& kept = cells_[c[i]];
    const int64_t n = ++counts_[c[i]];
    if (kept.size() < most_) {
      kept.push_back(next_ + i);
      continue;
    }
    const RngKey key{0, streams[c[i]]};
    const uint64_t place = key.below(static_cast<uint64_t>(n), static_cast<uint64_t>(n));
    if (place < most_) kept[place] = next_ + i;
  }
  next_ += classes.numel();
}

int64_t ForegroundCells::count() const {
  return std::accumulate(counts_.begin(), counts_.end(), int64_t{0});
}

std::optional<Dims3> ForegroundCells::draw(const RngKey& key, bool by_class) const {
  std::vector<int64_t> chances = counts_;
  if (by_class)
    for (int64_t& n : chances) n = n > 0;
  const int64_t all = std::accumulate(chances.begin(), chances.end(), int64_t{0});
  if (all == 0) return std::nullopt;
  auto left = static_cast<int64_t>(key.below(static_cast<uint64_t>(all), kDrawClass));
  size_t c = 0;
  while (left >= chances[c]) left -= chances[c++];
  const std::vector<int64_t>& kept = cells_[c];
  const int64_t i = kept[key.below(kept.size(), kDrawCell)];
  return Dims3{i / (shape_.h * shape_.w), i / shape_.w % shape_.h, i % shape_.w};
}

}  // namespace bora::data
