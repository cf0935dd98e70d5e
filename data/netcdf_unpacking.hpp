// SPDX-License-Identifier: Apache-2.0
// Unpacking: from what a NetCDF variable stores to its values, with missing ones found.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "data/hdf5.hpp"

namespace bora::data {

/// The rules of the NetCDF User's Guide and CF, as netCDF4 for Python has them, for one variable.
///
/// Stored values are compared before anything is computed, in the stored type: integers exactly (64
/// bits too), f32 as f32, so an attribute of f64 is rounded to f32 first.  With `_Unsigned` =
/// "true" stored integers and the attributes are taken as unsigned ("false" on unsigned ones: as
/// signed). Missing is a value equal to `_FillValue`, to one of `missing_value`, or to NetCDF's
/// default fill of the type where there is no `_FillValue` (bytes have none: their range is too
/// small), and one outside of `valid_range`, or else `valid_min` and `valid_max`.  The others
/// become stored * scale_factor + add_offset, in f64.
class Unpacking {
 public:
  /// Reads the attributes.  Throws Error naming file, variable and attribute for one that holds no
  /// numbers, a valid_range of another length than 2, and factors that are not finite.
  explicit Unpacking(const hdf5::Dataset& dataset);

  bool is_scaled() const { return scale_ != 1 || offset_ != 0; }
  /// f32, f64, u8, i32 or i64: what holds every value that is not missing.
  DType type() const;

  /// The block's values as f32 or f64, missing ones NaN, with the axes of the file.  Beside them it
  /// holds some MiB, or one chunk, of what is stored.
  Tensor read(std::span<const int64_t> begin, std::span<const int64_t> count, DType type) const;
  /// The same as i64 where all of them are integers of 64 bits and none is missing, else as f64.
  Tensor read_whole(std::span<const int64_t> begin, std::span<const int64_t> count) const;

 private:
  enum class Carrier { f32, f64, i32, i64, u64 };  // in which values are compared
  /// A number of an attribute, exactly.
  struct Number {
    bool is_integer = false, is_negative = false;
    uint64_t bits = 0;  // of an integer: two's complement
    double value = 0;
  };
  template <class T>
  struct Rules;

  std::vector<Number> numbers(const char* name) const;
  DType carrier_type() const;
  Tensor carried(std::span<const int64_t> begin, std::span<const int64_t> count) const;
  Tensor read_at_once(std::span<const int64_t> begin, std::span<const int64_t> count,
                      DType type) const;
  template <class T>
  T cast(const Number& n, bool& fits) const;
  template <class T>
  Rules<T> rules() const;
  template <class T>
  Tensor unpack(const Tensor& stored, DType type) const;
  template <class T>
  Tensor whole(const Tensor& stored) const;

  const hdf5::Dataset* dataset_;
  hdf5::TypeInfo stored_;
  bool is_unsigned_ = false;  // how integers are taken, after _Unsigned
  Carrier carrier_ = Carrier::f64;
  double scale_ = 1, offset_ = 0;
  std::vector<Number> missing_, low_, high_;  // low_, high_: none or one
};

}  // namespace bora::data
