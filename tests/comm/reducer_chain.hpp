// SPDX-License-Identifier: Apache-2.0
// A small network for tests of GradientReducer: backward completes its parameters one by one.
#pragma once

#include "core/flat_buffer.hpp"
#include "core/op.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <vector>

namespace bora::testing {

/// Adds sum(w * c) to a running scalar; its gradient for w is c.  `before` runs in backward first.
struct Step {
  static constexpr OpInfo info{"step", Precision::full};
  Tensor c;
  std::function<void()> before;
  bool without_gradient = false;

  Tensor forward(OpContext& ctx, const Tensor& total, const Tensor& w) {
    Tensor y = ctx.like(total);
    double sum = total.item();
    for (int64_t i = 0; i < w.numel(); ++i) sum += w.data<double>()[i] * c.data<double>()[i];
    y.data<double>()[0] = sum;
    return y;
  }
  std::array<Tensor, 2> backward(OpContext&, const Tensor& dy) {
    if (before) before();
    if (without_gradient) return {dy, Tensor()};
    Tensor dw = c.clone();
    for (int64_t i = 0; i < dw.numel(); ++i) dw.data<double>()[i] *= dy.item();
    return {dy, dw};
  }
};

/// Parameters of a chain of steps, with their gradients in one buffer: parameter i is range i, and
/// the step that backward reaches first has parameter 0.
struct Chain {
  explicit Chain(const std::vector<int64_t>& counts) {
    FlatLayout layout;
    for (size_t i = 0; i < counts.size(); ++i) layout.add(detail::join("w", i), {counts[i]});
    gradients = FlatBuffer(layout, DType::f64, cpu());
    for (size_t i = 0; i < counts.size(); ++i) {
      weights.push_back(make_leaf(Tensor::full({counts[i]}, 0.5, DType::f64),
                                  layout.range(static_cast<int>(i)).name));
      leaves.push_back(&leaf_of(weights.back()));
      leaves.back()->set_gradient_buffer(gradients.part(static_cast<int>(i)));
      steps.push_back({Tensor(), {}, false});
      used.push_back(true);
      order.insert(order.begin(), i);
    }
  }
  // d(loss)/d(w_i)[k] on `rank` in micro-batch `micro`: not exact in binary, so order shows.
  static double coefficient(int rank, int micro, size_t i, int64_t k) {
    return (1.0 + rank) / 3.0 + static_cast<double>(i) / 7.0 + static_cast<double>(k % 13) / 11.0 +
           micro / 5.0;
  }
  void run_backward(int rank, int micro = 0) {
    Tensor total = Tensor::zeros({}, DType::f64);
    for (size_t i : order) {
      if (!used[i]) continue;
      Step step = steps[i];
      step.c = Tensor::empty(weights[i].shape(), DType::f64);
      for (int64_t k = 0; k < step.c.numel(); ++k)
        step.c.data<double>()[k] = coefficient(rank, micro, i, k);
      total = apply(step, total, weights[i]);
    }
    backward(total);
  }
  void clear() {
    for (Leaf* leaf : leaves) leaf->clear_gradient();
  }
  // The sum over micro-batches is formed first, then the one over ranks.
  void expect_reduced(int size, int n_micro, ReduceOp op = ReduceOp::mean) const {
    for (size_t i = 0; i < weights.size(); ++i) {
      const auto got = gradients.part(static_cast<int>(i)).to_vector<double>();
      for (int64_t k = 0; k < static_cast<int64_t>(got.size()); ++k) {
        double sum = 0;
        for (int r = 0; r < size; ++r) {
          double local = 0;
          for (int m = 0; m < n_micro; ++m) local += coefficient(r, m, i, k);
          sum += local;
        }
        ASSERT_EQ(op == ReduceOp::mean ? sum / size : sum, got[static_cast<size_t>(k)])
            << "w" << i << "[" << k << "]";
      }
    }
  }

  FlatBuffer gradients;
  std::vector<Tensor> weights;
  std::vector<Leaf*> leaves;
  std::vector<Step> steps;
  std::vector<bool> used;
  std::vector<size_t> order;  // of the forward pass
};

}  // namespace bora::testing
