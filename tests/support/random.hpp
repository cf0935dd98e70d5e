// SPDX-License-Identifier: Apache-2.0
// Test data as pure functions of a seed, made with the project's own counter generator.
#pragma once

#include <cstdint>
#include <numeric>
#include <utility>
#include <vector>

#include "core/rng.hpp"
#include "core/tensor.hpp"
#include "tests/support/device.hpp"

namespace bora::test {

/// n standard normal values.
inline std::vector<double> normal_values(int64_t n, uint64_t seed) {
  const RngKey key{seed, rng_stream("test.normal")};
  std::vector<double> out(static_cast<size_t>(n));
  for (int64_t i = 0; i < n; ++i)
    out[static_cast<size_t>(i)] = key.normal(static_cast<uint64_t>(i));
  return out;
}

/// n values in [lo, hi).
inline std::vector<double> uniform_values(int64_t n, double lo, double hi, uint64_t seed) {
  const RngKey key{seed, rng_stream("test.uniform")};
  std::vector<double> out(static_cast<size_t>(n));
  for (int64_t i = 0; i < n; ++i)
    out[static_cast<size_t>(i)] = lo + (hi - lo) * key.uniform(static_cast<uint64_t>(i));
  return out;
}

/// n values of magnitude in [0.1, 1.6) and random sign: no value is near a kink at 0.
inline std::vector<double> off_zero_values(int64_t n, uint64_t seed) {
  std::vector<double> out = uniform_values(n, -1.5, 1.5, seed);
  for (double& v : out) v += v < 0 ? -0.1 : 0.1;
  return out;
}

/// A random order of n values that are 0.05 apart, around 0: for functions that compare.
inline std::vector<double> distinct_values(int64_t n, uint64_t seed) {
  std::vector<double> out(static_cast<size_t>(n));
  for (int64_t i = 0; i < n; ++i)
    out[static_cast<size_t>(i)] =
        0.05 * (static_cast<double>(i) - 0.5 * static_cast<double>(n - 1));
  const RngKey key{seed, rng_stream("test.shuffle")};
  for (int64_t i = n - 1; i > 0; --i)
    std::swap(out[static_cast<size_t>(i)],
              out[key.below(static_cast<uint64_t>(i) + 1, static_cast<uint64_t>(i))]);
  return out;
}

/// n integers in [0, k), as doubles.
inline std::vector<double> integer_values(int64_t n, int64_t k, uint64_t seed) {
  const RngKey key{seed, rng_stream("test.integer")};
  std::vector<double> out(static_cast<size_t>(n));
  for (int64_t i = 0; i < n; ++i)
    out[static_cast<size_t>(i)] =
        static_cast<double>(key.below(static_cast<uint64_t>(k), static_cast<uint64_t>(i)));
  return out;
}

/// A tensor of any type from f64 values (rounded as Tensor::to does).
inline Tensor make_tensor(const Shape& shape, const std::vector<double>& values, DType type,
                          Device where = device()) {
  const Tensor t = Tensor::from<double>(shape, values, where);
  return type == DType::f64 ? t : t.to(type);
}

/// All elements as f64.
inline std::vector<double> values_of(const Tensor& t) {
  return (t.dtype() == DType::f64 ? t.detach() : t.detach().to(DType::f64)).to_vector<double>();
}

}  // namespace bora::test
