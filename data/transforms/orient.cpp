// SPDX-License-Identifier: Apache-2.0
#include "data/transforms/orient.hpp"

#include <cstring>
#include <utility>

#include "core/error.hpp"

namespace bora::data {
namespace {

/// What copying needs: extents of the result, and steps in the source in cells along its axes.
struct Walk {
  std::array<int64_t, 3> n{}, step{};
  int64_t first = 0;
};

/// Cells of a type that is copied in one piece.
template <class T>
void copy_cells(const void* in, void* out, const Walk& w) {
  const T* from = static_cast<const T*>(in) + w.first;
  T* to = static_cast<T*>(out);
  for (int64_t i = 0; i < w.n[0]; ++i)
    for (int64_t j = 0; j < w.n[1]; ++j) {
      const T* line = from + i * w.step[0] + j * w.step[1];
      for (int64_t k = 0; k < w.n[2]; ++k) *to++ = line[k * w.step[2]];
    }
}

/// Cells of any size.
void copy_cells(const void* in, void* out, const Walk& w, int64_t cell_bytes) {
  const char* from = static_cast<const char*>(in) + w.first * cell_bytes;
  char* to = static_cast<char*>(out);
  for (int64_t i = 0; i < w.n[0]; ++i)
    for (int64_t j = 0; j < w.n[1]; ++j)
      for (int64_t k = 0; k < w.n[2]; ++k, to += cell_bytes)
        std::memcpy(to, from + (i * w.step[0] + j * w.step[1] + k * w.step[2]) * cell_bytes,
                    static_cast<size_t>(cell_bytes));
}

/// Lines along the last axis that lie in the source as they do in the result.
void copy_lines(const void* in, void* out, const Walk& w, int64_t cell_bytes) {
  const char* from = static_cast<const char*>(in) + w.first * cell_bytes;
  char* to = static_cast<char*>(out);
  const int64_t line_bytes = w.n[2] * cell_bytes;
  for (int64_t i = 0; i < w.n[0]; ++i)
    for (int64_t j = 0; j < w.n[1]; ++j, to += line_bytes)
      std::memcpy(to, from + (i * w.step[0] + j * w.step[1]) * cell_bytes,
                  static_cast<size_t>(line_bytes));
}

}  // namespace

Orientation mirrored(Orientation o, int axis) {
  BORA_CHECK(axis >= 0 && axis < 3, "mirrored: axis ", axis, ", wanted 0 to 2");
  bool& m = o.mirrored[static_cast<size_t>(axis)];
  m = !m;
  return o;
}

Orientation turned(Orientation o, int first, int second) {
  BORA_CHECK(first >= 0 && first < 3 && second >= 0 && second < 3 && first != second,
             "turned: axes ", first, " and ", second, ", wanted two of 0 to 2");
  // out[i][j] = in[j][n - 1 - i].
  const auto a = static_cast<size_t>(first), b = static_cast<size_t>(second);
  std::swap(o.from[a], o.from[b]);
  std::swap(o.mirrored[a], o.mirrored[b]);
  o.mirrored[a] = !o.mirrored[a];
  return o;
}

Orientation inverse_of(const Orientation& o) {
  Orientation inverse;
  for (size_t a = 0; a < 3; ++a) {
    const auto source = static_cast<size_t>(o.from[a]);
    inverse.from[source] = static_cast<int>(a);
    inverse.mirrored[source] = o.mirrored[a];
  }
  return inverse;
}

Tensor orient(const Tensor& in, const Orientation& o, const Dims3& begin, const Dims3& count) {
  BORA_CHECK(in.defined() && (in.rank() == 3 || in.rank() == 4), "orient: a tensor of shape ",
             in.shape(), ", wanted (X, Y, Z) or (X, Y, Z, C)");
  const std::array<int64_t, 3> cells{in.size(1) * in.size(2), in.size(2), 1};  // of one step
  Shape shape = in.shape();
  Walk w;
  for (int a = 0; a < 3; ++a) {
    BORA_CHECK(begin[a] >= 0 && count[a] >= 0 && begin[a] + count[a] <= in.size(a),
               "orient: cells from ", begin, " on, ", count, " of them, of a tensor of shape ",
               in.shape());
    const auto i = static_cast<size_t>(a);
    const int source = o.from[i];
    const int64_t stride = cells[static_cast<size_t>(source)];
    w.n[i] = count[source];
    w.step[i] = o.mirrored[i] ? -stride : stride;
    w.first += (o.mirrored[i] ? begin[source] + count[source] - 1 : begin[source]) * stride;
    shape = shape.with(a, count[source]);
  }
  Tensor out = Tensor::empty(shape, in.dtype());
  if (out.numel() == 0) return out;
  const int64_t cell_bytes = size_of(in.dtype()) * (in.rank() == 4 ? in.size(3) : 1);
  if (w.step[2] == 1)
    copy_lines(in.raw(), out.raw(), w, cell_bytes);
  else if (cell_bytes == 1)
    copy_cells<uint8_t>(in.raw(), out.raw(), w);
  else if (cell_bytes == 4)
    copy_cells<uint32_t>(in.raw(), out.raw(), w);
  else
    copy_cells(in.raw(), out.raw(), w, cell_bytes);
  return out;
}

Tensor orient(const Tensor& in, const Orientation& o) {
  BORA_CHECK(in.defined() && in.rank() >= 3, "orient: a tensor of shape ", in.shape(),
             ", wanted (X, Y, Z) or (X, Y, Z, C)");
  return orient(in, o, {}, {in.size(0), in.size(1), in.size(2)});
}

}  // namespace bora::data
