// SPDX-License-Identifier: Apache-2.0
#include "kernels/pool3d.hpp"

#include "core/convert.hpp"
#include "kernels/cuda/volume_packs.hpp"
#include "kernels/for_each.hpp"
#include "kernels/volume.hpp"

namespace bora::kernels {
namespace {

struct Range {
  int64_t begin, end;
};

// Where the windows lie, along each axis.
struct Windows {
  Dims3 in, out, kernel, stride, padding;

  /// The first cell of window o; may be negative.
  BORA_HD int64_t start(int axis, int64_t o) const { return o * stride[axis] - padding[axis]; }
  /// The cells of window o inside the input.
  BORA_HD Range cells(int axis, int64_t o) const {
    const int64_t begin = start(axis, o), end = begin + kernel[axis];
    return {begin < 0 ? 0 : begin, end > in[axis] ? in[axis] : end};
  }
  /// The windows that hold cell i.
  BORA_HD Range holding(int axis, int64_t i) const {
    const int64_t first = i + padding[axis] - kernel[axis];  // one before the first
    const int64_t begin = first < 0 ? 0 : first / stride[axis] + 1;
    const int64_t end = (i + padding[axis]) / stride[axis] + 1;
    return {begin, end > out[axis] ? out[axis] : end};
  }
  bool disjoint() const { return kernel == stride && padding == Dims3::all(0); }
};

// NaN beats all numbers, the first of equals stays.
template <class A>
BORA_HD bool beats(A challenger, A best) {
  return !(challenger <= best) && best == best;
}

template <class T>
struct MaxPool {
  static constexpr bool kHostOnly = std::is_same_v<T, double>;
  Windows win;
  int64_t channels;
  const T* x;
  T* y;
  uint8_t* winner;
  struct Cell {
    VolumeIndex v;
    int64_t to;
  };
  BORA_HD Cell cell(const VolumeIndex& v) const {
    return {v, cell_number(v.n, v.d, v.h, v.w, win.out) * channels};
  }
  BORA_HD void operator()(const Cell& cell, int64_t c) const {
    const Range d = win.cells(0, cell.v.d), h = win.cells(1, cell.v.h), w = win.cells(2, cell.v.w);
    const int64_t d0 = win.start(0, cell.v.d), h0 = win.start(1, cell.v.h),
                  w0 = win.start(2, cell.v.w);
    bool first = true;
    acc_t<T> best{};
    int64_t place = 0;
    for (int64_t id = d.begin; id < d.end; ++id)
      for (int64_t ih = h.begin; ih < h.end; ++ih)
        for (int64_t iw = w.begin; iw < w.end; ++iw) {
          const auto v = load(x[cell_number(cell.v.n, id, ih, iw, win.in) * channels + c]);
          if (first || beats(v, best)) {
            best = v;
            place = ((id - d0) * win.kernel.h + ih - h0) * win.kernel.w + iw - w0;
          }
          first = false;
        }
    y[cell.to + c] = static_cast<T>(best);
    winner[cell.to + c] = static_cast<uint8_t>(place);
  }
};

// Windows of 2x2x2 without overlap or padding: eight loads, no loops, so the channels are vector
// code.
template <class T>
struct MaxPool2 {
  static constexpr bool kHostOnly = std::is_same_v<T, double>;
  Dims3 in, out;
  int64_t channels;
  const T* x;
  T* y;
  uint8_t* winner;
  struct Cell {
    const T* from[4];  // the four (d, h) lines; along w the neighbour is `channels` away
    int64_t to;
  };
  BORA_HD Cell cell(const VolumeIndex& v) const {
    Cell cell;
    for (int i = 0; i < 4; ++i)
      cell.from[i] = x + cell_number(v.n, 2 * v.d + i / 2, 2 * v.h + i % 2, 2 * v.w, in) * channels;
    cell.to = cell_number(v.n, v.d, v.h, v.w, out) * channels;
    return cell;
  }
  BORA_HD void operator()(const Cell& cell, int64_t c) const {
    auto best = load(cell.from[0][c]);
    int place = 0;
    for (int i = 1; i < 8; ++i) {
      const auto v = load(cell.from[i / 2][(i % 2) * channels + c]);
      const bool wins = beats(v, best);
      best = wins ? v : best;
      place = wins ? i : place;
    }
    y[cell.to + c] = static_cast<T>(best);
    winner[cell.to + c] = static_cast<uint8_t>(place);
  }
};

// MaxPool2 for 16-bit types on the CPU: line by line in float.
template <class T>
void max_pool2_lines(int64_t n, const MaxPool2<T>& pool) {
  const int64_t in_line = pool.in.w * pool.channels, out_line = pool.out.w * pool.channels;
  const int64_t n_lines = n * pool.out.d * pool.out.h;
#pragma omp parallel if (n_lines * in_line > kThreadWorthy)
  {
    std::vector<float> wide(static_cast<size_t>(4 * in_line + out_line));
    float* const result = wide.data() + 4 * in_line;
#pragma omp for schedule(static)
    for (int64_t line = 0; line < n_lines; ++line) {
      const int64_t h = line % pool.out.h, d = line / pool.out.h % pool.out.d,
                    i = line / (pool.out.h * pool.out.d);
      for (int64_t k = 0; k < 4; ++k)
        widen_run(pool.x + cell_number(i, 2 * d + k / 2, 2 * h + k % 2, 0, pool.in) * pool.channels,
                  in_line, wide.data() + k * in_line);
      const MaxPool2<float> in_float{pool.in,     pool.out, pool.channels,
                                     wide.data(), result,   pool.winner + line * out_line};
      for (int64_t w = 0; w < pool.out.w; ++w) {
        MaxPool2<float>::Cell cell;
        for (int64_t k = 0; k < 4; ++k)
          cell.from[k] = wide.data() + k * in_line + 2 * w * pool.channels;
        cell.to = w * pool.channels;
        detail::for_each_channel(pool.channels, in_float, cell);
      }
      narrow_run(result, out_line, pool.y + line * out_line);
    }
  }
}

template <class T>
struct MaxPoolGradient {
  static constexpr bool kHostOnly = std::is_same_v<T, double>;
  Windows win;
  int64_t channels;
  const T* dy;
  const uint8_t* winner;
  T* dx;
  bool add;
  struct Cell {
    VolumeIndex v;
    int64_t to;
  };
  BORA_HD Cell cell(const VolumeIndex& v) const {
    return {v, cell_number(v.n, v.d, v.h, v.w, win.in) * channels};
  }
  BORA_HD void operator()(const Cell& cell, int64_t c) const {
    const Range d = win.holding(0, cell.v.d), h = win.holding(1, cell.v.h),
                w = win.holding(2, cell.v.w);
    acc_t<T> sum = add ? load(dx[cell.to + c]) : acc_t<T>(0);
    for (int64_t od = d.begin; od < d.end; ++od)
      for (int64_t oh = h.begin; oh < h.end; ++oh)
        for (int64_t ow = w.begin; ow < w.end; ++ow) {
          const int64_t at = cell_number(cell.v.n, od, oh, ow, win.out) * channels + c;
          const int64_t place =
              ((cell.v.d - win.start(0, od)) * win.kernel.h + cell.v.h - win.start(1, oh)) *
                  win.kernel.w +
              cell.v.w - win.start(2, ow);
          if (winner[at] == place) sum += load(dy[at]);
        }
    dx[cell.to + c] = static_cast<T>(sum);
  }
};

// Disjoint windows: each cell is in one, or in none (behind the last).  Elements are only moved, so
// T may be an unsigned integer of their size.
template <class T>
struct MaxPoolGradientDisjoint {
  static constexpr bool kHostOnly = sizeof(T) == 8;
  Windows win;
  int64_t channels;
  const T* dy;
  const uint8_t* winner;
  T* dx;
  struct Cell {
    int64_t from, to;
    int place;  // -1: in no window; differs from every u8
  };
  BORA_HD Cell cell(const VolumeIndex& v) const {
    const Dims3 k = win.kernel;
    const int64_t od = v.d / k.d, oh = v.h / k.h, ow = v.w / k.w;
    const bool inside = od < win.out.d && oh < win.out.h && ow < win.out.w;
    return {inside ? cell_number(v.n, od, oh, ow, win.out) * channels : 0,
            cell_number(v.n, v.d, v.h, v.w, win.in) * channels,
            inside
                ? static_cast<int>(((v.d - od * k.d) * k.h + v.h - oh * k.h) * k.w + v.w - ow * k.w)
                : -1};
  }
  BORA_HD void operator()(const Cell& cell, int64_t c) const {
    if (cell.place < 0) {  // nothing to read: there may be no window at all
      dx[cell.to + c] = T(0);
      return;
    }
    const T g = dy[cell.from + c];
    dx[cell.to + c] = winner[cell.from + c] == cell.place ? g : T(0);
  }
};

// The same, added to what dx holds.
template <class T>
struct MaxPoolGradientDisjointAdd {
  static constexpr bool kHostOnly = MaxPoolGradientDisjoint<T>::kHostOnly;
  MaxPoolGradientDisjoint<T> places;
  using Cell = typename MaxPoolGradientDisjoint<T>::Cell;
  BORA_HD Cell cell(const VolumeIndex& v) const { return places.cell(v); }
  BORA_HD void operator()(const Cell& cell, int64_t c) const {
    if (cell.place < 0) return;
    const auto sum = load(places.dx[cell.to + c]);
    const auto g = load(places.dy[cell.from + c]);
    const bool won = places.winner[cell.from + c] == cell.place;
    places.dx[cell.to + c] = static_cast<T>(won ? sum + g : sum);
  }
};

template <class T>
struct AvgPool {
  static constexpr bool kHostOnly = std::is_same_v<T, double>;
  Windows win;
  int64_t channels;
  const T* x;
  T* y;
  struct Cell {
    int64_t n, to;
    Range d, h, w;
    acc_t<T> factor;
  };
  BORA_HD Cell cell(const VolumeIndex& v) const {
    const Range d = win.cells(0, v.d), h = win.cells(1, v.h), w = win.cells(2, v.w);
    const int64_t count = (d.end - d.begin) * (h.end - h.begin) * (w.end - w.begin);
    return {v.n, cell_number(v.n, v.d, v.h, v.w, win.out) * channels, d, h,
            w,   acc_t<T>(1) / static_cast<acc_t<T>>(count)};
  }
  BORA_HD void operator()(const Cell& cell, int64_t c) const {
    acc_t<T> sum(0);
    for (int64_t id = cell.d.begin; id < cell.d.end; ++id)
      for (int64_t ih = cell.h.begin; ih < cell.h.end; ++ih)
        for (int64_t iw = cell.w.begin; iw < cell.w.end; ++iw)
          sum += load(x[cell_number(cell.n, id, ih, iw, win.in) * channels + c]);
    y[cell.to + c] = static_cast<T>(sum * cell.factor);
  }
};

template <class T>
struct AvgPoolGradient {
  static constexpr bool kHostOnly = std::is_same_v<T, double>;
  Windows win;
  int64_t channels;
  const T* dy;
  T* dx;
  struct Cell {
    int64_t n, to;
    Range d, h, w;
  };
  BORA_HD Cell cell(const VolumeIndex& v) const {
    return {v.n, cell_number(v.n, v.d, v.h, v.w, win.in) * channels, win.holding(0, v.d),
            win.holding(1, v.h), win.holding(2, v.w)};
  }
  BORA_HD void operator()(const Cell& cell, int64_t c) const {
    acc_t<T> sum(0);
    for (int64_t od = cell.d.begin; od < cell.d.end; ++od)
      for (int64_t oh = cell.h.begin; oh < cell.h.end; ++oh)
        for (int64_t ow = cell.w.begin; ow < cell.w.end; ++ow) {
          const Range d = win.cells(0, od), h = win.cells(1, oh), w = win.cells(2, ow);
          const int64_t count = (d.end - d.begin) * (h.end - h.begin) * (w.end - w.begin);
          sum += load(dy[cell_number(cell.n, od, oh, ow, win.out) * channels + c]) /
                 static_cast<acc_t<T>>(count);
        }
    dx[cell.to + c] = static_cast<T>(sum);
  }
};

// Checks the shapes of a call: `in` the large side, `out` the pooled one.
Windows windows(const Pool3d& pool, const Tensor& large, const Tensor& small, const char* what) {
  const Volume in = volume_of(large, what);
  const Dims3 out = pooled_size(in.size, pool);
  check_tensor(small, {in.n, out.d, out.h, out.w, in.c}, large.dtype(), large.device(), what);
  return {in.size, out, pool.kernel, pool.stride, pool.padding};
}

void check_winner(const Pool3d& pool, const Tensor& y, const Tensor& winner) {
  BORA_CHECK(pool.kernel.count() <= 255, "max_pool3d: a window of ", pool.kernel,
             " has more than 255 cells");
  check_tensor(winner, y.shape(), DType::u8, y.device(), "max_pool3d: winner");
}

}  // namespace

Dims3 pooled_size(Dims3 in, const Pool3d& pool) {
  int64_t out[3];
  for (int i = 0; i < 3; ++i) {
    const int64_t k = pool.kernel[i], s = pool.stride[i], p = pool.padding[i];
    BORA_CHECK(k >= 1 && s >= 1 && p >= 0 && 2 * p <= k, "pooling: kernel ", pool.kernel,
               ", stride ", pool.stride, ", padding ", pool.padding,
               "; wanted kernel and stride of at least 1, padding of at most half the kernel");
    BORA_CHECK(in[i] >= 1 && in[i] + 2 * p >= k, "pooling: a window of ", pool.kernel,
               " with padding ", pool.padding, " does not fit into a volume of ", in);
    out[i] = (in[i] + 2 * p - k) / s + 1;
  }
  return {out[0], out[1], out[2]};
}

void max_pool3d_forward(Stream stream, const Pool3d& pool, const Tensor& x, Tensor& y,
                        Tensor& winner) {
  const Windows win = windows(pool, x, y, "max_pool3d");
  check_winner(pool, y, winner);
  const int64_t n = x.size(0), c = x.size(4);
  const bool by_two = win.disjoint() && pool.kernel == Dims3::all(2);
  if (by_two && stream.device.type != DeviceType::cpu) {
    bool done = false;
    BORA_IF_CUDA(done = cuda::max_pool2_forward(stream, x, y, winner));
    if (done) return;
  }
  dispatch_float(x.dtype(), "max_pool3d", [&]<class T>() {
    if (by_two) {
      const MaxPool2<T> two{win.in, win.out, c, x.data<T>(), y.data<T>(), winner.data<uint8_t>()};
      if constexpr (is_narrow<T>) {
        if (stream.device.type == DeviceType::cpu) return max_pool2_lines(n, two);
      }
      for_each_cell(stream, n, win.out, c, two);
    } else {
      for_each_cell(stream, n, win.out, c,
                    MaxPool<T>{win, c, x.data<T>(), y.data<T>(), winner.data<uint8_t>()});
    }
  });
}

void max_pool3d_backward(Stream stream, const Pool3d& pool, const Tensor& dy, const Tensor& winner,
                         GradientMode mode, Tensor& dx) {
  const Windows win = windows(pool, dx, dy, "max_pool3d backward");
  check_winner(pool, dy, winner);
  const int64_t n = dx.size(0), c = dx.size(4);
  if (win.disjoint() && pool.kernel == Dims3::all(2) && stream.device.type != DeviceType::cpu) {
    bool done = false;
    BORA_IF_CUDA(done = cuda::max_pool2_backward(stream, dy, winner, mode, dx));
    if (done) return;
  }
  dispatch_float(dx.dtype(), "max_pool3d backward", [&]<class T>() {
    const bool add = mode == GradientMode::add;
    if (win.disjoint() && add) {
      for_each_cell(stream, n, win.in, c,
                    MaxPoolGradientDisjointAdd<T>{
                        {win, c, dy.data<T>(), winner.data<uint8_t>(), dx.data<T>()}});
    } else if (win.disjoint()) {
      using Bits = std::conditional_t<sizeof(T) == 2, uint16_t,
                                      std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>>;
      for_each_cell(
          stream, n, win.in, c,
          MaxPoolGradientDisjoint<Bits>{win, c, static_cast<const Bits*>(dy.raw()),
                                        winner.data<uint8_t>(), static_cast<Bits*>(dx.raw())});
    } else {
      for_each_cell(
          stream, n, win.in, c,
          MaxPoolGradient<T>{win, c, dy.data<T>(), winner.data<uint8_t>(), dx.data<T>(), add});
    }
  });
}

void avg_pool3d_forward(Stream stream, const Pool3d& pool, const Tensor& x, Tensor& y) {
  const Windows win = windows(pool, x, y, "avg_pool3d");
  dispatch_float(x.dtype(), "avg_pool3d", [&]<class T>() {
    for_each_cell(stream, x.size(0), win.out, x.size(4),
                  AvgPool<T>{win, x.size(4), x.data<T>(), y.data<T>()});
  });
}

void avg_pool3d_backward(Stream stream, const Pool3d& pool, const Tensor& dy, Tensor& dx) {
  const Windows win = windows(pool, dx, dy, "avg_pool3d backward");
  dispatch_float(dx.dtype(), "avg_pool3d backward", [&]<class T>() {
    for_each_cell(stream, dx.size(0), win.in, dx.size(4),
                  AvgPoolGradient<T>{win, dx.size(4), dy.data<T>(), dx.data<T>()});
  });
}

}  // namespace bora::kernels
