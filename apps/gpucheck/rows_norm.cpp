// SPDX-License-Identifier: Apache-2.0
// Rows of kernels/norm.hpp: group norm with leaky ReLU and a residual, batch norm's own kernels.
#include "apps/gpucheck/compare.hpp"
#include "apps/gpucheck/kernel_table.hpp"
#include "kernels/norm_pool.hpp"
#include "kernels/pool3d.hpp"

namespace bora::gpucheck {
namespace {

namespace k = kernels;

constexpr double kEps = 1e-5;
const k::FusedActivation kLeaky{k::ActivationKind::leaky_relu, 0.01};

k::NormShape group_shape(const Shape& s) {
  const int64_t channels = s[4];
  return {.samples = s[0],
          .rows = s[1] * s[2] * s[3],
          .channels = channels,
          .groups = channels % 4 == 0 ? channels / 4 : channels};
}

/// What every stage of a norm starts from.
struct Norm {
  k::NormShape shape;
  Tensor x, gamma, beta, residual, moments, statistics, dy;

  Norm(KernelRun& r, const Shape& s) : shape(group_shape(s)) {
    x = r.input(s);
    gamma = r.input({s[4]}, Role::accumulator, Fill::positive);
    beta = r.input({s[4]}, Role::accumulator);
    residual = r.input(s);
    moments = r.scratch({shape.samples, 1 + 2 * shape.channels}, Role::f64);
    k::norm_moments(r.stream(), shape, x, moments);
    statistics = r.scratch({shape.samples, shape.groups, 3}, Role::accumulator);
    k::norm_statistics(r.stream(), shape, kEps, moments, statistics);
    dy = r.input(s);
  }
  k::NormInput input() const { return {x, statistics, gamma, beta, residual}; }
  // What all elementwise passes read beside the volumes is small: left out of the byte counts.
};

void moments(KernelRun& r, const Shape& s) {
  const k::NormShape shape = group_shape(s);
  const Tensor x = r.input(s);
  Tensor out = r.output({shape.samples, 1 + 2 * shape.channels}, Role::f64);
  r.call([&] { k::norm_moments(r.stream(), shape, x, out); });
}

void join(KernelRun& r, const Shape& s) {
  // Columns are count, means, squared distances: positive will do for all.
  const Tensor parts = r.input({3, 1 + 2 * s[4]}, Role::f64, Fill::positive);
  Tensor joined = r.output({1, 1 + 2 * s[4]}, Role::f64);
  r.call([&] { k::norm_join_moments(r.stream(), parts, joined); });
}

void statistics(KernelRun& r, const Shape& s) {
  const k::NormShape shape = group_shape(s);
  const Tensor x = r.input(s);
  Tensor m = r.scratch({shape.samples, 1 + 2 * shape.channels}, Role::f64);
  k::norm_moments(r.stream(), shape, x, m);
  // Column 1 is what rounding cut off the mean: of another size in the f64 reference.
  Tensor out = r.scratch({shape.samples, shape.groups, 3}, Role::accumulator);
  r.moves({m, out});
  r.call([&] { k::norm_statistics(r.stream(), shape, kEps, m, out); });
  Tensor mean = r.output({shape.samples * shape.groups}, Role::f64);
  Tensor rstd = r.output({shape.samples * shape.groups}, Role::f64);
  const Tensor host = out.to(cpu()).to(DType::f64);
  std::vector<double> v = host.to_vector<double>(), means, rstds;
  for (size_t i = 0; i + 2 < v.size(); i += 3) {
    means.push_back(v[i] + v[i + 1]);
    rstds.push_back(v[i + 2]);
  }
  mean.copy_from(Tensor::from<double>(mean.shape(), means));
  rstd.copy_from(Tensor::from<double>(rstd.shape(), rstds));
}

void running_statistics(KernelRun& r, const Shape& s) {
  const Tensor mean = r.input({s[4]}, Role::accumulator);
  const Tensor var = r.input({s[4]}, Role::accumulator, Fill::positive);
  Tensor out = r.output({1, s[4], 3}, Role::accumulator);
  r.call([&] { k::norm_running_statistics(r.stream(), kEps, mean, var, out); });
}

void update_running(KernelRun& r, const Shape& s) {
  const k::NormShape shape{1, s[0] * s[1] * s[2] * s[3], s[4], s[4]};
  const Tensor x = r.input(s);
  Tensor m = r.scratch({1, 1 + 2 * s[4]}, Role::f64);
  k::norm_moments(r.stream(), shape, x, m);
  Tensor mean = r.inout(r.input({s[4]}, Role::accumulator));
  Tensor var = r.inout(r.input({s[4]}, Role::accumulator, Fill::positive));
  r.moves({m, mean, mean, var, var});
  r.call([&] { k::norm_update_running(r.stream(), 0.1, m, mean, var); });
}

void forward(KernelRun& r, const Shape& s) {
  const Norm n(r, s);
  Tensor y = r.output(s);
  r.moves({n.x, n.residual, y});
  r.call([&] { k::norm_forward(r.stream(), n.shape, kLeaky, n.input(), y); });
}

void backward_sums(KernelRun& r, const Shape& s) {
  const Norm n(r, s);
  Tensor sums = r.output({n.shape.samples, 2 * n.shape.channels}, Role::f64);
  Tensor dz;
  r.moves({n.x, n.residual, n.dy});
  r.call([&] { k::norm_backward_sums(r.stream(), n.shape, kLeaky, n.input(), n.dy, sums, dz); });
}

Tensor sums_of(KernelRun& r, const Norm& n) {
  Tensor sums = r.scratch({n.shape.samples, 2 * n.shape.channels}, Role::f64);
  Tensor dz;
  k::norm_backward_sums(r.stream(), n.shape, kLeaky, n.input(), n.dy, sums, dz);
  return sums;
}

void parameter_gradients(KernelRun& r, const Shape& s) {
  const Norm n(r, s);
  const Tensor sums = sums_of(r, n);
  Tensor dgamma = r.inout(r.input({s[4]}, Role::accumulator));
  Tensor dbeta = r.output({s[4]}, Role::accumulator);
  r.moves({sums, dgamma, dgamma, dbeta});
  r.call([&] {
    k::norm_parameter_gradients(r.stream(), n.shape, sums, dgamma, k::GradientMode::add, dbeta,
                                k::GradientMode::overwrite);
  });
}

Tensor coefficients_of(KernelRun& r, const Norm& n, const Tensor& sums) {
  Tensor c = r.scratch({n.shape.samples, n.shape.groups, 2}, Role::accumulator);
  k::norm_backward_coefficients(r.stream(), n.shape, sums, n.moments, n.statistics, n.gamma, c);
  return c;
}

void coefficients(KernelRun& r, const Shape& s) {
  const Norm n(r, s);
  const Tensor sums = sums_of(r, n);
  Tensor c = r.output({n.shape.samples, n.shape.groups, 2}, Role::accumulator);
  r.moves({sums, n.moments, n.statistics, c});
  r.call([&] {
    k::norm_backward_coefficients(r.stream(), n.shape, sums, n.moments, n.statistics, n.gamma, c);
  });
}

void backward_apply(KernelRun& r, const Shape& s) {
  const Norm n(r, s);
  const Tensor sums = sums_of(r, n);
  const Tensor c = coefficients_of(r, n, sums);
  Tensor dx = r.output(s);
  r.moves({n.x, n.residual, n.dy, dx});
  r.call([&] {
    k::norm_backward_apply(r.stream(), n.shape, kLeaky, n.input(), n.dy, Tensor(), c, dx);
  });
}

Shape pooled(const Shape& s) { return {s[0], s[1] / 2, s[2] / 2, s[3] / 2, s[4]}; }
k::NormInput without_residual(const Norm& n) {
  static const Tensor none;
  return {n.x, n.statistics, n.gamma, n.beta, none};
}

/// Winners are compared with those of the two kernels that it joins: against f64 they may differ
/// where two cells round to the same number.
void forward_pool(KernelRun& r, const Shape& s) {
  const Norm n(r, s);
  Tensor y = r.output(s), small = r.output(pooled(s)), winner = r.scratch(pooled(s), Role::u8);
  r.moves({n.x, n.residual, y, small, winner});
  r.call([&] { k::norm_forward_pool(r.stream(), n.shape, kLeaky, n.input(), y, small, winner); });
  if (!r.checks()) return;
  Tensor y2 = r.scratch(s), small2 = r.scratch(pooled(s)), winner2 = r.scratch(pooled(s), Role::u8);
  k::norm_forward(r.stream(), n.shape, kLeaky, n.input(), y2);
  k::max_pool3d_forward(r.stream(), {}, y2, small2, winner2);
  BORA_CHECK(same_bits(y, y2) && same_bits(small, small2) && same_bits(winner, winner2),
             "norm_forward_pool: not the bits of norm_forward and max_pool3d_forward");
}

/// Gradients of a result and of its pooled copy; any place of a window may have won.
struct PoolGradient {
  Tensor dpooled, winner;
  PoolGradient(KernelRun& r, const Shape& s)
      : dpooled(r.input(pooled(s))), winner(r.input(pooled(s), Role::u8, Fill::labels)) {}
};

void pool_backward_sums(KernelRun& r, const Shape& s) {
  const Norm n(r, s);
  const PoolGradient g(r, s);
  Tensor sums = r.output({n.shape.samples, 2 * n.shape.channels}, Role::f64);
  r.moves({n.x, n.dy, g.dpooled, g.winner});
  r.call([&] {
    k::norm_pool_backward_sums(r.stream(), n.shape, kLeaky, without_residual(n),
                               {n.dy, g.dpooled, g.winner}, sums);
  });
}

void pool_backward_apply(KernelRun& r, const Shape& s) {
  const Norm n(r, s);
  const PoolGradient g(r, s);
  const k::NormPoolGradient gradient{n.dy, g.dpooled, g.winner};
  Tensor sums = r.scratch({n.shape.samples, 2 * n.shape.channels}, Role::f64);
  k::norm_pool_backward_sums(r.stream(), n.shape, kLeaky, without_residual(n), gradient, sums);
  const Tensor c = coefficients_of(r, n, sums);
  Tensor dx = r.output(s);
  r.moves({n.x, n.dy, g.dpooled, g.winner, dx});
  r.call([&] {
    k::norm_pool_backward_apply(r.stream(), n.shape, kLeaky, without_residual(n), gradient, c, dx);
  });
}

}  // namespace

std::vector<Row> norm_rows() {
  // A group's sums have up to 10^4 terms here, joined as trees: 64 roundings cover them.
  // Amplification: one cell alone in its group has variance 0, and 1 / sqrt(eps) = 316 multiplies
  // what rounding left of x - mean; sums of gradients cancel.
  return {
      {.name = "norm_moments", .run = moments, .roundings = 64, .amplification = 4},
      {.name = "norm_join_moments", .run = join, .roundings = 16},
      {.name = "norm_statistics", .run = statistics, .roundings = 64, .amplification = 4},
      {.name = "norm_running_statistics", .run = running_statistics, .roundings = 16},
      {.name = "norm_update_running", .run = update_running, .roundings = 64},
      {.name = "norm_forward",
       .run = forward,
       .roundings = 64,
       .amplification = 8,
       .per_sample = true},
      {.name = "norm_backward_sums", .run = backward_sums, .roundings = 64, .amplification = 16},
      {.name = "norm_parameter_gradients",
       .run = parameter_gradients,
       .roundings = 64,
       .amplification = 16},
      {.name = "norm_backward_coefficients",
       .run = coefficients,
       .roundings = 64,
       .amplification = 64},
      {.name = "norm_forward_pool",
       .run = forward_pool,
       .roundings = 64,
       .amplification = 8,
       .least_extent = 2},
      // The sum of both gradients may be rounded to the type of x once more.
      {.name = "norm_pool_backward_sums",
       .run = pool_backward_sums,
       .roundings = 64,
       .amplification = 16,
       .least_extent = 2,
       .stores_between = 1},
      {.name = "norm_pool_backward_apply",
       .run = pool_backward_apply,
       .roundings = 64,
       .amplification = 16,
       .least_extent = 2,
       .stores_between = 1},
      {.name = "norm_backward_apply",
       .run = backward_apply,
       .roundings = 64,
       .amplification = 16,
       .per_sample = true,
       // A cell alone in its group has gradient 0: nothing to hold rounding against.
       .least_extent = 2}};
}

}  // namespace bora::gpucheck
