// SPDX-License-Identifier: Apache-2.0
// DType: the element types, their C++ types, and the switch from one to the other.
#pragma once

#include <cstdint>
#include <ostream>
#include <string_view>

#include "core/error.hpp"
#include "core/half.hpp"

namespace bora {

enum class DType : uint8_t { f16, bf16, f32, f64, u8, i32, i64 };

constexpr int64_t size_of(DType t) {
  switch (t) {
    case DType::f16:
    case DType::bf16:
      return 2;
    case DType::f32:
    case DType::i32:
      return 4;
    case DType::f64:
    case DType::i64:
      return 8;
    case DType::u8:
      return 1;
  }
  return 0;
}

constexpr std::string_view name_of(DType t) {
  switch (t) {
    case DType::f16:
      return "f16";
    case DType::bf16:
      return "bf16";
    case DType::f32:
      return "f32";
    case DType::f64:
      return "f64";
    case DType::u8:
      return "u8";
    case DType::i32:
      return "i32";
    case DType::i64:
      return "i64";
  }
  return "?";
}

constexpr bool is_float(DType t) {
  return t == DType::f16 || t == DType::bf16 || t == DType::f32 || t == DType::f64;
}

inline std::ostream& operator<<(std::ostream& out, DType t) { return out << name_of(t); }

/// The DType whose short name is `text` ("f32", ...); throws UsageError with the list otherwise.
DType dtype_from(std::string_view text);

template <class T>
struct DTypeOf;
template <>
struct DTypeOf<Half> {
  static constexpr DType value = DType::f16;
};
template <>
struct DTypeOf<BFloat16> {
  static constexpr DType value = DType::bf16;
};
template <>
struct DTypeOf<float> {
  static constexpr DType value = DType::f32;
};
template <>
struct DTypeOf<double> {
  static constexpr DType value = DType::f64;
};
template <>
struct DTypeOf<uint8_t> {
  static constexpr DType value = DType::u8;
};
template <>
struct DTypeOf<int32_t> {
  static constexpr DType value = DType::i32;
};
template <>
struct DTypeOf<int64_t> {
  static constexpr DType value = DType::i64;
};
template <class T>
inline constexpr DType dtype_of = DTypeOf<T>::value;

/// The type that arithmetic on T is done in: float for the 16-bit types and float, double for
/// double.
template <class T>
struct Accumulate {
  using type = T;
};
template <>
struct Accumulate<Half> {
  using type = float;
};
template <>
struct Accumulate<BFloat16> {
  using type = float;
};
template <class T>
using acc_t = typename Accumulate<T>::type;

/// Calls f.template operator()<T>() with the C++ type of `t`: `dispatch_float(t, [&]<class T>() {
/// ... })`. Throws Error for integer types; `what` names the op in the message.
template <class F>
decltype(auto) dispatch_float(DType t, std::string_view what, F&& f) {
  switch (t) {
    case DType::f16:
      return f.template operator()<Half>();
    case DType::bf16:
      return f.template operator()<BFloat16>();
    case DType::f32:
      return f.template operator()<float>();
    case DType::f64:
      return f.template operator()<double>();
    default:
      BORA_FAIL(what, ": wants a floating type, got ", t);
  }
}

/// The same over all seven types.
template <class F>
decltype(auto) dispatch_any(DType t, F&& f) {
  switch (t) {
    case DType::f16:
      return f.template operator()<Half>();
    case DType::bf16:
      return f.template operator()<BFloat16>();
    case DType::f32:
      return f.template operator()<float>();
    case DType::f64:
      return f.template operator()<double>();
    case DType::u8:
      return f.template operator()<uint8_t>();
    case DType::i32:
      return f.template operator()<int32_t>();
    case DType::i64:
      return f.template operator()<int64_t>();
  }
  BORA_FAIL("dispatch_any: unknown DType ", static_cast<int>(t));
}

}  // namespace bora
