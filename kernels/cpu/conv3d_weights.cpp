// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/conv3d_weights.hpp"

#include <algorithm>
#include <cstring>

namespace bora::kernels::cpu {
namespace {

constexpr int64_t kTile = 16;  // the block size of oneDNN's layouts, and a 64-byte line of f32

/// Offsets of indices 0..n-1 along axis `axis`: digits of the inner blocks first, then the outer
/// stride.
std::vector<int64_t> axis_offsets(const dnnl_memory_desc_t& d, int axis) {
  const dnnl_blocking_desc_t& b = d.format_desc.blocking;
  std::vector<int64_t> offsets(static_cast<size_t>(d.dims[axis]));
  for (int64_t x = 0; x < d.dims[axis]; ++x) {
    int64_t rest = x, offset = 0, block_stride = 1;
    for (int j = b.inner_nblks - 1; j >= 0; --j) {
      if (b.inner_idxs[j] == axis) {
        offset += rest % b.inner_blks[j] * block_stride;
        rest /= b.inner_blks[j];
      }
      block_stride *= b.inner_blks[j];
    }
    offsets[static_cast<size_t>(x)] = offset + rest * b.strides[axis];
  }
  return offsets;
}

/// Are offsets [begin, begin + n) consecutive?
bool consecutive(const int64_t* offsets, int64_t n) {
  for (int64_t j = 1; j < n; ++j)
    if (offsets[j] != offsets[0] + j) return false;
  return true;
}

template <class T>
void pack(const WeightLayout& layout, const WeightExtents& e, WeightUse use, const T* w, T* out) {
  const bool flipped = use == WeightUse::flipped;
  const int64_t* at_o = flipped ? layout.i.data() : layout.o.data();
  const int64_t* at_i = flipped ? layout.o.data() : layout.i.data();
  if (layout.padded) std::memset(out, 0, static_cast<size_t>(layout.elements) * sizeof(T));
  const int64_t blocks = (e.out + kTile - 1) / kTile;
#pragma omp parallel for collapse(2) schedule(static) if (e.groups * e.out * e.taps * e.in > 32768)
  for (int64_t g = 0; g < e.groups; ++g)
    for (int64_t block = 0; block < blocks; ++block) {
      const int64_t o0 = block * kTile, n_o = std::min(kTile, e.out - o0);
      for (int64_t k = 0; k < e.taps; ++k) {
        T* to = out + layout.g[static_cast<size_t>(g)] +
                layout.k[static_cast<size_t>(flipped ? e.taps - 1 - k : k)];
        for (int64_t i0 = 0; i0 < e.in; i0 += kTile) {
          const int64_t n_i = std::min(kTile, e.in - i0);
          const bool runs = consecutive(at_i + i0, n_i);
          for (int64_t o = o0; o < o0 + n_o; ++o) {
            const T* from = w + ((g * e.out + o) * e.taps + k) * e.in + i0;
            T* row = to + at_o[o];
            if (runs) {
              std::memcpy(row + at_i[i0], from, static_cast<size_t>(n_i) * sizeof(T));
            } else {
              for (int64_t i = 0; i < n_i; ++i) row[at_i[i0 + i]] = from[i];
            }
          }
        }
      }
    }
}

}  // namespace

WeightLayout WeightLayout::of(const dnnl::memory::desc& desc) {
  const dnnl_memory_desc_t& d = desc.data;
  BORA_CHECK(d.format_kind == dnnl_blocked && d.extra.flags == dnnl_memory_extra_flag_none,
             "conv3d: oneDNN wants weights in a layout that is not a plain blocked one (kind ",
             static_cast<int>(d.format_kind), ", flags ", d.extra.flags, ")");
  const int first = d.ndims - 5;  // 1 with groups
  WeightLayout layout;
  layout.g = first ? axis_offsets(d, 0) : std::vector<int64_t>{0};
  layout.o = axis_offsets(d, first);
  layout.i = axis_offsets(d, first + 1);
  const auto kd = axis_offsets(d, first + 2), kh = axis_offsets(d, first + 3),
             kw = axis_offsets(d, first + 4);
  for (int64_t a : kd)
    for (int64_t b : kh)
      for (int64_t c : kw) layout.k.push_back(d.offset0 + a + b + c);
  layout.elements = static_cast<int64_t>(desc.get_size()) /
                    static_cast<int64_t>(dnnl::memory::data_type_size(desc.data_type()));
  int64_t used = 1;
  for (int i = 0; i < d.ndims; ++i) used *= d.dims[i];
  layout.padded = used != layout.elements;
  return layout;
}

void pack_weights(const WeightLayout& layout, const WeightExtents& e, WeightUse use, const void* w,
                  int64_t element_bytes, void* out) {
  if (element_bytes == 4) {
    pack(layout, e, use, static_cast<const float*>(w), static_cast<float*>(out));
  } else {
    pack(layout, e, use, static_cast<const uint16_t*>(w), static_cast<uint16_t*>(out));
  }
}

void join_gradients(const std::vector<PartialGradient>& parts, const WeightExtents& e,
                    GradientMode mode, float* dw) {
  const int64_t blocks = (e.out + kTile - 1) / kTile;
#pragma omp parallel for collapse(2) schedule(static) if (e.groups * e.out * e.taps * e.in > 32768)
  for (int64_t g = 0; g < e.groups; ++g)
    for (int64_t block = 0; block < blocks; ++block) {
      const int64_t o0 = block * kTile, n_o = std::min(kTile, e.out - o0);
      for (int64_t k = 0; k < e.taps; ++k)
        for (int64_t i0 = 0; i0 < e.in; i0 += kTile) {
          const int64_t n_i = std::min(kTile, e.in - i0);
          float tile[kTile * kTile] = {};
          for (const PartialGradient& part : parts) {
            const WeightLayout& l = *part.layout;
            const float* from =
                part.values + l.g[static_cast<size_t>(g)] + l.k[static_cast<size_t>(k)];
            const int64_t* at_o = l.o.data() + o0;
            if (consecutive(at_o, n_o)) {
              for (int64_t i = 0; i < n_i; ++i) {
                const float* column = from + l.i[static_cast<size_t>(i0 + i)] + at_o[0];
                for (int64_t o = 0; o < n_o; ++o) tile[i * kTile + o] += column[o];
              }
            } else {
              for (int64_t i = 0; i < n_i; ++i)
                for (int64_t o = 0; o < n_o; ++o)
                  tile[i * kTile + o] += from[l.i[static_cast<size_t>(i0 + i)] + at_o[o]];
            }
          }
          for (int64_t o = 0; o < n_o; ++o) {
            float* to = dw + ((g * e.out + o0 + o) * e.taps + k) * e.in + i0;
            if (mode == GradientMode::add) {
              for (int64_t i = 0; i < n_i; ++i) to[i] += tile[i * kTile + o];
            } else {
              for (int64_t i = 0; i < n_i; ++i) to[i] = tile[i * kTile + o];
            }
          }
        }
    }
}

}  // namespace bora::kernels::cpu
