// SPDX-License-Identifier: Apache-2.0
// Built with -ffp-contract=off: a fused slope * x + intercept has other bits than the two steps
// that other readers take.
#include "data/dense_array.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <type_traits>
#include <utility>

#include "core/error.hpp"

namespace bora::data {
namespace {

constexpr int64_t kSlabBytes = int64_t{8} << 20;
constexpr int64_t kSlabPlanes = 16;  // 64 bytes of f32 in a row of the result
constexpr int64_t kMostWaste = 4;    // bytes read for a byte that is wanted

/// Calls f.template operator()<T>() with the C++ type of the numbers.
template <class F>
decltype(auto) dispatch_number(NumberType type, F&& f) {
  switch (type) {
    case NumberType::u8:
      return f.template operator()<uint8_t>();
    case NumberType::i8:
      return f.template operator()<int8_t>();
    case NumberType::i16:
      return f.template operator()<int16_t>();
    case NumberType::u16:
      return f.template operator()<uint16_t>();
    case NumberType::i32:
      return f.template operator()<int32_t>();
    case NumberType::u32:
      return f.template operator()<uint32_t>();
    case NumberType::i64:
      return f.template operator()<int64_t>();
    case NumberType::u64:
      return f.template operator()<uint64_t>();
    case NumberType::f16:
      return f.template operator()<Half>();
    case NumberType::f32:
      return f.template operator()<float>();
    case NumberType::f64:
      return f.template operator()<double>();
  }
  BORA_FAIL("dispatch_number: unknown type");
}

template <class Word>
void swap_words(std::byte* at, int64_t n) {
  for (int64_t i = 0; i < n; ++i, at += sizeof(Word)) {
    Word w;
    std::memcpy(&w, at, sizeof w);
    if constexpr (sizeof w == 2) w = __builtin_bswap16(w);
    if constexpr (sizeof w == 4) w = __builtin_bswap32(w);
    if constexpr (sizeof w == 8) w = __builtin_bswap64(w);
    std::memcpy(at, &w, sizeof w);
  }
}

void swap_bytes(std::byte* at, int64_t bytes, int64_t size) {
  if (size == 2) swap_words<uint16_t>(at, bytes / 2);
  if (size == 4) swap_words<uint32_t>(at, bytes / 4);
  if (size == 8) swap_words<uint64_t>(at, bytes / 8);
}

/// Three nested loops over a slab: strides in bytes of the slab, in elements of the result.
struct Loops {
  std::array<int64_t, 3> count{}, in{}, out{};
};

/// A value that the wanted type cannot hold, and where.
struct Misfit {
  std::array<int64_t, 3> at{};
  std::string value;
};

template <class To, class From>
bool fits(From v) {
  if constexpr (std::is_floating_point_v<To>) {
    return true;
  } else if constexpr (std::is_integral_v<From>) {
    return std::in_range<To>(v);
  } else {  // the limits of To as doubles are exact, or 2^63 for i64's upper one
    const auto d = static_cast<double>(v);
    return d >= static_cast<double>(std::numeric_limits<To>::min()) &&
           d < static_cast<double>(std::numeric_limits<To>::max() / 2 + 1) * 2 &&
           d == std::trunc(d);
  }
}

template <class From>
double as_double(From v) {
  if constexpr (std::is_same_v<From, Half>)
    return static_cast<double>(static_cast<float>(v));
  else
    return static_cast<double>(v);
}

template <class From, class To, bool kScaled>
bool place(const std::byte* slab, const Loops& loops, double slope, double intercept, To* out,
           Misfit& misfit) {
  const auto value_of = [&](const std::byte* at) {
    From stored;
    std::memcpy(&stored, at, sizeof stored);
    if constexpr (kScaled) {
      double v = as_double(stored);
      if (slope != 1) v *= slope;
      if (intercept != 0) v += intercept;
      return v;
    } else if constexpr (std::is_same_v<From, Half>) {
      return static_cast<float>(stored);
    } else {
      return stored;
    }
  };
  const auto [n0, n1, n2] = loops.count;
  for (int64_t i = 0; i < n0; ++i)
    for (int64_t j = 0; j < n1; ++j) {
      const std::byte* from = slab + i * loops.in[0] + j * loops.in[1];
      To* to = out + i * loops.out[0] + j * loops.out[1];
      if (std::is_floating_point_v<To> && loops.in[2] == int64_t{sizeof(From)} &&
          loops.out[2] == 1) {  // the compiler can use vectors where it knows the strides
        for (int64_t k = 0; k < n2; ++k)
          to[k] = static_cast<To>(value_of(from + k * int64_t{sizeof(From)}));
        continue;
      }
      for (int64_t k = 0; k < n2; ++k) {
        const auto v = value_of(from + k * loops.in[2]);
        if (!fits<To>(v)) [[unlikely]] {
          misfit = {{i, j, k}, bora::detail::join(+v)};
          return false;
        }
        to[k * loops.out[2]] = static_cast<To>(v);
      }
    }
  return true;
}

template <class From>
bool place(const std::byte* slab, const Loops& loops, const DenseArray& array, Tensor& out,
           int64_t first, Misfit& misfit) {
  const auto go = [&]<class To>() {
    To* to = out.data<To>() + first;
    if (array.is_scaled())
      return place<From, To, true>(slab, loops, array.slope, array.intercept, to, misfit);
    return place<From, To, false>(slab, loops, 1, 0, to, misfit);
  };
  switch (out.dtype()) {
    case DType::f32:
      return go.template operator()<float>();
    case DType::f64:
      return go.template operator()<double>();
    case DType::u8:
      return go.template operator()<uint8_t>();
    case DType::i32:
      return go.template operator()<int32_t>();
    case DType::i64:
      return go.template operator()<int64_t>();
    default:
      BORA_FAIL("read_box: wants f32, f64, u8, i32 or i64, got ", out.dtype());
  }
}

[[noreturn]] void fail_misfit(const std::string& path, const std::array<int64_t, 4>& cell,
                              int64_t channels, const std::string& value, DType type) {
  std::string at = bora::detail::join("(", cell[0], ", ", cell[1], ", ", cell[2], ")");
  if (channels > 1) at += bora::detail::join(" of channel ", cell[3]);
  BORA_FAIL("reading '", path, "': cell ", at, " is ", value, ", wanted a whole number of type ",
            type);
}

}  // namespace

int64_t size_of(NumberType type) {
  return dispatch_number(type, []<class T>() { return int64_t{sizeof(T)}; });
}

std::string_view name_of(NumberType type) {
  constexpr std::string_view kNames[] = {"u8",  "i8",  "i16", "u16", "i32", "u32",
                                         "i64", "u64", "f16", "f32", "f64"};
  return kNames[static_cast<size_t>(type)];
}

int64_t DenseArray::bytes() const {
  int64_t n = size_of(type);
  for (const int64_t e : extents)
    BORA_CHECK(e >= 0 && !__builtin_mul_overflow(n, e, &n), "extents ", extents[0], " x ",
               extents[1], " x ", extents[2], " x ", extents[3],
               " are more bytes than 63 bits can count");
  return n;
}

DType DenseArray::smallest_type() const {
  if (is_scaled()) {
    // Whole numbers of few bits stay such under whole factors.
    const bool is_small = type == NumberType::u8 || type == NumberType::i8 ||
                          type == NumberType::i16 || type == NumberType::u16;
    const bool is_whole = slope == std::trunc(slope) && intercept == std::trunc(intercept);
    const double most = std::abs(slope) * 65536 + std::abs(intercept);
    return is_small && is_whole && most <= 16777216 ? DType::f32 : DType::f64;
  }
  switch (type) {
    case NumberType::u8:
      return DType::u8;
    case NumberType::i8:
    case NumberType::i16:
    case NumberType::u16:
    case NumberType::i32:
      return DType::i32;
    case NumberType::u32:
    case NumberType::i64:
    case NumberType::u64:
      return DType::i64;
    case NumberType::f16:
    case NumberType::f32:
      return DType::f32;
    case NumberType::f64:
      return DType::f64;
  }
  BORA_FAIL("DenseArray: unknown type");
}

std::string DenseArray::stored_type() const {
  const bool is_big = is_swapped == (std::endian::native == std::endian::little);
  return std::string(name_of(type)) + (size_of(type) > 1 && is_big ? ", big-endian" : "");
}

Tensor read_box(ByteSource& from, const DenseArray& array, const Dims3& begin, const Dims3& count,
                DType type) {
  BORA_CHECK(type == DType::f32 || type == DType::f64 || type == DType::u8 || type == DType::i32 ||
                 type == DType::i64,
             "reading '", from.path(), "': wants f32, f64, u8, i32 or i64, got ", type);
  for (int a = 0; a < 3; ++a)
    BORA_CHECK(begin[a] >= 0 && count[a] >= 0 && begin[a] <= array.grid()[a] &&
                   count[a] <= array.grid()[a] - begin[a],
               "reading '", from.path(), "': the box of ", count, " cells from (", begin.d, ", ",
               begin.h, ", ", begin.w, ") is not inside the grid of ", array.grid());
  Tensor out = Tensor::empty(Shape{count.d, count.h, count.w, array.extents[3]}, type);
  if (out.numel() == 0) return out;

  // Of each axis of the file, slowest first: the box, the step in the file, that in the result.
  const std::array<int64_t, 4> first{begin.d, begin.h, begin.w, 0};
  const std::array<int64_t, 4> n{count.d, count.h, count.w, array.extents[3]};
  const int64_t size = size_of(array.type);
  std::array<int64_t, 4> b{}, c{}, step{}, to{};
  int64_t bytes = size;
  for (size_t i = 4; i-- > 0;) {
    const auto axis = static_cast<size_t>(array.order[i]);
    b[i] = first[axis], c[i] = n[axis];
    step[i] = bytes;
    bytes *= array.extents[axis];
    to[i] = 1;
    for (size_t a = axis + 1; a < 4; ++a) to[i] *= n[a];
  }

  // A plane of the two fastest axes is read in one go or by rows, planes that lie without a gap all
  // at once.
  const int64_t row = c[3] * size, span = (c[2] - 1) * step[2] + row;
  const bool in_one_go = span <= kMostWaste * c[2] * row;
  const int64_t row_step = in_one_go ? step[2] : row;
  const int64_t plane = in_one_go ? span : c[2] * row;
  const bool is_gapless = in_one_go && span == step[1];
  const int64_t at_once = std::min(c[1], std::clamp(kSlabBytes / plane, int64_t{1}, kSlabPlanes));
  const auto slab =
      std::make_unique_for_overwrite<std::byte[]>(static_cast<size_t>(at_once * plane));

  // The axis that is fastest in the result innermost, the others as in the file.
  std::array<size_t, 3> nest{2, 3, 1};
  if (to[3] < to[1] && to[3] < to[2]) nest = {1, 2, 3};
  if (to[2] < to[1] && to[2] < to[3]) nest = {1, 3, 2};
  const std::array<int64_t, 4> in_step{0, plane, row_step, size};

  for (int64_t i = 0; i < c[0]; ++i)
    for (int64_t j = 0; j < c[1]; j += at_once) {
      const int64_t planes = std::min(at_once, c[1] - j);
      for (int64_t p = 0; p < (is_gapless ? 1 : planes); ++p) {
        const int64_t at = array.offset + (b[0] + i) * step[0] + (b[1] + j + p) * step[1] +
                           b[2] * step[2] + b[3] * step[3];
        if (in_one_go)
          from.read(at, slab.get() + p * plane, is_gapless ? planes * plane : plane);
        else
          for (int64_t r = 0; r < c[2]; ++r)
            from.read(at + r * step[2], slab.get() + p * plane + r * row, row);
      }
      // Whole numbers only lie in the slab: each span begins with one.
      if (array.is_swapped) swap_bytes(slab.get(), planes * plane, size);
      const std::array<int64_t, 4> counts{1, planes, c[2], c[3]};
      Loops loops;
      for (size_t a = 0; a < 3; ++a) {
        loops.count[a] = counts[nest[a]];
        loops.in[a] = in_step[nest[a]];
        loops.out[a] = to[nest[a]];
      }
      Misfit misfit;
      const bool is_fine = dispatch_number(array.type, [&]<class T>() {
        return place<T>(slab.get(), loops, array, out, i * to[0] + j * to[1], misfit);
      });
      if (is_fine) continue;
      std::array<int64_t, 4> cell{};
      const auto place_of = [&](size_t i_axis, int64_t k) {
        cell[static_cast<size_t>(array.order[i_axis])] = b[i_axis] + k;
      };
      place_of(0, i);
      for (size_t a = 0; a < 3; ++a) place_of(nest[a], misfit.at[a] + (nest[a] == 1 ? j : 0));
      fail_misfit(from.path(), cell, array.extents[3], misfit.value, type);
    }
  return out;
}

}  // namespace bora::data
