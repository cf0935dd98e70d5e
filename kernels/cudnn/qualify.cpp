// SPDX-License-Identifier: Apache-2.0
#include "kernels/cudnn/qualify.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/rng.hpp"

namespace bora::kernels::cudnn {
namespace {

double unit_roundoff(DType type) {
  switch (type) {
    case DType::f16:
      return 0x1p-11;
    case DType::bf16:
      return 0x1p-8;
    default:
      return 0x1p-24;
  }
}

/// Position with coordinates `at` in memory order.
int64_t position(const Shape& shape, const int64_t (&at)[5]) {
  int64_t p = 0;
  for (int i = 0; i < 5; ++i) p = p * shape[i] + at[i];
  return p;
}

std::string place_text(const Shape& shape, int64_t p) {
  int64_t at[5];
  for (int i = 4; i >= 0; --i) {
    at[i] = p % shape[i];
    p /= shape[i];
  }
  return detail::join('(', at[0], ", ", at[1], ", ", at[2], ", ", at[3], ", ", at[4], ") of ",
                      shape);
}

}  // namespace

std::vector<int64_t> sample_positions(const Shape& shape, int64_t count, uint64_t seed) {
  BORA_CHECK(shape.rank() == 5 && shape.numel() > 0, "sample_positions: ", shape,
             ", wanted 5 axes, none empty");
  std::vector<int64_t> positions;
  if (shape.numel() <= count) {
    for (int64_t i = 0; i < shape.numel(); ++i) positions.push_back(i);
    return positions;
  }
  for (int corner = 0; corner < 32; ++corner) {
    int64_t at[5];
    for (int i = 0; i < 5; ++i) at[i] = corner >> i & 1 ? shape[i] - 1 : 0;
    positions.push_back(position(shape, at));
  }
  // A quarter on faces, the rest anywhere.
  const RngKey key{seed, rng_stream("cudnn.samples")};
  uint64_t draw = 0;
  const auto below = [&](int64_t n) {
    return static_cast<int64_t>(key.below(static_cast<uint64_t>(n), draw++));
  };
  for (int64_t j = 0; j < count / 4; ++j) {
    int64_t at[5];
    for (int i = 0; i < 5; ++i) at[i] = below(shape[i]);
    const int axis = static_cast<int>(j % 5);
    at[axis] = j / 5 % 2 ? shape[axis] - 1 : 0;
    positions.push_back(position(shape, at));
  }
  while (static_cast<int64_t>(positions.size()) < count) positions.push_back(below(shape.numel()));
  std::sort(positions.begin(), positions.end());
  positions.erase(std::unique(positions.begin(), positions.end()), positions.end());
  return positions;
}

int64_t terms_of(const ConvKey& key) {
  const ConvProblem& p = key.problem;
  const int64_t taps = p.kernel[0] * p.kernel[1] * p.kernel[2];
  switch (key.pass) {
    case ConvPass::forward:
      return taps * (p.c_in / p.groups);
    case ConvPass::backward_data:
      return taps * (p.c_out / p.groups);
    case ConvPass::backward_weights:
      return p.n * p.out[0] * p.out[1] * p.out[2];
  }
  return 0;
}

int64_t sample_count(const ConvKey& key) {
  return std::clamp<int64_t>((int64_t{1} << 29) / std::max<int64_t>(1, terms_of(key)), 64, 4096);
}

double allowed_difference(double want, DType type, int64_t terms) {
  return 1.01 * unit_roundoff(type) * std::abs(want) +
         0x1p-18 * std::sqrt(static_cast<double>(terms));
}

PassShapes shapes_of(const ConvKey& key) {
  const ConvProblem& p = key.problem;
  const Shape x{p.n, p.in[0], p.in[1], p.in[2], p.c_in};
  const Shape w{p.c_out, p.kernel[0], p.kernel[1], p.kernel[2], p.c_in / p.groups};
  const Shape y{p.n, p.out[0], p.out[1], p.out[2], p.c_out};
  switch (key.pass) {
    case ConvPass::forward:
      return {x, w, y};
    case ConvPass::backward_data:
      return {y, w, x};
    case ConvPass::backward_weights:
      return {x, y, w};
  }
  return {};
}

std::string qualify(Stream stream, const ConvKey& key, const RunPass& run, uint64_t seed) {
  const StreamScope scope(stream);
  const PassShapes shapes = shapes_of(key);
  const Device device = stream.device;
  Tensor first = Tensor::empty(shapes.first, key.dtype(), device),
         second = Tensor::empty(shapes.second, key.dtype(), device), bias;
  fill_exact(stream, first, seed);
  fill_exact(stream, second, seed + 1);
  if (key.bias) {
    bias = Tensor::empty({shapes.result[4]}, key.dtype(), device);
    fill_exact(stream, bias, seed + 2);
  }
  constexpr double kBefore = 0.5;
  // What is not written shows.
  Tensor result =
      Tensor::full(shapes.result, key.add ? kBefore : std::numeric_limits<double>::quiet_NaN(),
                   key.dtype(), device);
  run(first, second, bias, result);

  const std::vector<int64_t> places = sample_positions(shapes.result, sample_count(key), seed + 3);
  const auto n = static_cast<int64_t>(places.size());
  const Tensor positions = Tensor::from<int64_t>({n}, places, device);
  Tensor truth = Tensor::empty({n}, DType::f32, device);
  sampled_result(stream, key, first, second, positions, truth);
  Tensor taken = Tensor::empty({n}, DType::f32, device);
  gather(stream, result, positions, taken);
  const std::vector<float> want = truth.to_vector<float>(), have = taken.to_vector<float>();
  std::vector<float> add;
  if (key.bias) add = bias.to(DType::f32).to_vector<float>();
  const int64_t terms = terms_of(key);
  int64_t n_wrong = 0;
  std::string worst;
  for (int64_t j = 0; j < n; ++j) {
    const auto i = static_cast<size_t>(j);
    double wanted = static_cast<double>(want[i]) + (key.add ? kBefore : 0.0);
    if (key.bias)
      wanted += static_cast<double>(add[static_cast<size_t>(places[i] % shapes.result[4])]);
    const auto got = static_cast<double>(have[i]);
    if (std::abs(got - wanted) <= allowed_difference(wanted, key.dtype(), terms)) continue;
    if (n_wrong++ == 0)
      worst = detail::join(got, " for ", wanted, " at ", place_text(shapes.result, places[i]));
  }
  if (n_wrong == 0) return {};
  return detail::join(n_wrong, " of ", n, " sampled results are wrong, the first is ", worst);
}

}  // namespace bora::kernels::cudnn
