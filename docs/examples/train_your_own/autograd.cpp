// SPDX-License-Identifier: Apache-2.0
// Tensors, an op of one's own, and a training loop by hand: what stands below train::run.
#include <cmath>
#include <cstdio>

#include "core/op.hpp"
#include "nn/layers/conv3d.hpp"
#include "nn/optim/optimizer.hpp"
#include "nn/parameter_arena.hpp"

using namespace bora;

/// log(1 + exp(x)), element by element, on the CPU.  Saves x.
struct Softplus {
  static constexpr OpInfo info{"softplus", Precision::full};
  Tensor forward(OpContext& c, const Tensor& x) const {
    Tensor y = c.like(x);
    for (int64_t i = 0; i < x.numel(); ++i)
      y.data<float>()[i] = std::log1p(std::exp(x.data<float>()[i]));
    c.save(x);
    return y;
  }
  Tensor backward(OpContext& c, const Tensor& dy) const {
    const Tensor& x = c.saved(0);
    Tensor dx = c.like(x);
    for (int64_t i = 0; i < x.numel(); ++i)
      dx.data<float>()[i] = dy.data<float>()[i] / (1 + std::exp(-x.data<float>()[i]));
    return dx;
  }
};
Tensor softplus(const Tensor& x) { return apply(Softplus{}, x); }

int main() {
  // A tensor is dense, channels last: two points of three numbers.
  const Tensor x = Tensor::from<float>({2, 3}, std::vector<float>{0, 1, 2, 3, 4, 5});
  const Tensor y = Tensor::from<float>({2, 1}, std::vector<float>{1, 2});

  // Parameters of a module get memory, gradients and a place on the tape from an arena.
  nn::Linear layer(3, 1, nn::Bias::yes);
  nn::ParameterArena arena(layer, DType::f32);
  nn::initialise(layer, /*seed=*/1);
  const auto adamw = nn::make_adamw(arena, {.weight_decay = 0});

  for (int step = 0; step < 200; ++step) {
    arena.clear_gradients();
    const Tensor error = nn::add(softplus(layer.forward(x)), nn::scale(y, -1));
    const Tensor loss = nn::mean(nn::mul(error, error));
    backward(loss);
    adamw->step({.lr = 0.05});
    if (step % 50 == 0 || step == 199) std::printf("step %3d  loss %.6f\n", step, loss.item());
  }

  const NoGrad no_grad;  // nothing is recorded from here on
  for (const float v : softplus(layer.forward(x)).to_vector<float>()) std::printf("%.3f ", v);
  std::printf("wanted 1 and 2\n");
}
