// SPDX-License-Identifier: Apache-2.0
// What fuzzers of volumes do with a file that opened: whole, in part, as labels; and twice.
#pragma once

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <optional>

#include "core/error.hpp"
#include "data/volume_file.hpp"
#include "tests/fuzz/named_error.hpp"

namespace bora::fuzz {

/// `name`: as of try_to().
inline void read_every_way(const data::VolumeFile& file, const std::string& name) {
  const Dims3 grid = file.info().grid;
  const Dims3 half{grid.d / 2, grid.h / 2, grid.w / 2};
  const Dims3 box{std::min<int64_t>(grid.d - half.d, 3), std::min<int64_t>(grid.h - half.h, 3),
                  std::min<int64_t>(grid.w - half.w, 3)};
  const auto read = [&](const Dims3& begin, const Dims3& count, DType type) {
    try_to(name, [&] { file.read(begin, count, type); });
  };
  read(half, box, DType::f32);
  read(half, box, DType::u8);
  read({0, 0, 0}, grid, DType::f32);
  read({0, 0, 0}, grid, file.info().type);
  read(grid, {1, 1, 1}, DType::f64);
}

/// read() twice, since what a reader keeps of the first serves the second: aborts unless both are
/// refused with an Error or give the same bits.
template <class Read>
void read_twice(const std::string& name, Read&& read) {
  const auto one = [&]() -> std::optional<Tensor> {
    std::optional<Tensor> values;
    try_to(name, [&] { values = read(); });
    return values;
  };
  const std::optional<Tensor> a = one(), b = one();
  if (a.has_value() != b.has_value()) std::abort();
  if (!a) return;
  if (a->shape() != b->shape() || a->dtype() != b->dtype()) std::abort();
  if (a->bytes() > 0 && std::memcmp(a->raw(), b->raw(), static_cast<size_t>(a->bytes())) != 0)
    std::abort();
}

}  // namespace bora::fuzz
