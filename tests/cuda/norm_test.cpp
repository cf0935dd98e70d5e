// SPDX-License-Identifier: Apache-2.0
// kernels/cuda/norm*: against the definition in f64; bits by shape alone.
#include "kernels/norm.hpp"
#include "kernels/norm_pool.hpp"
#include "kernels/pool3d.hpp"

#include "tests/cuda/device_case.hpp"

namespace bora::kernels {
namespace {

using namespace bora::test;  // NOLINT: the support of this suite

struct Case {
  NormShape shape;
  FusedActivation activation;
  bool residual = false, keep_dz = false;
  int64_t shift = 0;  // of all large arrays from an aligned address
};

/// What a norm gives, from tensors on the device.
struct Data {
  Tensor x, residual, dy, gamma, beta;
  DType wide;

  Data(const Case& c, DType type) : wide(type == DType::f64 ? type : DType::f32) {
    const NormShape& s = c.shape;
    const Shape shape{s.samples, s.rows, s.channels};
    std::vector<double> values = normal_values(s.numel(), 1);
    for (double& v : values) v = 3.0 + 0.5 * v;
    x = on_device(shape, values, type, c.shift);
    dy = on_device(shape, normal_values(s.numel(), 2), type, c.shift);
    if (c.residual) residual = on_device(shape, off_zero_values(s.numel(), 3), type, c.shift);
    gamma = on_device({s.channels}, uniform_values(s.channels, 0.5, 1.5, 4), wide);
    beta = on_device({s.channels}, normal_values(s.channels, 5), wide);
  }
};

/// y, dx, moments, sums, dgamma, dbeta (and dz) by the device.
std::vector<Tensor> run(const Case& c, const Data& d) {
  const NormShape& s = c.shape;
  const Stream stream = device_stream();
  const DType type = d.x.dtype();
  Tensor moments = empty_on_device({s.samples, 1 + 2 * s.channels}, DType::f64);
  Tensor statistics = empty_on_device({s.samples, s.groups, 3}, d.wide);
  Tensor y = empty_on_device(d.x.shape(), type, c.shift),
         dx = empty_on_device(d.x.shape(), type, c.shift);
  Tensor dz = c.keep_dz ? empty_on_device(d.x.shape(), type, c.shift) : Tensor();
  Tensor sums = empty_on_device({s.samples, 2 * s.channels}, DType::f64);
  Tensor dgamma = empty_on_device({s.channels}, d.wide),
         dbeta = empty_on_device({s.channels}, d.wide);
  Tensor coefficients = empty_on_device({s.samples, s.groups, 2}, d.wide);
  norm_moments(stream, s, d.x, moments);
  norm_statistics(stream, s, 1e-5, moments, statistics);
  const NormInput in{d.x, statistics, d.gamma, d.beta, d.residual};
  norm_forward(stream, s, c.activation, in, y);
  norm_backward_sums(stream, s, c.activation, in, d.dy, sums, dz);
  norm_parameter_gradients(stream, s, sums, dgamma, GradientMode::overwrite, dbeta,
                           GradientMode::overwrite);
  norm_backward_coefficients(stream, s, sums, moments, statistics, d.gamma, coefficients);
  norm_backward_apply(stream, s, c.activation, in, d.dy, dz, coefficients, dx);
  std::vector<Tensor> out{y, dx, moments, sums, dgamma, dbeta};
  if (c.keep_dz) out.push_back(dz);
  return out;
}

double activate(const FusedActivation& a, double z, bool derivative) {
  const AnyActivationAt act{a};
  return derivative ? act.derivative(z) : act.value(z);
}

/// The same by definition, in f64.
struct Reference {
  std::vector<double> y, dx, dgamma, dbeta, mean, m2;

  Reference(const Case& c, const Data& d) {
    const NormShape& s = c.shape;
    const std::vector<double> x = host_values(d.x), dy = host_values(d.dy),
                              gamma = host_values(d.gamma), beta = host_values(d.beta),
                              residual = c.residual ? host_values(d.residual) : dy;
    y.resize(x.size());
    dx.resize(x.size());
    std::vector<double> dz(x.size()), xhat(x.size());
    const auto n_channels = static_cast<size_t>(s.channels);
    dgamma.resize(n_channels);
    dbeta.resize(n_channels);
    const int64_t per_group = s.group_channels();
    for (int64_t n = 0; n < s.samples; ++n)
      for (int64_t g = 0; g < s.groups; ++g) {
        const auto visit = [&](const auto& f) {
          for (int64_t r = 0; r < s.rows; ++r)
            for (int64_t k = g * per_group; k < (g + 1) * per_group; ++k)
              f(static_cast<size_t>((n * s.rows + r) * s.channels + k), static_cast<size_t>(k));
        };
        const auto count = static_cast<double>(s.rows * per_group);
        double group_mean = 0, variance = 0, d_sum = 0, d_xhat = 0;
        visit([&](size_t i, size_t) { group_mean += x[i] / count; });
        visit([&](size_t i, size_t) { variance += std::pow(x[i] - group_mean, 2) / count; });
        const double rstd = 1.0 / std::sqrt(variance + 1e-5);
        visit([&](size_t i, size_t k) {
          xhat[i] = (x[i] - group_mean) * rstd;
          const double z = xhat[i] * gamma[k] + beta[k] + (c.residual ? residual[i] : 0.0);
          y[i] = activate(c.activation, z, false);
          dz[i] = dy[i] * activate(c.activation, z, true);
          dgamma[k] += dz[i] * xhat[i];
          dbeta[k] += dz[i];
          d_sum += dz[i] * gamma[k];
          d_xhat += dz[i] * gamma[k] * xhat[i];
        });
        visit([&](size_t i, size_t k) {
          dx[i] = rstd * (dz[i] * gamma[k] - d_sum / count - xhat[i] * d_xhat / count);
        });
      }
    for (int64_t n = 0; n < s.samples; ++n)
      for (int64_t k = 0; k < s.channels; ++k) {
        double channel_mean = 0, channel_m2 = 0;
        const auto at = [&](int64_t r) {
          return x[static_cast<size_t>((n * s.rows + r) * s.channels + k)];
        };
        for (int64_t r = 0; r < s.rows; ++r) channel_mean += at(r) / static_cast<double>(s.rows);
        for (int64_t r = 0; r < s.rows; ++r) channel_m2 += std::pow(at(r) - channel_mean, 2);
        mean.push_back(channel_mean);
        m2.push_back(channel_m2);
      }
  }
};

void check(const Case& c, DType type) {
  SCOPED_TRACE(testing::Message() << name_of(type) << " " << c.shape.samples << " x "
                                  << c.shape.rows << " x " << c.shape.channels << ", "
                                  << c.shape.groups << " groups, activation "
                                  << static_cast<int>(c.activation.kind) << ", residual "
                                  << c.residual << ", dz " << c.keep_dz << ", shift " << c.shift);
  const Data d(c, type);
  const Reference want(c, d);
  const std::vector<Tensor> got = under_all_schedules([&] { return run(c, d); });
  const NormShape& s = c.shape;
  // A dozen roundings of numbers around the largest, two stores (dz may be one).  Values are near
  // 3 with deviation 0.5, which takes another factor of 6 where x - mean is formed.
  const auto bound = [&](const std::vector<double>& v, double n) {
    return relative_bound(type, 6 * n, 2) * (1.0 + max_abs(v));
  };
  EXPECT_EQ("", differences(host_values(got[0]), want.y, bound(want.y, 12)));
  // Where rows are few, rstd is large and dx the small rest of large terms.
  const double spread = max_abs(want.dx) + (s.rows < 8 ? 400.0 : 8.0);
  EXPECT_EQ("", differences(host_values(got[1]), want.dx, relative_bound(type, 100, 3) * spread));
  const std::vector<double> moments = host_values(got[2]);
  const DType arithmetic = arithmetic_type(type);
  const double own = gamma(static_cast<double>(s.rows), DType::f64);  // of the reference
  for (int64_t n = 0; n < s.samples; ++n)
    for (int64_t k = 0; k < s.channels; ++k) {
      const auto row = static_cast<size_t>(n * (1 + 2 * s.channels));
      const auto i = static_cast<size_t>(n * s.channels + k), channel = static_cast<size_t>(k);
      EXPECT_EQ(static_cast<double>(s.rows), moments[row]);
      EXPECT_NEAR(want.mean[i], moments[row + 1 + channel], gamma(8, arithmetic) * 2.0 + own * 4.0);
      EXPECT_NEAR(want.m2[i], moments[row + 1 + static_cast<size_t>(s.channels) + channel],
                  (gamma(64, arithmetic) + 2 * own) * (want.m2[i] + 1e-3));
    }
  // Sums of `rows` terms of magnitude up to 4, each with a relative error of some 30 roundings.
  const double terms = static_cast<double>(s.samples * s.rows) * 4.0 + 1.0;
  const double sum_bound = (gamma(60, arithmetic) + own) * terms * (s.rows < 8 ? 100.0 : 1.0);
  EXPECT_EQ("", differences(host_values(got[4]), want.dgamma, sum_bound));
  EXPECT_EQ("", differences(host_values(got[5]), want.dbeta, sum_bound));
}

class CudaNorm : public OnDevice {};

TEST_F(CudaNorm, MatchesF64ForAnyNumberOfChannels) {
  const FusedActivation relu{ActivationKind::leaky_relu, 0.1};
  for (const DType type : kDeviceFloats)
    for (const int64_t channels : kChannelCounts)
      check({{2, 131, channels, channels}, relu, channels % 2 == 1, channels % 3 == 0}, type);
}

// Rows of one batch, of a cut pack, of several slabs; groups of several channels; more lanes than a
// block.
TEST_F(CudaNorm, MatchesF64AtOddSizesAndGroups) {
  const FusedActivation silu{ActivationKind::silu, 0};
  for (const DType type : {DType::f16, DType::f32}) {
    for (const int64_t rows : {1, 2, 3, 5, 7, 8, 9, 63, 65}) check({{1, rows, 3, 1}, silu}, type);
    check({{3, 1, 5, 5}, {}}, type);
    check({{2, 5000, 8, 2}, silu, true}, type);
    check({{1, 9001, 6, 3}, silu, false, true}, type);
    check({{2, 33, 32, 8}, silu, true}, type);
    check({{1, 7, 321, 3}, silu}, type);
    check({{1, 5, 2100, 7}, silu}, type);
  }
}

TEST_F(CudaNorm, AllActivationsMatchF64) {
  for (const DType type : kDeviceFloats)
    for (const auto kind : {ActivationKind::identity, ActivationKind::relu,
                            ActivationKind::leaky_relu, ActivationKind::silu, ActivationKind::gelu,
                            ActivationKind::sigmoid, ActivationKind::tanh})
      check({{1, 100, 16, 4}, {kind, 0.2}, true, kind == ActivationKind::gelu}, type);
}

TEST_F(CudaNorm, BitsDoNotDependOnAlignment) {
  for (const DType type : kDeviceFloats)
    for (const int64_t channels : {1, 3, 8, 24}) {
      Case c{{2, 1000, channels, 1}, {ActivationKind::relu, 0}, true, true};
      const std::vector<Tensor> aligned = run(c, Data(c, type));
      c.shift = 1;
      const std::vector<Tensor> shifted = run(c, Data(c, type));
      for (size_t i = 0; i < aligned.size(); ++i)
        EXPECT_TRUE(host_bytes(aligned[i]) == host_bytes(shifted[i]))
            << type << " " << channels << " result " << i << ": "
            << differences(host_values(shifted[i]), host_values(aligned[i]), 0.0);
    }
}

TEST_F(CudaNorm, EmptyInputsGiveEmptyMoments) {
  Tensor moments = on_device({2, 7}, std::vector<double>(14, 5.0), DType::f64);
  norm_moments(device_stream(), {2, 0, 3, 1}, empty_on_device({2, 0, 3}, DType::f16), moments);
  EXPECT_EQ(0.0, max_abs(host_values(moments)));
}

// A thread far from the others' mean, a jump, an offset of 1e4 with deviation 1.
TEST_F(CudaNorm, HardDataKeepsItsVariance) {
  const int64_t rows = 20000;
  for (const int kind : {0, 1, 2}) {
    std::vector<double> values = normal_values(rows, 6);
    for (int64_t r = 0; r < rows; ++r)
      values[static_cast<size_t>(r)] += kind == 2 || (kind == 1 && r >= rows / 2) ? 1e4 : 0.0;
    if (kind == 0) values[0] = 1e4;
    const Tensor x = on_device({1, rows, 1}, values, DType::f32);
    const std::vector<double> stored = host_values(x);
    double mean = 0, m2 = 0;
    for (const double v : stored) mean += v / static_cast<double>(rows);
    for (const double v : stored) m2 += (v - mean) * (v - mean);
    Tensor moments = empty_on_device({1, 3}, DType::f64);
    norm_moments(device_stream(), {1, rows, 1, 1}, x, moments);
    const std::vector<double> got = host_values(moments);
    // In units of the deviation, which the jump makes 5000.
    EXPECT_NEAR(mean, got[1], 1e-6 * std::sqrt(m2 / static_cast<double>(rows))) << kind;
    EXPECT_NEAR(m2, got[2], 1e-5 * m2) << kind;
  }
}

TEST_F(CudaNorm, NanAndInfinityStay) {
  for (const double bad : {HUGE_VAL, std::nan("")}) {
    std::vector<double> values = normal_values(300, 8);
    values[150] = bad;  // channel 0
    const Tensor x = on_device({1, 100, 3}, values, DType::f16);
    Tensor moments = empty_on_device({1, 7}, DType::f64);
    norm_moments(device_stream(), {1, 100, 3, 3}, x, moments);
    const std::vector<double> got = host_values(moments);
    EXPECT_FALSE(std::isfinite(got[1]));
    EXPECT_TRUE(std::isnan(got[4]));
    for (const int i : {2, 3, 5, 6}) EXPECT_TRUE(std::isfinite(got[static_cast<size_t>(i)])) << i;
  }
}

// The two calls one after the other are the reference: y, pooled and winner bit by bit.
TEST_F(CudaNorm, PoolsOnTheWayAsTheTwoCallsDo) {
  for (const DType type : kDeviceFloats)
    for (const Dims3 size : {Dims3{2, 2, 2}, Dims3{4, 6, 2}, Dims3{5, 3, 7}})
      for (const int64_t channels : {3, 8, 24})
        for (const bool batch_norm : {false, true}) {
          SCOPED_TRACE(testing::Message() << type << " " << size << " " << channels);
          const int64_t n = 2, cells = size.count();
          const NormShape s = batch_norm ? NormShape{1, n * cells, channels, channels}
                                         : NormShape{n, cells, channels, 1};
          const FusedActivation relu{ActivationKind::relu, 0};
          const Shape shape{n, size.d, size.h, size.w, channels};
          const Shape half{n, size.d / 2, size.h / 2, size.w / 2, channels};
          const DType wide = type == DType::f64 ? type : DType::f32;
          const Tensor x = on_device(shape, normal_values(shape.numel(), 1), type);
          const Tensor residual = on_device(shape, normal_values(shape.numel(), 2), type);
          const Tensor dy = on_device(shape, normal_values(shape.numel(), 3), type);
          const Tensor dpooled = on_device(half, normal_values(half.numel(), 4), type);
          const Tensor gamma = on_device({channels}, uniform_values(channels, 0.5, 1.5, 5), wide);
          const Tensor beta = on_device({channels}, normal_values(channels, 6), wide);
          const Stream stream = device_stream();
          Tensor moments = empty_on_device({s.samples, 1 + 2 * channels}, DType::f64);
          Tensor statistics = empty_on_device({s.samples, s.groups, 3}, wide);
          norm_moments(stream, s, x, moments);
          norm_statistics(stream, s, 1e-5, moments, statistics);
          Tensor y = empty_on_device(shape, type), pooled = empty_on_device(half, type),
                 winner = empty_on_device(half, DType::u8);
          norm_forward(stream, s, relu, {x, statistics, gamma, beta, residual}, y);
          max_pool3d_forward(stream, {}, y, pooled, winner);
          const std::vector<Tensor> got = under_all_schedules([&] {
            Tensor y2 = empty_on_device(shape, type), pooled2 = empty_on_device(half, type),
                   winner2 = empty_on_device(half, DType::u8);
            norm_forward_pool(stream, s, relu, {x, statistics, gamma, beta, residual}, y2, pooled2,
                              winner2);
            return std::vector<Tensor>{y2, pooled2, winner2};
          });
          EXPECT_TRUE(host_bytes(y) == host_bytes(got[0]));
          EXPECT_TRUE(host_bytes(pooled) == host_bytes(got[1]));
          EXPECT_TRUE(host_bytes(winner) == host_bytes(got[2]));

          // Back: against the sum of both gradients as a tensor.
          const NormInput in{x, statistics, gamma, beta, Tensor()};
          for (const bool skip : {false, true}) {
            Tensor total = skip ? dy.clone() : empty_on_device(shape, type);
            max_pool3d_backward(stream, {}, dpooled, winner,
                                skip ? GradientMode::add : GradientMode::overwrite, total);
            Tensor sums = empty_on_device({s.samples, 2 * channels}, DType::f64), none,
                   dx = empty_on_device(shape, type);
            Tensor coefficients = empty_on_device({s.samples, s.groups, 2}, wide);
            norm_backward_sums(stream, s, relu, in, total, sums, none);
            norm_backward_coefficients(stream, s, sums, moments, statistics, gamma, coefficients);
            norm_backward_apply(stream, s, relu, in, total, none, coefficients, dx);
            const std::vector<Tensor> back = under_all_schedules([&] {
              Tensor sums2 = empty_on_device({s.samples, 2 * channels}, DType::f64),
                     dx2 = empty_on_device(shape, type);
              const NormPoolGradient gradient{skip ? dy : none, dpooled, winner};
              norm_pool_backward_sums(stream, s, relu, in, gradient, sums2);
              norm_pool_backward_apply(stream, s, relu, in, gradient, coefficients, dx2);
              return std::vector<Tensor>{sums2, dx2};
            });
            // The reference rounds the sum of two gradients once more, each of magnitude up to 4.
            const auto rows = static_cast<double>(s.rows);
            EXPECT_EQ("", differences(host_values(back[0]), host_values(sums),
                                      relative_bound(type, 4) * 32.0 * rows));
            const std::vector<double> want = host_values(dx);
            EXPECT_EQ("", differences(host_values(back[1]), want,
                                      relative_bound(type, 8, 3) * (8.0 + 4.0 * max_abs(want))));
          }
        }
}

}  // namespace
}  // namespace bora::kernels
