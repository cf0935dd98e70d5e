// SPDX-License-Identifier: Apache-2.0
// reduce: sums and their like over rows, in an order fixed by the shape alone: the same bits from
// run to run and for any number of threads, and the same tree on CPU and CUDA.
//
// A reduction is a functor:
//   using Element = float;                   what a State is made of
//   static constexpr int kWidth = 2;
//   using State = Lanes<Element, kWidth>;    v[0] .. v[kWidth - 1]
//   BORA_HD State identity() const;
//   BORA_HD void add(State& s, int64_t outer, int64_t offset, int64_t column) const;
//   BORA_HD void merge(State& a, const State& b) const;       a := a joined with b; associative up
//   to
//                                                             rounding; identity must be neutral
//   BORA_HD void store(int64_t outer, int64_t column, const State& s) const;
// `add` takes in the element at `offset` = (outer * rows + row) * columns + column.
#pragma once

#include <algorithm>

#include "core/tensor.hpp"
#include "kernels/launch.hpp"

namespace bora::kernels {

/// K numbers that are reduced together.
template <class A, int K>
struct Lanes {
  A v[K];
};

namespace detail {

inline constexpr int kReduceLanes = 256;

/// How a reduction is cut up.  A tile is 2^log_columns columns by `lanes` rows, 256 elements in
/// all; a chunk is a run of rows, whose row r goes to lane r % lanes.  Lanes are joined as a binary
/// tree, and the chunks' results again as rows of a reduction.
struct ReduceGeometry {
  int64_t outer, rows, columns;
  int log_columns;
  int64_t lanes, chunk_rows, n_chunks, column_blocks;

  ReduceGeometry(int64_t outer_, int64_t rows_, int64_t columns_, bool one_chunk)
      : outer(outer_), rows(rows_), columns(columns_) {
    log_columns = 0;
    while (log_columns < 5 && (1 << log_columns) < columns) ++log_columns;
    lanes = kReduceLanes >> log_columns;
    column_blocks = (columns + (1 << log_columns) - 1) >> log_columns;
    // A chunk has 32 rows a lane at least (8192 elements); there are at most 1024 chunks.
    const int64_t wanted = std::min<int64_t>(1024, rows / (32 * lanes));
    n_chunks = one_chunk || wanted < 1 ? 1 : wanted;
    chunk_rows = (rows + n_chunks - 1) / n_chunks;
    chunk_rows = (chunk_rows + lanes - 1) / lanes * lanes;
    n_chunks = rows == 0 ? 1 : (rows + chunk_rows - 1) / chunk_rows;
  }
};

/// The second stage as a reduction: rows are the chunks, elements their states, which lie as
/// (outer, chunk, width, column).
template <class F>
struct MergeChunks {
  using Element = typename F::Element;
  static constexpr int kWidth = F::kWidth;
  static constexpr bool kHostOnly = host_only<F>();
  using State = typename F::State;
  F f;
  const Element* partial;
  int64_t columns;

  BORA_HD State identity() const { return f.identity(); }
  BORA_HD void add(State& s, int64_t, int64_t offset, int64_t column) const {
    const int64_t chunk = (offset - column) / columns;  // counted over all outer
    State other;
    for (int k = 0; k < kWidth; ++k) other.v[k] = partial[(chunk * kWidth + k) * columns + column];
    f.merge(s, other);
  }
  BORA_HD void merge(State& a, const State& b) const { f.merge(a, b); }
  BORA_HD void store(int64_t outer, int64_t column, const State& s) const {
    f.store(outer, column, s);
  }
};

template <class F>
BORA_HD inline void put_partial(typename F::Element* partial, int64_t chunk, int64_t columns,
                                int64_t column, const typename F::State& s) {
  for (int k = 0; k < F::kWidth; ++k) partial[(chunk * F::kWidth + k) * columns + column] = s.v[k];
}

/// The lanes of one tile on the CPU, each number of a State in its own array, for vector code.
template <class F>
struct Tile {
  typename F::Element v[F::kWidth][kReduceLanes];

  typename F::State get(int l) const {
    typename F::State s;
    for (int k = 0; k < F::kWidth; ++k) s.v[k] = v[k][l];
    return s;
  }
  void set(int l, const typename F::State& s) {
    for (int k = 0; k < F::kWidth; ++k) v[k][l] = s.v[k];
  }
};

// One run of at most 2^LogC columns of one row.
template <int LogC, class F>
inline void add_row(const F& f, Tile<F>& tile, int first_lane, int64_t outer, int64_t offset,
                    int64_t column, int n_columns) {
  if (n_columns == (1 << LogC)) {
#pragma omp simd
    for (int c = 0; c < (1 << LogC); ++c) {
      auto s = tile.get(first_lane + c);
      f.add(s, outer, offset + c, column + c);
      tile.set(first_lane + c, s);
    }
  } else {
#pragma omp simd
    for (int c = 0; c < n_columns; ++c) {
      auto s = tile.get(first_lane + c);
      f.add(s, outer, offset + c, column + c);
      tile.set(first_lane + c, s);
    }
  }
}

template <int LogC, class F>
void reduce_chunk(const F& f, const ReduceGeometry& g, int64_t outer, int64_t chunk, int64_t block,
                  Tile<F>& tile) {
  constexpr int kColumns = 1 << LogC;
  constexpr int kLanes = kReduceLanes / kColumns;
  const auto identity = f.identity();
  for (int l = 0; l < kReduceLanes; ++l) tile.set(l, identity);
  const int64_t begin = chunk * g.chunk_rows, end = std::min(g.rows, begin + g.chunk_rows);
  const int64_t column = block * kColumns;
  const int n_columns = static_cast<int>(std::min<int64_t>(kColumns, g.columns - column));
  int64_t row = begin;
  if (g.columns == kColumns && LogC < 4) {
    // Narrow rows: a whole tile is one contiguous run.
    for (; row + kLanes <= end; row += kLanes) {
      const int64_t offset = (outer * g.rows + row) * kColumns;
#pragma omp simd
      for (int l = 0; l < kReduceLanes; ++l) {
        auto s = tile.get(l);
        f.add(s, outer, offset + l, l & (kColumns - 1));
        tile.set(l, s);
      }
    }
  }
  for (; row < end; row += kLanes) {
    const int n_lanes = static_cast<int>(std::min<int64_t>(kLanes, end - row));
    for (int lane = 0; lane < n_lanes; ++lane)
      add_row<LogC>(f, tile, lane * kColumns, outer,
                    (outer * g.rows + row + lane) * g.columns + column, column, n_columns);
  }
  for (int half = kLanes / 2; half > 0; half /= 2) {
#pragma omp simd
    for (int l = 0; l < half * kColumns; ++l) {
      auto s = tile.get(l);
      f.merge(s, tile.get(l + half * kColumns));
      tile.set(l, s);
    }
  }
}

template <class F, class Put>
void reduce_cpu(const F& f, const ReduceGeometry& g, const Put& put) {
  const int64_t n_tasks = g.outer * g.n_chunks;
#pragma omp parallel for schedule(static) if (g.outer * g.rows * g.columns > kThreadWorthy)
  for (int64_t task = 0; task < n_tasks; ++task) {
    const int64_t outer = task / g.n_chunks, chunk = task % g.n_chunks;
    alignas(64) Tile<F> tile;
    // All column blocks of a chunk in turn: its rows are then still in the cache.
    for (int64_t block = 0; block < g.column_blocks; ++block) {
      switch (g.log_columns) {
        case 0:
          reduce_chunk<0>(f, g, outer, chunk, block, tile);
          break;
        case 1:
          reduce_chunk<1>(f, g, outer, chunk, block, tile);
          break;
        case 2:
          reduce_chunk<2>(f, g, outer, chunk, block, tile);
          break;
        case 3:
          reduce_chunk<3>(f, g, outer, chunk, block, tile);
          break;
        case 4:
          reduce_chunk<4>(f, g, outer, chunk, block, tile);
          break;
        default:
          reduce_chunk<5>(f, g, outer, chunk, block, tile);
          break;
      }
      const int64_t column = block << g.log_columns;
      const int64_t n_columns = std::min<int64_t>(1 << g.log_columns, g.columns - column);
      for (int64_t c = 0; c < n_columns; ++c)
        put(outer, chunk, column + c, tile.get(static_cast<int>(c)));
    }
  }
}

#if defined(BORA_DEVICE_CODE)

/// One block a (chunk, column block, outer).  partial == nullptr: the only chunk, stored at once.
template <class F>
__global__ void __launch_bounds__(kReduceLanes)
    reduce_cuda(F f, ReduceGeometry g, typename F::Element* partial) {
  __shared__ typename F::Element tile[F::kWidth][kReduceLanes];
  const int l = static_cast<int>(threadIdx.x);
  const int n_columns = 1 << g.log_columns, lanes = kReduceLanes >> g.log_columns;
  const int64_t column = static_cast<int64_t>(blockIdx.y) * n_columns + (l & (n_columns - 1));
  const int64_t chunk = blockIdx.x;
  const int64_t begin = chunk * g.chunk_rows;
  const int64_t end = begin + g.chunk_rows < g.rows ? begin + g.chunk_rows : g.rows;
  for (int64_t outer = blockIdx.z; outer < g.outer; outer += gridDim.z) {
    typename F::State s = f.identity();
    if (column < g.columns)
      for (int64_t row = begin + (l >> g.log_columns); row < end; row += lanes)
        f.add(s, outer, (outer * g.rows + row) * g.columns + column, column);
    for (int k = 0; k < F::kWidth; ++k) tile[k][l] = s.v[k];
    __syncthreads();
    for (int half = lanes / 2; half > 0; half /= 2) {
      if (l < half * n_columns) {
        typename F::State other;
        for (int k = 0; k < F::kWidth; ++k) other.v[k] = tile[k][l + half * n_columns];
        f.merge(s, other);
        for (int k = 0; k < F::kWidth; ++k) tile[k][l] = s.v[k];
      }
      __syncthreads();
    }
    if (l < n_columns && column < g.columns) {
      if (partial) {
        put_partial<F>(partial, outer * g.n_chunks + chunk, g.columns, column, s);
      } else {
        f.store(outer, column, s);
      }
    }
    __syncthreads();  // the tile is written again for the next outer
  }
}

template <class F>
void reduce_launch(Stream stream, const F& f, const ReduceGeometry& g,
                   typename F::Element* partial) {
  BORA_CHECK(g.column_blocks <= 65535, "reduce: ", g.columns,
             " columns are more than 65535 blocks");
  const dim3 grid(static_cast<unsigned>(g.n_chunks), static_cast<unsigned>(g.column_blocks),
                  static_cast<unsigned>(std::min<int64_t>(g.outer, 65535)));
  launch("reduce", stream, {.grid = grid, .block = kReduceLanes}, reduce_cuda<F>, f, g, partial);
}

#endif

}  // namespace detail

/// For each outer index and each column of an (outer, rows, columns) array: f.store(outer, column,
/// state of all its rows).  Coalesced on CUDA, vector code over columns on the CPU.  Columns of 0
/// rows are stored as f.identity().  Scratch for the chunks' states comes from the allocator.
template <class F>
void reduce_columns(Stream stream, int64_t outer, int64_t rows, int64_t columns, const F& f) {
  BORA_CHECK(outer >= 0 && rows >= 0 && columns >= 0, "reduce: negative extents (", outer, ", ",
             rows, ", ", columns, ")");
  if (outer == 0 || columns == 0) return;
  const detail::ReduceGeometry g(outer, rows, columns, /*one_chunk=*/false);
  const bool two_stages = g.n_chunks > 1;
  using Element = typename F::Element;
  Tensor scratch;
  Element* partial = nullptr;
  if (two_stages) {
    scratch =
        Tensor::empty({outer, g.n_chunks, F::kWidth, columns}, dtype_of<Element>, stream.device);
    partial = scratch.data<Element>();
  }
  const detail::MergeChunks<F> merge{f, partial, columns};
  const detail::ReduceGeometry second(outer, g.n_chunks, columns, /*one_chunk=*/true);
  if (stream.device.type == DeviceType::cpu) {
    if (!two_stages)
      return detail::reduce_cpu(
          f, g, [&](int64_t o, int64_t, int64_t column, const auto& s) { f.store(o, column, s); });
    detail::reduce_cpu(f, g, [&](int64_t o, int64_t chunk, int64_t column, const auto& s) {
      detail::put_partial<F>(partial, o * g.n_chunks + chunk, columns, column, s);
    });
    detail::reduce_cpu(merge, second, [&](int64_t o, int64_t, int64_t column, const auto& s) {
      f.store(o, column, s);
    });
    return;
  }
#if defined(BORA_DEVICE_CODE)
  if constexpr (host_only<F>()) {
    throw_host_only("reduce");
  } else {
    detail::reduce_launch(stream, f, g, partial);
    if (two_stages) detail::reduce_launch(stream, merge, second, static_cast<Element*>(nullptr));
  }
#else
  ::bora::detail::throw_built_without_cuda();
#endif
}

/// For each row of a (rows, columns) array: f.store(row, 0, state of all its elements); `outer` of
/// add is the row, its `column` is 0.
template <class F>
void reduce_rows(Stream stream, int64_t rows, int64_t columns, const F& f) {
  reduce_columns(stream, rows, columns, 1, f);
}

}  // namespace bora::kernels
