// SPDX-License-Identifier: Apache-2.0
// 1x1x1 convolutions: a product of rows (cells) of channels with a small matrix.  Bound by memory,
// so 16-bit tensors are converted while they are read and written.
#include "kernels/cpu/pointwise_kernels.hpp"
#include "kernels/cpu/winograd_multiply.hpp"

namespace bora::kernels::cpu::winograd {
namespace {

constexpr int64_t kRows = 64;  // a block

/// Rows of x as v[channel block][row][16].
template <Storage S>
void load_rows(const void* x, int64_t channels, int64_t begin, int64_t rows, float* v) {
  const auto* from = static_cast<const typename Lanes<S>::Element*>(x) + begin * channels;
  for (int64_t c = 0; c < channels; c += kLanes) {
    const __mmask16 lanes = lanes_of(channels, c);
    float* to = v + c * rows;
    if (lanes == 0xffff) {
      for (int64_t r = 0; r < rows; ++r)
        _mm512_store_ps(to + r * kLanes, Lanes<S>::load(from + r * channels + c));
    } else {
      for (int64_t r = 0; r < rows; ++r)
        _mm512_store_ps(to + r * kLanes, Lanes<S>::load(from + r * channels + c, lanes));
    }
  }
}

template <Storage S>
void forward(const Pointwise& call, int64_t begin, int64_t rows, float* scratch) {
  const int64_t out_blocks = blocks_of(call.c_out);
  float* v = scratch;
  float* m = v + kRows * blocks_of(call.c_in) * kLanes;
  for (const int64_t end = begin + rows; begin < end; begin += kRows) {
    const int64_t n = end - begin < kRows ? end - begin : kRows;
    load_rows<S>(call.x, call.c_in, begin, n, v);
    for (int64_t o = 0; o < out_blocks; o += kPanel / kLanes)
      multiply_panel(v, call.u + o * kLanes * call.c_in, call.c_in, n,
                     out_blocks - o < kPanel / kLanes ? out_blocks - o : kPanel / kLanes,
                     m + o * n * kLanes);
    auto* y = static_cast<typename Lanes<S>::Element*>(call.y) + begin * call.c_out;
    for (int64_t c = 0; c < call.c_out; c += kLanes) {
      const __mmask16 lanes = lanes_of(call.c_out, c);
      const __m512 bias =
          call.bias ? _mm512_maskz_loadu_ps(lanes, call.bias + c) : _mm512_setzero_ps();
      for (int64_t r = 0; r < n; ++r)
        Lanes<S>::store(y + r * call.c_out + c, lanes,
                        _mm512_add_ps(_mm512_load_ps(m + c * n + r * kLanes), bias));
    }
  }
}

template <Storage S>
void gradient(const Pointwise& call, const void* dy, int64_t begin, int64_t rows, float* scratch,
              float* dw) {
  const int64_t out_blocks = blocks_of(call.c_out);
  const Channels c{0, call.c_in, 0, call.c_out};
  float* du = scratch;
  float* v = du + blocks_of(call.c_in) * out_blocks * kLanes * kLanes;
  float* z = v + kRows * blocks_of(call.c_in) * kLanes;
  for (int64_t done = 0; done < rows; done += kRows) {
    const int64_t n = rows - done < kRows ? rows - done : kRows;
    load_rows<S>(call.x, call.c_in, begin + done, n, v);
    load_rows<S>(dy, call.c_out, begin + done, n, z);
    accumulate_point(v, z, c, n, done == 0, du);
  }
  for (int64_t i = 0; i < call.c_in; ++i)
    for (int64_t o = 0; o < out_blocks; ++o)
      _mm512_store_ps(
          dw + (i * out_blocks + o) * kLanes,
          _mm512_load_ps(du + ((i / kLanes * out_blocks + o) * kLanes + i % kLanes) * kLanes));
}

}  // namespace

int64_t pointwise_scratch_floats(int64_t c_in, int64_t c_out) {
  return blocks_of(c_in) * blocks_of(c_out) * kLanes * kLanes +
         kRows * (blocks_of(c_in) + blocks_of(c_out)) * kLanes;
}

void pointwise_rows(const Pointwise& call, int64_t begin, int64_t rows, float* scratch) {
  switch (call.storage) {
    case Storage::f32:
      return forward<Storage::f32>(call, begin, rows, scratch);
    case Storage::bf16:
      return forward<Storage::bf16>(call, begin, rows, scratch);
    case Storage::f16:
      return forward<Storage::f16>(call, begin, rows, scratch);
  }
}

void pointwise_gradient(const Pointwise& call, const void* dy, int64_t begin, int64_t rows,
                        float* scratch, float* dw) {
  switch (call.storage) {
    case Storage::f32:
      return gradient<Storage::f32>(call, dy, begin, rows, scratch, dw);
    case Storage::bf16:
      return gradient<Storage::bf16>(call, dy, begin, rows, scratch, dw);
    case Storage::f16:
      return gradient<Storage::f16>(call, dy, begin, rows, scratch, dw);
  }
}

}  // namespace bora::kernels::cpu::winograd
