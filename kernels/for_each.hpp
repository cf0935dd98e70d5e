// SPDX-License-Identifier: Apache-2.0
// for_each: f(i) writes its own output element.  Gathers, never scatters: no order, no races, the
// same bits always.
#pragma once

#include <algorithm>

#include "core/shape.hpp"
#include "kernels/launch.hpp"

namespace bora::kernels {

/// A cell of a volume batch, and its number in memory order (without channels).
struct VolumeIndex {
  int64_t n, d, h, w;
};

/// The cell with number `cell` in an (N, D, H, W) grid.
BORA_HD inline VolumeIndex volume_index(int64_t cell, Dims3 extent) {
  VolumeIndex v{};
  v.w = cell % extent.w;
  cell /= extent.w;
  v.h = cell % extent.h;
  cell /= extent.h;
  v.d = cell % extent.d;
  v.n = cell / extent.d;
  return v;
}

/// The number of the cell (n, d, h, w).
BORA_HD inline int64_t cell_number(int64_t n, int64_t d, int64_t h, int64_t w, Dims3 extent) {
  return ((n * extent.d + d) * extent.h + h) * extent.w + w;
}

namespace detail {

template <class F>
void for_each_cpu(int64_t n, const F& f) {
  constexpr int64_t kBlock = 4096;  // fixed by n: see map_cpu
  const int64_t n_blocks = (n + kBlock - 1) / kBlock;
#pragma omp parallel for schedule(static) if (n > kThreadWorthy)
  for (int64_t block = 0; block < n_blocks; ++block) {
    const int64_t end = std::min(n, (block + 1) * kBlock);
#pragma omp simd
    for (int64_t i = block * kBlock; i < end; ++i) f(i);
  }
}

/// f(place, c) for all channels: in full vectors of a count that the compiler knows, then the rest.
/// Copies, not references: a write through a u8 pointer could else change f itself, and nothing
/// would become vector code.
template <class F, class Place>
void for_each_channel(int64_t channels, const F f, const Place place) {
  constexpr int64_t kVector = 16;
  int64_t c = 0;
  for (; c + kVector <= channels; c += kVector) {
#pragma omp simd
    for (int64_t j = 0; j < kVector; ++j) f(place, c + j);
  }
#pragma omp simd
  for (int64_t j = c; j < channels; ++j) f(place, j);
}

template <class F>
void for_each_row_cpu(int64_t rows, int64_t columns, const F& f) {
#pragma omp parallel for schedule(static) if (rows * columns > kThreadWorthy)
  for (int64_t r = 0; r < rows; ++r) {
    for_each_channel(columns, f, f.row(r));
  }
}

template <class F>
void for_each_cell_cpu(int64_t batch, Dims3 extent, int64_t channels, const F& f) {
  const int64_t n_lines = batch * extent.d * extent.h;
#pragma omp parallel for schedule(static) if (n_lines * extent.w * channels > kThreadWorthy)
  for (int64_t line = 0; line < n_lines; ++line) {
    VolumeIndex v{line / (extent.d * extent.h), (line / extent.h) % extent.d, line % extent.h, 0};
    for (; v.w < extent.w; ++v.w) {
      for_each_channel(channels, f, f.cell(v));
    }
  }
}

#if defined(BORA_DEVICE_CODE)

template <class F>
__global__ void __launch_bounds__(kBlockThreads) for_each_cuda(int64_t n, F f) {
  const int64_t step = static_cast<int64_t>(gridDim.x) * blockDim.x;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < n; i += step)
    f(i);
}

template <class F>
__global__ void __launch_bounds__(kBlockThreads)
    for_each_row_cuda(int64_t n, int64_t columns, F f) {
  const int64_t step = static_cast<int64_t>(gridDim.x) * blockDim.x;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < n; i += step) {
    const int64_t r = i / columns;
    f(f.row(r), i - r * columns);
  }
}

// Neighbouring threads take neighbouring channels of a cell: coalesced.
template <class F>
__global__ void __launch_bounds__(kBlockThreads)
    for_each_cell_cuda(int64_t n, Dims3 extent, int64_t channels, F f) {
  const int64_t step = static_cast<int64_t>(gridDim.x) * blockDim.x;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < n; i += step) {
    const int64_t cell = i / channels;
    f(f.cell(volume_index(cell, extent)), i - cell * channels);
  }
}

#endif

}  // namespace detail

/// f(i) for 0 <= i < n.
template <class F>
void for_each(Stream stream, int64_t n, const F& f) {
  BORA_CHECK(n >= 0, "for_each: count is ", n);
  if (n == 0) return;
  if (stream.device.type == DeviceType::cpu) return detail::for_each_cpu(n, f);
#if defined(BORA_DEVICE_CODE)
  if constexpr (host_only<F>()) {
    throw_host_only("for_each");
  } else {
    launch("for_each", stream, {.grid = blocks_for(n)}, detail::for_each_cuda<F>, n, f);
  }
#else
  ::bora::detail::throw_built_without_cuda();
#endif
}

/// f(f.row(r), c) for each row r and column c.  f.row(r) holds what a row's columns share; the loop
/// over columns is made of vector instructions on the CPU.
template <class F>
void for_each_row(Stream stream, int64_t rows, int64_t columns, const F& f) {
  BORA_CHECK(rows >= 0 && columns >= 0, "for_each_row: negative extents: ", rows, ", ", columns);
  if (rows == 0 || columns == 0) return;
  if (stream.device.type == DeviceType::cpu) return detail::for_each_row_cpu(rows, columns, f);
#if defined(BORA_DEVICE_CODE)
  if constexpr (host_only<F>()) {
    throw_host_only("for_each_row");
  } else {
    const int64_t n = rows * columns;
    launch("for_each_row", stream, {.grid = blocks_for(n)}, detail::for_each_row_cuda<F>, n,
           columns, f);
  }
#else
  ::bora::detail::throw_built_without_cuda();
#endif
}

/// f(f.cell(v), c) for each cell v of a (batch, extent) grid and each channel c.  f.cell(v) holds
/// what a cell's channels share (offsets, weights); the loop over c is made of vector instructions
/// on the CPU.
template <class F>
void for_each_cell(Stream stream, int64_t batch, Dims3 extent, int64_t channels, const F& f) {
  BORA_CHECK(batch >= 0 && extent.d >= 0 && extent.h >= 0 && extent.w >= 0 && channels >= 0,
             "for_each_cell: negative extents: ", batch, ", ", extent, ", ", channels);
  const int64_t n = batch * extent.count() * channels;
  if (n == 0) return;
  if (stream.device.type == DeviceType::cpu)
    return detail::for_each_cell_cpu(batch, extent, channels, f);
#if defined(BORA_DEVICE_CODE)
  if constexpr (host_only<F>()) {
    throw_host_only("for_each_cell");
  } else {
    launch("for_each_cell", stream, {.grid = blocks_for(n)}, detail::for_each_cell_cuda<F>, n,
           extent, channels, f);
  }
#else
  ::bora::detail::throw_built_without_cuda();
#endif
}

}  // namespace bora::kernels
