// SPDX-License-Identifier: Apache-2.0
// Shape: up to six extents, inline, usable on host and device.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <ostream>

#include "core/error.hpp"
#include "core/portable.hpp"

namespace bora {

/// The extents of a dense tensor, slowest first.  The shape is the order in memory: a volume batch
/// is (N, D, H, W, C). A shape of rank 0 is a scalar with one element.  Extents may be 0, never
/// negative.
class Shape {
 public:
  static constexpr int kMaxRank = 6;

  constexpr Shape() = default;
  constexpr Shape(std::initializer_list<int64_t> extents) {
    if (extents.size() > static_cast<size_t>(kMaxRank)) throw Error("Shape: at most 6 extents");
    for (int64_t e : extents) {
      if (e < 0) throw Error("Shape: an extent is negative");
      extent_[rank_++] = e;
    }
  }

  BORA_HD constexpr int rank() const { return rank_; }
  BORA_HD constexpr int64_t operator[](int axis) const { return extent_[axis]; }
  /// Extent by axis, negative axes count from the end (-1 is the last).  Throws Error out of range.
  constexpr int64_t at(int axis) const {
    const int a = axis < 0 ? axis + rank_ : axis;
    if (a < 0 || a >= rank_) throw Error("Shape: axis out of range");
    return extent_[a];
  }
  BORA_HD constexpr int64_t numel() const {
    int64_t n = 1;
    for (int i = 0; i < rank_; ++i) n *= extent_[i];
    return n;
  }
  /// The same shape with one extent changed (negative axes count from the end).
  constexpr Shape with(int axis, int64_t extent) const {
    at(axis);
    if (extent < 0) throw Error("Shape: an extent is negative");
    Shape s = *this;
    s.extent_[axis < 0 ? axis + rank_ : axis] = extent;
    return s;
  }
  constexpr Shape append(int64_t extent) const {
    if (rank_ == kMaxRank) throw Error("Shape: at most 6 extents");
    if (extent < 0) throw Error("Shape: an extent is negative");
    Shape s = *this;
    s.extent_[s.rank_++] = extent;
    return s;
  }
  constexpr friend bool operator==(const Shape& a, const Shape& b) {
    if (a.rank_ != b.rank_) return false;
    for (int i = 0; i < a.rank_; ++i)
      if (a.extent_[i] != b.extent_[i]) return false;
    return true;
  }
  friend std::ostream& operator<<(std::ostream& out, const Shape& s) {
    out << '(';
    for (int i = 0; i < s.rank_; ++i) out << (i ? ", " : "") << s.extent_[i];
    return out << ')';
  }

 private:
  int64_t extent_[kMaxRank] = {};
  int rank_ = 0;
};

/// A triple of extents, strides or paddings along D, H, W.
struct Dims3 {
  int64_t d = 0, h = 0, w = 0;
  static constexpr Dims3 all(int64_t v) { return {v, v, v}; }
  BORA_HD constexpr int64_t operator[](int i) const { return i == 0 ? d : i == 1 ? h : w; }
  BORA_HD constexpr int64_t count() const { return d * h * w; }
  friend bool operator==(const Dims3&, const Dims3&) = default;
  friend std::ostream& operator<<(std::ostream& out, const Dims3& v) {
    return out << v.d << 'x' << v.h << 'x' << v.w;
  }
};

}  // namespace bora
