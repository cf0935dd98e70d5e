// SPDX-License-Identifier: Apache-2.0
#include "tests/kernels/norm_generic.hpp"

#include "kernels/for_each.hpp"
#include "kernels/norm_element.hpp"
#include "kernels/reduce.hpp"

namespace bora::kernels::generic {
namespace {

/// The factors of z = (x - mean) * scale + shift, one element at a time.
template <class T>
struct NormFactors {
  using A = acc_t<T>;
  struct Factors {
    A mean, scale, shift, rstd, low;
  };
  const A* statistics;
  const A* gamma;
  const A* beta;
  int64_t sample_elements, n_channels, groups, per_group;

  NormFactors(const NormShape& shape, const NormInput& in)
      : statistics(in.statistics.data<A>()),
        gamma(in.gamma.data<A>()),
        beta(in.beta.data<A>()),
        sample_elements(shape.rows * shape.channels),
        n_channels(shape.channels),
        groups(shape.groups),
        per_group(shape.group_channels()) {}

  /// Of element i of x.
  BORA_HD Factors at(int64_t i) const { return of(i / sample_elements, i % n_channels); }
  BORA_HD Factors of(int64_t sample, int64_t c) const {
    const A* const s = statistics + (sample * groups + c / per_group) * 3;
    const A scale = gamma[c] * s[2];
    return {s[0], scale, beta[c] - s[1] * scale, s[2], s[1]};
  }
};

/// Welford's update of x minus the first row, Chan's merge.
template <class T>
struct ChannelMoments {
  using Element = acc_t<T>;
  static constexpr int kWidth = 3;  // count, mean - shift, M2
  static constexpr bool kHostOnly = std::is_same_v<T, double>;
  using State = Lanes<Element, kWidth>;
  const T* x;
  double* moments;
  int64_t rows, n_channels;

  BORA_HD Element shift(int64_t outer, int64_t column) const {
    return load(x[outer * rows * n_channels + column]);
  }
  BORA_HD State identity() const { return {{0, 0, 0}}; }
  BORA_HD void add(State& s, int64_t outer, int64_t offset, int64_t column) const {
    const Element v = load(x[offset]) - shift(outer, column);
    s.v[0] += Element(1);
    const Element delta = v - s.v[1];
    s.v[1] += delta / s.v[0];
    s.v[2] += delta * (v - s.v[1]);
  }
  BORA_HD void merge(State& a, const State& b) const {
    if (b.v[0] == Element(0)) return;
    const Element total = a.v[0] + b.v[0], part = b.v[0] / total, delta = b.v[1] - a.v[1];
    a.v[2] += b.v[2] + delta * delta * (a.v[0] * part);
    a.v[1] += delta * part;
    a.v[0] = total;
  }
  BORA_HD void store(int64_t outer, int64_t column, const State& s) const {
    double* const row = moments + outer * (1 + 2 * n_channels);
    if (column == 0) row[0] = static_cast<double>(rows);
    row[1 + column] =
        rows == 0 ? 0.0 : static_cast<double>(shift(outer, column)) + static_cast<double>(s.v[1]);
    row[1 + n_channels + column] = static_cast<double>(s.v[2]);
  }
};

template <class T>
struct ForwardElement {
  static constexpr bool kHostOnly = std::is_same_v<T, double>;
  NormFactors<T> f;
  const T* x;
  const T* residual;
  T* y;
  AnyActivationAt act;

  BORA_HD void operator()(int64_t i) const {
    const auto k = f.at(i);
    acc_t<T> z = (load(x[i]) - k.mean) * k.scale + k.shift;
    if (residual) z += load(residual[i]);
    y[i] = static_cast<T>(act.value(z));
  }
};

/// Pass 1: sums of a channel.
template <class T>
struct SumsOfChannel {
  using Element = acc_t<T>;
  static constexpr int kWidth = 2;
  static constexpr bool kHostOnly = std::is_same_v<T, double>;
  using State = Lanes<Element, kWidth>;
  NormFactors<T> f;
  const T* x;
  const T* residual;
  const T* dy;
  T* dz;
  double* sums;
  AnyActivationAt act;

  BORA_HD State identity() const { return {{0, 0}}; }
  BORA_HD void add(State& s, int64_t outer, int64_t offset, int64_t column) const {
    const auto k = f.of(outer, column);
    const Element centred = load(x[offset]) - k.mean;
    const Element r = residual ? load(residual[offset]) : Element(0);
    const Element g = dz_at<T>(act, dy[offset], centred, k.scale, k.shift, r);
    if (dz) dz[offset] = static_cast<T>(g);
    s.v[0] += g;
    s.v[1] += g * centred;
  }
  BORA_HD void merge(State& a, const State& b) const {
    a.v[0] += b.v[0];
    a.v[1] += b.v[1];
  }
  BORA_HD void store(int64_t outer, int64_t column, const State& s) const {
    const auto k = f.of(outer, column);
    double* const row = sums + outer * 2 * f.n_channels;
    const auto d = static_cast<double>(s.v[0]), d_centred = static_cast<double>(s.v[1]);
    row[column] = d;
    row[f.n_channels + column] =
        (d_centred - static_cast<double>(k.low) * d) * static_cast<double>(k.rstd);
  }
};

/// Pass 2, one element.
template <class T>
struct ApplyElement {
  static constexpr bool kHostOnly = std::is_same_v<T, double>;
  NormFactors<T> f;
  const T* x;
  const T* residual;
  const T* dy;
  const acc_t<T>* coefficients;
  T* dx;
  AnyActivationAt act;

  BORA_HD void operator()(int64_t i) const {
    const int64_t n = i / f.sample_elements, c = i % f.n_channels;
    const auto k = f.of(n, c);
    const acc_t<T> centred = load(x[i]) - k.mean;
    const acc_t<T> r = residual ? load(residual[i]) : acc_t<T>(0);
    const acc_t<T> g = dz_at<T>(act, dy[i], centred, k.scale, k.shift, r);
    const acc_t<T>* const q = coefficients + (n * f.groups + c / f.per_group) * 2;
    dx[i] = static_cast<T>(g * k.scale + (centred * q[0] + q[1]));
  }
};

template <class T>
const T* pointer_or_null(const Tensor& t) {
  return t.defined() ? t.data<T>() : nullptr;
}

}  // namespace

void norm_moments(Stream stream, const NormShape& shape, const Tensor& x, Tensor& moments) {
  dispatch_float(x.dtype(), "norm_moments", [&]<class T>() {
    reduce_columns(
        stream, shape.samples, shape.rows, shape.channels,
        ChannelMoments<T>{x.data<T>(), moments.data<double>(), shape.rows, shape.channels});
  });
}

void norm_forward(Stream stream, const NormShape& shape, const FusedActivation& activation,
                  const NormInput& in, Tensor& y) {
  dispatch_float(in.x.dtype(), "norm_forward", [&]<class T>() {
    for_each(stream, shape.numel(),
             ForwardElement<T>{NormFactors<T>(shape, in),
                               in.x.data<T>(),
                               pointer_or_null<T>(in.residual),
                               y.data<T>(),
                               {activation}});
  });
}

void norm_backward_sums(Stream stream, const NormShape& shape, const FusedActivation& activation,
                        const NormInput& in, const Tensor& dy, Tensor& sums, Tensor& dz) {
  dispatch_float(in.x.dtype(), "norm_backward_sums", [&]<class T>() {
    reduce_columns(stream, shape.samples, shape.rows, shape.channels,
                   SumsOfChannel<T>{NormFactors<T>(shape, in),
                                    in.x.data<T>(),
                                    pointer_or_null<T>(in.residual),
                                    dy.data<T>(),
                                    dz.defined() ? dz.data<T>() : nullptr,
                                    sums.data<double>(),
                                    {activation}});
  });
}

void norm_backward_apply(Stream stream, const NormShape& shape, const FusedActivation& activation,
                         const NormInput& in, const Tensor& dy, const Tensor& dz,
                         const Tensor& coefficients, Tensor& dx) {
  // With dz at hand there is no derivative left to take.
  const FusedActivation rest = dz.defined() ? FusedActivation{} : activation;
  const Tensor& source = dz.defined() ? dz : dy;
  dispatch_float(in.x.dtype(), "norm_backward_apply", [&]<class T>() {
    for_each(stream, shape.numel(),
             ApplyElement<T>{NormFactors<T>(shape, in),
                             in.x.data<T>(),
                             pointer_or_null<T>(in.residual),
                             source.data<T>(),
                             coefficients.data<acc_t<T>>(),
                             dx.data<T>(),
                             {rest}});
  });
}

}  // namespace bora::kernels::generic
