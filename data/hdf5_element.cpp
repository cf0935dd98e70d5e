// SPDX-License-Identifier: Apache-2.0
#include "data/hdf5_element.hpp"

#include <hdf5.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <type_traits>
#include <utility>

#include "data/hdf5_narrow.hpp"

namespace bora::data::hdf5::detail {
namespace {

/// Whether a type of the library is the plain IEEE one of its size (or bfloat16).
std::optional<Element::Kind> float_kind(int64_t type, size_t bytes) {
  size_t sign = 0, exponent_at = 0, exponent = 0, mantissa_at = 0, mantissa = 0;
  if (H5Tget_fields(type, &sign, &exponent_at, &exponent, &mantissa_at, &mantissa) < 0)
    return std::nullopt;
  const size_t bits = 8 * bytes;
  if (sign != bits - 1 || mantissa_at != 0 || exponent_at != mantissa ||
      exponent + mantissa + 1 != bits || H5Tget_norm(type) != H5T_NORM_IMPLIED ||
      H5Tget_ebias(type) != (size_t{1} << (exponent - 1)) - 1)
    return std::nullopt;
  if (bits == 16 && exponent == 5) return Element::Kind::f16;
  if (bits == 16 && exponent == 8) return Element::Kind::bf16;
  if (bits == 32 && exponent == 8) return Element::Kind::f32;
  if (bits == 64 && exponent == 11) return Element::Kind::f64;
  return std::nullopt;
}

template <class T>
T loaded(const std::byte* from, bool swap) {
  std::array<std::byte, sizeof(T)> b;
  std::memcpy(b.data(), from, sizeof(T));
  if (swap) std::reverse(b.begin(), b.end());
  return std::bit_cast<T>(b);
}

template <class From, class To, bool kSwap>
bool convert_run(const std::byte* from, void* to, int64_t n) {
  To* out = static_cast<To*>(to);
  if constexpr (std::is_same_v<From, To> && !kSwap) {
    std::memcpy(to, from, static_cast<size_t>(n) * sizeof(From));
    return true;
  }
  bool fits = true;
  for (int64_t i = 0; i < n; ++i) {
    const From v = loaded<From>(from + i * static_cast<int64_t>(sizeof(From)), kSwap);
    if constexpr (std::is_integral_v<From> && std::is_integral_v<To>) fits &= std::in_range<To>(v);
    out[i] = static_cast<To>(v);
  }
  return fits;
}

template <class From, class To>
Conversion pick(bool swap) {
  if (swap && sizeof(From) > 1) return {&convert_run<From, To, true>, false};
  return {&convert_run<From, To, false>, std::is_same_v<From, To>};
}

/// Of integers to everything that a cast gives exactly, or refuses by its range.
template <class From>
std::optional<Conversion> from_integer(DType to, bool swap) {
  switch (to) {
    case DType::u8:
      return pick<From, uint8_t>(swap);
    case DType::i32:
      return pick<From, int32_t>(swap);
    case DType::i64:
      return pick<From, int64_t>(swap);
    case DType::f32:
      if constexpr (sizeof(From) <= 2) return pick<From, float>(swap);
      return std::nullopt;
    case DType::f64:
      if constexpr (sizeof(From) <= 4) return pick<From, double>(swap);
      return std::nullopt;
    default:
      return std::nullopt;
  }
}

}  // namespace

std::optional<Element> element_of(int64_t type) {
  using Kind = Element::Kind;
  const H5T_class_t family = H5Tget_class(type);
  if (family != H5T_INTEGER && family != H5T_FLOAT) return std::nullopt;
  const size_t bytes = H5Tget_size(type);
  if (bytes == 0 || bytes > 8 || H5Tget_precision(type) != 8 * bytes || H5Tget_offset(type) != 0)
    return std::nullopt;
  const H5T_order_t order = H5Tget_order(type);
  if (order != H5T_ORDER_LE && order != H5T_ORDER_BE) return std::nullopt;
  Element e;
  e.bytes = static_cast<int64_t>(bytes);
  e.is_swapped =
      bytes > 1 && (order == H5T_ORDER_BE) == (std::endian::native == std::endian::little);
  if (family == H5T_FLOAT) {
    const auto kind = float_kind(type, bytes);
    if (!kind) return std::nullopt;
    e.kind = *kind;
    return e;
  }
  const bool is_signed = H5Tget_sign(type) == H5T_SGN_2;
  switch (bytes) {
    case 1:
      e.kind = is_signed ? Kind::i8 : Kind::u8;
      return e;
    case 2:
      e.kind = is_signed ? Kind::i16 : Kind::u16;
      return e;
    case 4:
      e.kind = is_signed ? Kind::i32 : Kind::u32;
      return e;
    case 8:
      e.kind = is_signed ? Kind::i64 : Kind::u64;
      return e;
    default:
      return std::nullopt;
  }
}

std::optional<Conversion> conversion(const Element& from, DType to) {
  using Kind = Element::Kind;
  const bool swap = from.is_swapped;
  switch (from.kind) {
    case Kind::i8:
      return from_integer<int8_t>(to, swap);
    case Kind::u8:
      return from_integer<uint8_t>(to, swap);
    case Kind::i16:
      return from_integer<int16_t>(to, swap);
    case Kind::u16:
      return from_integer<uint16_t>(to, swap);
    case Kind::i32:
      return from_integer<int32_t>(to, swap);
    case Kind::u32:
      return from_integer<uint32_t>(to, swap);
    case Kind::i64:
      return from_integer<int64_t>(to, swap);
    case Kind::u64:
      return from_integer<uint64_t>(to, swap);
    case Kind::f16:  // as bits
      if (to == DType::f16) return pick<uint16_t, uint16_t>(swap);
      return std::nullopt;
    case Kind::bf16:
      if (to == DType::bf16) return pick<uint16_t, uint16_t>(swap);
      return std::nullopt;
    case Kind::f32:  // as bits: a cast of a signalling NaN to its own type may change it
      if (to == DType::f32) return pick<uint32_t, uint32_t>(swap);
      if (to == DType::f64) return pick<float, double>(swap);
      return std::nullopt;
    case Kind::f64:
      if (to == DType::f64) return pick<uint64_t, uint64_t>(swap);
      if (to == DType::f32 && !swap) return Conversion{&narrow_run, false};
      return std::nullopt;
  }
  return std::nullopt;
}

}  // namespace bora::data::hdf5::detail
