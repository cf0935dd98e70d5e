// SPDX-License-Identifier: Apache-2.0
// Gradients of a recorded function against finite differences, in f64.
#pragma once

#include <algorithm>
#include <cmath>
#include <functional>
#include <sstream>
#include <string>
#include <vector>

#include "core/tape.hpp"
#include "tests/support/random.hpp"

namespace bora::test {

using TensorFunction = std::function<Tensor(const std::vector<Tensor>&)>;

struct GradcheckOptions {
  double tolerance = 1e-6;   ///< relative to max(|element|, 0.01 * largest of that gradient)
  double step = 1e-3;        ///< spacing; kinks must be more than 2 steps away
  int64_t n_elements = 48;   ///< elements tried per input (all, if there are fewer)
  uint64_t seed = 20240229;  ///< of the loss weights and of the choice of elements
  bool zero_gradient_ok = false;
};

namespace detail {

inline double weighted_difference(const std::vector<double>& a, const std::vector<double>& b,
                                  const std::vector<double>& weights) {
  double sum = 0.0;  // differences first: rounding is then relative to the change, not to the loss
  for (size_t i = 0; i < a.size(); ++i) sum += weights[i] * (a[i] - b[i]);
  return sum;
}

}  // namespace detail

/// Checks d(sum of w_i y_i)/d(input) for random fixed w: what backward() gives for each input k
/// with wanted[k], against the five-point central difference (error of order step^4).  Inputs f64
/// where wanted.  `f` must be a pure function of its inputs.  Returns an empty string, or what is
/// wrong.
inline std::string check_gradients(const TensorFunction& f, const std::vector<Tensor>& inputs,
                                   const std::vector<bool>& wanted,
                                   const GradcheckOptions& options = {}) {
  std::ostringstream faults;
  std::vector<Tensor> leaves;
  for (size_t k = 0; k < inputs.size(); ++k)
    leaves.push_back(wanted[k] ? make_leaf(inputs[k], "input " + std::to_string(k)) : inputs[k]);
  const Tensor y = f(leaves);
  const std::vector<double> weights =
      y.numel() == 1 ? std::vector<double>{0.75} : normal_values(y.numel(), options.seed);
  if (!y.requires_grad()) return "the result is not on the tape";
  backward(y, make_tensor(y.shape(), weights, y.dtype()));

  const NoGrad no_grad;
  for (size_t k = 0; k < inputs.size(); ++k) {
    if (!wanted[k]) continue;
    const int64_t n = inputs[k].numel();
    if (!leaf_of(leaves[k]).has_gradient()) {
      if (n > 0) faults << "input " << k << " got no gradient\n";
      continue;
    }
    const std::vector<double> gradient = values_of(leaf_of(leaves[k]).gradient());
    const double largest = [&] {
      double m = 0.0;
      for (double g : gradient) m = std::max(m, std::abs(g));
      return m;
    }();
    std::vector<Tensor> probe = inputs;
    probe[k] = inputs[k].clone();
    double largest_difference = 0.0;
    const RngKey choice{options.seed, rng_stream("gradcheck", k)};
    const int64_t n_tried = std::min(n, options.n_elements);
    for (int64_t j = 0; j < n_tried; ++j) {
      const int64_t i = n_tried == n ? j
                                     : static_cast<int64_t>(choice.below(static_cast<uint64_t>(n),
                                                                         static_cast<uint64_t>(j)));
      const double centre = element<double>(probe[k], i), h = options.step;
      const auto at = [&](double v) {
        put<double>(probe[k], i, v);
        return f(probe).to_vector<double>();
      };
      const double d1 = detail::weighted_difference(at(centre + h), at(centre - h), weights);
      const double d2 =
          detail::weighted_difference(at(centre + 2 * h), at(centre - 2 * h), weights);
      put<double>(probe[k], i, centre);
      const double numeric = (8.0 * d1 - d2) / (12.0 * h);
      const double g = gradient[static_cast<size_t>(i)];
      largest_difference = std::max(largest_difference, std::abs(numeric));
      const double scale = std::max({std::abs(g), std::abs(numeric), 0.01 * largest, 1e-8});
      if (!(std::abs(numeric - g) <= options.tolerance * scale))
        faults << "input " << k << " element " << i << ": backward says " << g << ", differences "
               << numeric << " (relative " << std::abs(numeric - g) / scale << ")\n";
    }
    if (n_tried > 0 && !options.zero_gradient_ok && largest_difference == 0.0)
      faults << "input " << k << ": all differences tried are 0, so nothing was checked\n";
  }
  return faults.str();
}

}  // namespace bora::test
