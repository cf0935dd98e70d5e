// SPDX-License-Identifier: Apache-2.0
// Types of numbers: those of memory as the library knows them, and those of a file as we name them.
#include <hdf5.h>

#include <cstddef>
#include <string>

#include "core/error.hpp"
#include "data/hdf5.hpp"

namespace bora::data::hdf5 {
namespace {

/// A 16-bit IEEE-like type: `exponent` bits of exponent under the sign.
Id small_float(size_t exponent) {
  Id type(BORA_HDF5(H5Tcopy(H5T_IEEE_F32LE)));
  const size_t mantissa = 15 - exponent;
  BORA_HDF5(H5Tset_fields(type.get(), 15, mantissa, exponent, 0, mantissa));
  BORA_HDF5(H5Tset_size(type.get(), 2));
  BORA_HDF5(H5Tset_ebias(type.get(), (size_t{1} << (exponent - 1)) - 1));
  return type;
}

/// Whether the bits of a number are where its bytes are, and no more than any writer uses: with
/// others the library's conversions write over their stack.
bool is_sound_number(int64_t type, H5T_class_t kind, size_t bytes) {
  if (kind == H5T_INTEGER) {
    const size_t bits = H5Tget_precision(type);
    const int offset = H5Tget_offset(type);
    return bytes >= 1 && bytes <= 8 && bits >= 1 && offset >= 0 &&
           static_cast<size_t>(offset) + bits <= 8 * bytes;
  }
  size_t sign = 0, exponent_at = 0, exponent = 0, mantissa_at = 0, mantissa = 0;
  H5Tget_fields(type, &sign, &exponent_at, &exponent, &mantissa_at, &mantissa);
  const size_t bits = 8 * bytes;
  return bytes >= 2 && bytes <= 16 && sign < bits && exponent >= 2 && exponent <= 15 &&
         exponent_at <= bits - exponent && mantissa >= 1 && mantissa <= bits &&
         mantissa_at <= bits - mantissa;
}

}  // namespace

namespace detail {

Id memory_type(DType type) {
  switch (type) {
    case DType::f16:
      return small_float(5);
    case DType::bf16:
      return small_float(8);
    case DType::f32:
      return Id(BORA_HDF5(H5Tcopy(H5T_NATIVE_FLOAT)));
    case DType::f64:
      return Id(BORA_HDF5(H5Tcopy(H5T_NATIVE_DOUBLE)));
    case DType::u8:
      return Id(BORA_HDF5(H5Tcopy(H5T_NATIVE_UINT8)));
    case DType::i32:
      return Id(BORA_HDF5(H5Tcopy(H5T_NATIVE_INT32)));
    case DType::i64:
      return Id(BORA_HDF5(H5Tcopy(H5T_NATIVE_INT64)));
  }
  BORA_FAIL("hdf5: unknown DType ", static_cast<int>(type));
}

TypeInfo describe_type(int64_t type) {
  TypeInfo info;
  const H5T_class_t kind = H5Tget_class(type);
  info.bytes = static_cast<int64_t>(H5Tget_size(type));
  const std::string bits = std::to_string(8 * info.bytes);
  if ((kind == H5T_INTEGER || kind == H5T_FLOAT) &&
      !is_sound_number(type, kind, static_cast<size_t>(info.bytes))) {
    info.name = "a number of " + bits + " bits that is damaged or of no known form";
    return info;
  }
  switch (kind) {
    case H5T_INTEGER:
      info.kind = TypeInfo::Kind::integer;
      info.is_signed = H5Tget_sign(type) == H5T_SGN_2;
      info.name = (info.is_signed ? "i" : "u") + bits;
      break;
    case H5T_FLOAT: {
      info.kind = TypeInfo::Kind::floating;
      size_t sign = 0, exponent_at = 0, exponent = 0, mantissa_at = 0, mantissa = 0;
      H5Tget_fields(type, &sign, &exponent_at, &exponent, &mantissa_at, &mantissa);
      info.name = (info.bytes == 2 && exponent == 8 ? "bf" : "f") + bits;
      break;
    }
    case H5T_STRING:
      info.kind = TypeInfo::Kind::text;
      info.name = H5Tis_variable_str(type) > 0 ? "variable text" : "text";
      break;
    case H5T_ENUM:
      info.name = "enum";
      break;
    case H5T_COMPOUND:
      info.name = "compound";
      break;
    case H5T_VLEN:
      info.name = "variable-length list";
      break;
    case H5T_REFERENCE:
      info.name = "reference";
      break;
    case H5T_ARRAY:
      info.name = "array";
      break;
    case H5T_OPAQUE:
      info.name = "opaque";
      break;
    default:
      info.name = "an unknown type";
  }
  return info;
}

}  // namespace detail

DType TypeInfo::dtype() const {
  if (kind == Kind::floating) {
    if (name == "bf16") return DType::bf16;
    if (bytes == 2) return DType::f16;
    return bytes <= 4 ? DType::f32 : DType::f64;
  }
  BORA_CHECK(kind == Kind::integer, "elements of type '", name, "', wanted numbers");
  if (bytes == 1 && !is_signed) return DType::u8;
  return bytes < 4 || (bytes == 4 && is_signed) ? DType::i32 : DType::i64;
}

}  // namespace bora::data::hdf5
