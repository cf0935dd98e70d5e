// SPDX-License-Identifier: Apache-2.0
#include "kernels/rearrange.hpp"

#include "kernels/for_each.hpp"
#include "kernels/volume.hpp"

#include <initializer_list>

namespace bora::kernels {
namespace {

/// 16 bytes, moved by one instruction.
struct alignas(16) Unit16 {
  uint64_t low, high;
};

/// Whether a device may move 16 bytes at a time: all extents (in elements) and addresses are
/// multiples of that.
bool moves_packs(Stream stream, DType type, std::initializer_list<int64_t> extents,
                 std::initializer_list<const void*> addresses) {
  if (stream.device.type == DeviceType::cpu) return false;  // its loops are vector code anyway
  for (const int64_t n : extents)
    if (n * size_of(type) % 16 != 0) return false;
  for (const void* p : addresses)
    if (reinterpret_cast<uintptr_t>(p) % 16 != 0) return false;
  return true;
}

// Copies know elements by their size only.  f<T>(elements in a T).
template <class F>
void dispatch_size(DType t, bool packs, F&& f) {
  if (packs) return f.template operator()<Unit16>(16 / size_of(t));
  switch (size_of(t)) {
    case 1:
      return f.template operator()<uint8_t>(1);
    case 2:
      return f.template operator()<uint16_t>(1);
    case 4:
      return f.template operator()<uint32_t>(1);
    default:
      return f.template operator()<uint64_t>(1);
  }
}

// y[r * y_stride + c] = x[r * x_stride + c].
template <class T>
struct CopyRows {
  const T* x;
  T* y;
  int64_t x_stride, y_stride;
  struct Row {
    const T* from;
    T* to;
  };
  BORA_HD Row row(int64_t r) const { return {x + r * x_stride, y + r * y_stride}; }
  BORA_HD void operator()(const Row& row, int64_t c) const { row.to[c] = row.from[c]; }
};

template <class T>
struct ZeroOutside {
  const T* x;
  T* y;
  int64_t begin, n_in, n_out;
  struct Row {
    const T* from;
    T* to;
  };
  BORA_HD Row row(int64_t r) const { return {x + r * n_in, y + r * n_out}; }
  BORA_HD void operator()(const Row& row, int64_t c) const {
    row.to[c] = c >= begin && c < begin + n_in ? row.from[c - begin] : T{};
  }
};

// y[v] = x[v + shift], or value outside x.
template <class T>
struct Shift {
  const T* x;
  T* y;
  Dims3 in, out, shift;
  int64_t channels;
  T value;
  struct Cell {
    const T* from;  // nullptr: outside
    T* to;
  };
  BORA_HD Cell cell(const VolumeIndex& v) const {
    const int64_t d = v.d + shift.d, h = v.h + shift.h, w = v.w + shift.w;
    const bool inside = d >= 0 && d < in.d && h >= 0 && h < in.h && w >= 0 && w < in.w;
    return {inside ? x + cell_number(v.n, d, h, w, in) * channels : nullptr,
            y + cell_number(v.n, v.d, v.h, v.w, out) * channels};
  }
  BORA_HD void operator()(const Cell& cell, int64_t c) const {
    cell.to[c] = cell.from ? cell.from[c] : value;
  }
};

int64_t rows_of(const Tensor& t, const char* what) {
  BORA_CHECK(t.defined() && t.rank() >= 1, what, ": wants at least one axis, got ", t.shape());
  return t.size(-1) == 0 ? 0 : t.numel() / t.size(-1);
}

void check_channels(const Tensor& part, const Tensor& whole, int64_t begin, const char* what) {
  BORA_CHECK(part.defined() && whole.defined() && part.rank() >= 1, what, ": undefined tensor");
  check_tensor(part, whole.shape().with(-1, part.size(-1)), whole.dtype(), whole.device(), what);
  BORA_CHECK(begin >= 0 && begin + part.size(-1) <= whole.size(-1), what, ": channels [", begin,
             ", ", begin + part.size(-1), ") of ", whole.shape());
}

void shift(Stream stream, Dims3 by, double value, const Tensor& x, Tensor& y, const char* what) {
  const Volume in = volume_of(x, what), out = volume_of(y, what);
  check_tensor(y, {in.n, out.size.d, out.size.h, out.size.w, in.c}, x.dtype(), x.device(), what);
  // The fill value in the type's own bits.
  const Tensor fill = Tensor::full({16}, value, x.dtype());
  dispatch_size(x.dtype(), moves_packs(stream, x.dtype(), {in.c}, {x.raw(), y.raw()}),
                [&]<class T>(int64_t unit) {
                  for_each_cell(
                      stream, in.n, out.size, in.c / unit,
                      Shift<T>{static_cast<const T*>(x.raw()), static_cast<T*>(y.raw()), in.size,
                               out.size, by, in.c / unit, *static_cast<const T*>(fill.raw())});
                });
}

}  // namespace

void concat_channels(Stream stream, const std::vector<Tensor>& parts, Tensor& y) {
  int64_t begin = 0;
  for (const Tensor& part : parts) {
    check_channels(part, y, begin, "concat");
    begin += part.size(-1);
  }
  BORA_CHECK(begin == y.size(-1), "concat: the parts have ", begin, " channels, the result ",
             y.shape());
  if (y.numel() == 0) return;
  begin = 0;
  for (const Tensor& part : parts) {
    const int64_t n = part.size(-1);
    const int64_t width = y.size(-1);
    dispatch_size(y.dtype(),
                  moves_packs(stream, y.dtype(), {n, begin, width}, {part.raw(), y.raw()}),
                  [&]<class T>(int64_t unit) {
                    for_each_row(stream, rows_of(part, "concat"), n / unit,
                                 CopyRows<T>{static_cast<const T*>(part.raw()),
                                             static_cast<T*>(y.raw()) + begin / unit, n / unit,
                                             width / unit});
                  });
    begin += n;
  }
}

void slice_channels(Stream stream, int64_t begin, const Tensor& x, Tensor& y) {
  check_channels(y, x, begin, "slice_channels");
  if (y.numel() == 0) return;
  const int64_t n_in = x.size(-1), n_out = y.size(-1);
  dispatch_size(x.dtype(), moves_packs(stream, x.dtype(), {begin, n_in, n_out}, {x.raw(), y.raw()}),
                [&]<class T>(int64_t unit) {
                  for_each_row(stream, rows_of(y, "slice_channels"), n_out / unit,
                               CopyRows<T>{static_cast<const T*>(x.raw()) + begin / unit,
                                           static_cast<T*>(y.raw()), n_in / unit, n_out / unit});
                });
}

void slice_channels_backward(Stream stream, int64_t begin, const Tensor& dy, Tensor& dx) {
  check_channels(dy, dx, begin, "slice_channels backward");
  const int64_t n_in = dy.size(-1), n_out = dx.size(-1);
  dispatch_size(
      dx.dtype(), moves_packs(stream, dx.dtype(), {begin, n_in, n_out}, {dy.raw(), dx.raw()}),
      [&]<class T>(int64_t unit) {
        for_each_row(stream, rows_of(dx, "slice_channels backward"), n_out / unit,
                     ZeroOutside<T>{static_cast<const T*>(dy.raw()), static_cast<T*>(dx.raw()),
                                    begin / unit, n_in / unit, n_out / unit});
      });
}

void pad(Stream stream, Dims3 before, double value, const Tensor& x, Tensor& y) {
  shift(stream, {-before.d, -before.h, -before.w}, value, x, y, "pad");
}

void crop(Stream stream, Dims3 offset, const Tensor& x, Tensor& y) {
  const Volume in = volume_of(x, "crop"), out = volume_of(y, "crop");
  for (int i = 0; i < 3; ++i)
    BORA_CHECK(offset[i] >= 0 && offset[i] + out.size[i] <= in.size[i], "crop: box of ", out.size,
               " from ", offset, " does not lie inside ", in.size);
  shift(stream, offset, 0.0, x, y, "crop");
}

}  // namespace bora::kernels
