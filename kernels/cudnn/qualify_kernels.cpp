// SPDX-License-Identifier: Apache-2.0
// The device side of kernels/cudnn/qualify.hpp.
#include "kernels/cudnn/qualify.hpp"
#include "kernels/for_each.hpp"
#include "kernels/reduce.hpp"

namespace bora::kernels::cudnn {
namespace {

/// A counter's hash (the finaliser of MurmurHash3, 64 bits).
BORA_HD inline uint64_t mix(uint64_t v) {
  v ^= v >> 33;
  v *= 0xff51afd7ed558ccdULL;
  v ^= v >> 33;
  v *= 0xc4ceb9fe1a85ec53ULL;
  return v ^ (v >> 33);
}

template <class T>
struct FillExact {
  static constexpr bool kHostOnly = std::is_same_v<T, double>;
  T* out;
  uint64_t seed;
  BORA_HD void operator()(int64_t i) const {
    const auto eighths = static_cast<int>(mix(seed + static_cast<uint64_t>(i)) % 17) - 8;
    out[i] = static_cast<T>(static_cast<acc_t<T>>(eighths) * acc_t<T>(0.125));
  }
};

template <class T>
struct Gather {
  static constexpr bool kHostOnly = std::is_same_v<T, double>;
  const T* from;
  const int64_t* positions;
  float* out;
  BORA_HD void operator()(int64_t i) const {
    out[i] = static_cast<float>(load(from[positions[i]]));
  }
};

/// One result element an outer index, one product a row.
template <class T>
struct SampledSum {
  using Element = float;
  static constexpr int kWidth = 1;
  static constexpr bool kHostOnly = std::is_same_v<T, double>;
  using State = Lanes<Element, kWidth>;

  ConvPass pass;
  ConvProblem p;
  const T* first;
  const T* second;
  const int64_t* positions;
  float* out;
  int64_t terms;

  // Cells of x, y and w; -1 outside.
  BORA_HD int64_t x_at(int64_t n, const int64_t (&o)[3], const int64_t (&k)[3]) const {
    int64_t cell = n;
    for (int i = 0; i < 3; ++i) {
      const int64_t z = o[i] * stride(i) - pad(i) + k[i] * dilation(i);
      if (z < 0 || z >= in(i)) return -1;
      cell = cell * in(i) + z;
    }
    return cell;
  }
  BORA_HD int64_t y_at(int64_t n, const int64_t (&z)[3], const int64_t (&k)[3]) const {
    int64_t cell = n;
    for (int i = 0; i < 3; ++i) {
      const int64_t shifted = z[i] + pad(i) - k[i] * dilation(i);
      if (shifted < 0 || shifted % stride(i) != 0 || shifted / stride(i) >= out_extent(i))
        return -1;
      cell = cell * out_extent(i) + shifted / stride(i);
    }
    return cell;
  }
  BORA_HD int64_t w_at(int64_t o, const int64_t (&k)[3], int64_t i) const {
    return (((o * taps(0) + k[0]) * taps(1) + k[1]) * taps(2) + k[2]) * (p.c_in / p.groups) + i;
  }

  BORA_HD State identity() const { return {{0.0f}}; }
  BORA_HD void add(State& s, int64_t outer, int64_t offset, int64_t) const {
    s.v[0] += product(positions[outer], offset - outer * terms);
  }
  BORA_HD void merge(State& a, const State& b) const { a.v[0] += b.v[0]; }
  BORA_HD void store(int64_t outer, int64_t, const State& s) const { out[outer] = s.v[0]; }

 private:
  // std::array's operator[] is no device function everywhere.
  BORA_HD int64_t in(int i) const { return p.in.data()[i]; }
  BORA_HD int64_t out_extent(int i) const { return p.out.data()[i]; }
  BORA_HD int64_t taps(int i) const { return p.kernel.data()[i]; }
  BORA_HD int64_t stride(int i) const { return p.stride.data()[i]; }
  BORA_HD int64_t pad(int i) const { return p.pad_left.data()[i]; }
  BORA_HD int64_t dilation(int i) const { return p.dilation.data()[i]; }

  /// Cuts `rest` into three coordinates, the last fastest, and returns what is left.
  template <class Extent>
  static BORA_HD int64_t split(int64_t rest, int64_t (&at)[3], const Extent& extent) {
    for (int i = 2; i >= 0; --i) {
      at[i] = rest % extent(i);
      rest /= extent(i);
    }
    return rest;
  }

  BORA_HD float product(int64_t position, int64_t term) const {
    const int64_t in_per_group = p.c_in / p.groups, out_per_group = p.c_out / p.groups;
    int64_t k[3], at[3];
    const auto tap = [this](int i) { return taps(i); };
    if (pass == ConvPass::backward_weights) {
      const int64_t i = position % in_per_group;
      const int64_t o = split(position / in_per_group, k, tap);
      const int64_t n = split(term, at, [this](int axis) { return out_extent(axis); });
      const int64_t x = x_at(n, at, k);
      if (x < 0) return 0.0f;
      const int64_t y =
          ((n * out_extent(0) + at[0]) * out_extent(1) + at[1]) * out_extent(2) + at[2];
      return times(first[x * p.c_in + o / out_per_group * in_per_group + i],
                   second[y * p.c_out + o]);
    }
    if (pass == ConvPass::forward) {
      const int64_t o = position % p.c_out;
      const int64_t n =
          split(position / p.c_out, at, [this](int axis) { return out_extent(axis); });
      const int64_t i = term % in_per_group;
      split(term / in_per_group, k, tap);
      const int64_t x = x_at(n, at, k);
      if (x < 0) return 0.0f;
      return times(first[x * p.c_in + o / out_per_group * in_per_group + i], second[w_at(o, k, i)]);
    }
    const int64_t c = position % p.c_in, group = c / in_per_group;
    const int64_t n = split(position / p.c_in, at, [this](int axis) { return in(axis); });
    const int64_t o = group * out_per_group + term % out_per_group;
    split(term / out_per_group, k, tap);
    const int64_t y = y_at(n, at, k);
    if (y < 0) return 0.0f;
    return times(first[y * p.c_out + o], second[w_at(o, k, c - group * in_per_group)]);
  }
  static BORA_HD float times(T a, T b) {
    return static_cast<float>(load(a)) * static_cast<float>(load(b));
  }
};

}  // namespace

void fill_exact(Stream stream, Tensor& t, uint64_t seed) {
  dispatch_float(t.dtype(), "fill_exact", [&]<class T>() {
    // Seeds far apart: two tensors are not the same numbers shifted.
    for_each(stream, t.numel(), FillExact<T>{t.data<T>(), seed * 0x9e3779b97f4a7c15ULL});
  });
}

void sampled_result(Stream stream, const ConvKey& key, const Tensor& first, const Tensor& second,
                    const Tensor& positions, Tensor& out) {
  const PassShapes shapes = shapes_of(key);
  BORA_CHECK(first.shape() == shapes.first && second.shape() == shapes.second,
             "sampled_result: operands ", first.shape(), " and ", second.shape(), ", wanted ",
             shapes.first, " and ", shapes.second);
  const int64_t terms = terms_of(key);
  dispatch_float(key.dtype(), "sampled_result", [&]<class T>() {
    reduce_rows(stream, positions.numel(), terms,
                SampledSum<T>{key.pass, key.problem, first.data<T>(), second.data<T>(),
                              positions.data<int64_t>(), out.data<float>(), terms});
  });
}

void gather(Stream stream, const Tensor& from, const Tensor& positions, Tensor& out) {
  dispatch_float(from.dtype(), "gather", [&]<class T>() {
    for_each(stream, positions.numel(),
             Gather<T>{from.data<T>(), positions.data<int64_t>(), out.data<float>()});
  });
}

}  // namespace bora::kernels::cudnn
