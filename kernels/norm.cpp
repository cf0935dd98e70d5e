// SPDX-License-Identifier: Apache-2.0
// The small steps between the passes over x: joining moments, statistics, coefficients.  A few
// thousand numbers, in f64 on both devices.
#include "kernels/norm.hpp"

#include <cmath>

#include "kernels/for_each.hpp"
#include "kernels/norm_checks.hpp"

namespace bora::kernels {
namespace {

void check_moments(const char* op, const Tensor& moments, int64_t samples, int64_t channels) {
  check_norm_tensor(op, moments, {samples, 1 + 2 * channels}, DType::f64, "moments");
}

/// f<float>() or f<double>() by the type of `t`.
template <class F>
void dispatch_parameter(const char* op, const Tensor& t, F&& f) {
  BORA_CHECK(t.dtype() == DType::f32 || t.dtype() == DType::f64, op, ": statistics are ", t.dtype(),
             ", wanted f32 or f64");
  if (t.dtype() == DType::f32)
    f.template operator()<float>();
  else
    f.template operator()<double>();
}

/// mean = out[0] + out[1]: what A cannot hold of the mean goes into the second number.
template <class A>
BORA_HD void store_statistics(double mean, double variance, double eps, A* out) {
  out[0] = static_cast<A>(mean);
  out[1] = static_cast<A>(mean - static_cast<double>(out[0]));
  out[2] = static_cast<A>(1.0 / ::sqrt(variance + eps));
}

/// One channel over all parts, in order.
struct JoinMoments {
  const double* parts;
  double* joined;
  int64_t n_parts, n_channels;

  BORA_HD void operator()(int64_t c) const {
    const int64_t width = 1 + 2 * n_channels;
    double count = 0.0, mean = 0.0, m2 = 0.0;
    for (int64_t i = 0; i < n_parts; ++i) {
      const double* const part = parts + i * width;
      if (part[0] == 0.0) continue;  // an empty rank: its other numbers mean nothing
      const double weight = part[0] / (count + part[0]);
      const double delta = part[1 + c] - mean;
      mean += delta * weight;
      m2 += part[1 + n_channels + c] + delta * delta * (count * weight);
      count += part[0];
    }
    joined[1 + c] = mean;
    joined[1 + n_channels + c] = m2;
    if (c == 0) joined[0] = count;
  }
};

/// One group of one sample.
template <class A>
struct GroupStatistics {
  const double* moments;
  A* statistics;
  int64_t n_channels, groups;
  double eps;

  BORA_HD void operator()(int64_t i) const {
    const int64_t n = i / groups, g = i % groups, per_group = n_channels / groups;
    const double* const row = moments + n * (1 + 2 * n_channels);
    const double* const mean = row + 1 + g * per_group;
    const double* const m2 = mean + n_channels;
    const double count = row[0];
    // All channels have the same count: the mean of means, and Chan's formula summed up.
    double group_mean = 0.0, spread = 0.0, within = 0.0;
    for (int64_t c = 0; c < per_group; ++c) group_mean += mean[c];
    group_mean /= static_cast<double>(per_group);
    for (int64_t c = 0; c < per_group; ++c) {
      const double delta = mean[c] - group_mean;
      spread += delta * delta;
      within += m2[c];
    }
    const double variance = (within / count + spread) / static_cast<double>(per_group);
    if (count > 0.0)
      store_statistics(group_mean, variance, eps, statistics + 3 * i);
    else
      store_statistics(0.0, 0.0, eps, statistics + 3 * i);
  }
};

template <class A>
struct RunningStatistics {
  const A* mean;
  const A* var;
  A* statistics;
  double eps;

  BORA_HD void operator()(int64_t c) const {
    store_statistics(static_cast<double>(mean[c]), static_cast<double>(var[c]), eps,
                     statistics + 3 * c);
  }
};

template <class A>
struct UpdateRunning {
  const double* moments;
  A* mean;
  A* var;
  int64_t n_channels;
  double momentum;

  BORA_HD A step(A value, double now) const {
    return static_cast<A>((1.0 - momentum) * static_cast<double>(value) + momentum * now);
  }
  BORA_HD void operator()(int64_t c) const {
    const double count = moments[0];
    if (count == 0.0) return;
    mean[c] = step(mean[c], moments[1 + c]);
    if (count > 1.0) var[c] = step(var[c], moments[1 + n_channels + c] / (count - 1.0));
  }
};

/// One channel's sum over samples, in order.
template <class A>
struct SumOverSamples {
  const double* sums;  // the first sample's numbers
  A* out;
  int64_t samples, width;
  bool add;

  BORA_HD void operator()(int64_t c) const {
    double total = 0.0;
    for (int64_t n = 0; n < samples; ++n) total += sums[n * width + c];
    out[c] = add ? out[c] + static_cast<A>(total) : static_cast<A>(total);
  }
};

/// dx = rstd (dz gamma - mean(dz gamma) - xhat mean(dz gamma xhat)) as factors of x - mean.
template <class A>
struct Coefficients {
  const double* sums;
  const double* moments;
  const A* statistics;
  const A* gamma;
  A* out;
  int64_t n_channels, groups;

  BORA_HD void operator()(int64_t i) const {
    const int64_t n = i / groups, g = i % groups, per_group = n_channels / groups;
    const double* const s = sums + n * 2 * n_channels;
    double d = 0.0, d_xhat = 0.0;
    for (int64_t c = g * per_group; c < (g + 1) * per_group; ++c) {
      const auto weight = static_cast<double>(gamma[c]);
      d += weight * s[c];
      d_xhat += weight * s[n_channels + c];
    }
    const double size = moments[n * (1 + 2 * n_channels)] * static_cast<double>(per_group);
    const A* const stat = statistics + 3 * i;
    const auto low = static_cast<double>(stat[1]), rstd = static_cast<double>(stat[2]);
    const double c0 = size > 0.0 ? -rstd * rstd * d_xhat / size : 0.0;
    const double c1 = size > 0.0 ? -rstd * d / size - low * c0 : 0.0;
    out[2 * i] = static_cast<A>(c0);
    out[2 * i + 1] = static_cast<A>(c1);
  }
};

}  // namespace

void norm_join_moments(Stream stream, const Tensor& parts, Tensor& joined) {
  BORA_CHECK(
      parts.defined() && parts.rank() == 2 && parts.dtype() == DType::f64 && parts.size(1) % 2 == 1,
      "norm_join_moments: parts is ", parts.shape(), " ", parts.dtype(),
      ", wanted (n, 1 + 2 channels) f64");
  const int64_t n_channels = (parts.size(1) - 1) / 2;
  check_moments("norm_join_moments", joined, 1, n_channels);
  for_each(stream, n_channels,
           JoinMoments{parts.data<double>(), joined.data<double>(), parts.size(0), n_channels});
}

void norm_statistics(Stream stream, const NormShape& shape, double eps, const Tensor& moments,
                     Tensor& statistics) {
  check_moments("norm_statistics", moments, shape.samples, shape.channels);
  BORA_CHECK(eps > 0.0, "norm_statistics: eps is ", eps, ", wanted > 0");
  dispatch_parameter("norm_statistics", statistics, [&]<class A>() {
    check_norm_tensor("norm_statistics", statistics, {shape.samples, shape.groups, 3}, dtype_of<A>,
                      "statistics");
    for_each(stream, shape.samples * shape.groups,
             GroupStatistics<A>{moments.data<double>(), statistics.data<A>(), shape.channels,
                                shape.groups, eps});
  });
}

void norm_running_statistics(Stream stream, double eps, const Tensor& running_mean,
                             const Tensor& running_var, Tensor& statistics) {
  constexpr const char* kOp = "norm_running_statistics";
  BORA_CHECK(eps > 0.0, kOp, ": eps is ", eps, ", wanted > 0");
  dispatch_parameter(kOp, statistics, [&]<class A>() {
    const int64_t n_channels = running_mean.numel();
    check_norm_tensor(kOp, running_mean, {n_channels}, dtype_of<A>, "running_mean");
    check_norm_tensor(kOp, running_var, {n_channels}, dtype_of<A>, "running_var");
    check_norm_tensor(kOp, statistics, {1, n_channels, 3}, dtype_of<A>, "statistics");
    for_each(stream, n_channels,
             RunningStatistics<A>{running_mean.data<A>(), running_var.data<A>(),
                                  statistics.data<A>(), eps});
  });
}

void norm_update_running(Stream stream, double momentum, const Tensor& moments,
                         Tensor& running_mean, Tensor& running_var) {
  constexpr const char* kOp = "norm_update_running";
  dispatch_parameter(kOp, running_mean, [&]<class A>() {
    const int64_t n_channels = running_mean.numel();
    check_norm_tensor(kOp, running_mean, {n_channels}, dtype_of<A>, "running_mean");
    check_norm_tensor(kOp, running_var, {n_channels}, dtype_of<A>, "running_var");
    check_moments(kOp, moments, 1, n_channels);
    for_each(stream, n_channels,
             UpdateRunning<A>{moments.data<double>(), running_mean.data<A>(), running_var.data<A>(),
                              n_channels, momentum});
  });
}

void norm_parameter_gradients(Stream stream, const NormShape& shape, const Tensor& sums,
                              Tensor& dgamma, GradientMode gamma_mode, Tensor& dbeta,
                              GradientMode beta_mode) {
  constexpr const char* kOp = "norm_parameter_gradients";
  const int64_t n_channels = shape.channels;
  check_norm_tensor(kOp, sums, {shape.samples, 2 * n_channels}, DType::f64, "sums");
  const auto write = [&](Tensor& out, GradientMode mode, int64_t first, const char* name) {
    if (!out.defined()) return;
    dispatch_parameter(kOp, out, [&]<class A>() {
      check_norm_tensor(kOp, out, {n_channels}, dtype_of<A>, name);
      for_each(
          stream, n_channels,
          SumOverSamples<A>{sums.data<double>() + (shape.samples > 0 ? first : 0), out.data<A>(),
                            shape.samples, 2 * n_channels, mode == GradientMode::add});
    });
  };
  write(dgamma, gamma_mode, n_channels, "dgamma");
  write(dbeta, beta_mode, 0, "dbeta");
}

void norm_backward_coefficients(Stream stream, const NormShape& shape, const Tensor& sums,
                                const Tensor& moments, const Tensor& statistics,
                                const Tensor& gamma, Tensor& coefficients) {
  constexpr const char* kOp = "norm_backward_coefficients";
  const int64_t n_channels = shape.channels;
  check_norm_tensor(kOp, sums, {shape.samples, 2 * n_channels}, DType::f64, "sums");
  check_moments(kOp, moments, shape.samples, n_channels);
  dispatch_parameter(kOp, coefficients, [&]<class A>() {
    check_norm_tensor(kOp, statistics, {shape.samples, shape.groups, 3}, dtype_of<A>, "statistics");
    check_norm_tensor(kOp, gamma, {n_channels}, dtype_of<A>, "gamma");
    check_norm_tensor(kOp, coefficients, {shape.samples, shape.groups, 2}, dtype_of<A>,
                      "coefficients");
    for_each(stream, shape.samples * shape.groups,
             Coefficients<A>{sums.data<double>(), moments.data<double>(), statistics.data<A>(),
                             gamma.data<A>(), coefficients.data<A>(), n_channels, shape.groups});
  });
}

}  // namespace bora::kernels
