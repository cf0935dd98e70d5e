// SPDX-License-Identifier: Apache-2.0
#include "core/recompute.hpp"

#include "core/op.hpp"

#include <utility>

namespace bora {
namespace {

thread_local bool t_recomputing = false;

class RecomputingScope {
 public:
  RecomputingScope() : previous_(std::exchange(t_recomputing, true)) {}
  ~RecomputingScope() { t_recomputing = previous_; }
  RecomputingScope(const RecomputingScope&) = delete;
  RecomputingScope& operator=(const RecomputingScope&) = delete;

 private:
  bool previous_;
};

struct Recompute {
  static constexpr OpInfo info{"recompute", Precision::follow};
  std::function<Tensor(const Tensor&)> body;
  RngPosition rng{};
  DType half = DType::f32;

  Tensor forward(OpContext& c, const std::vector<Tensor>& inputs) {
    rng = rng_position();
    half = half_type();
    c.save(inputs[0]);
    return body(inputs[0].detach());  // run_op has recording off
  }

  std::vector<Tensor> backward(OpContext& c, const Tensor& dy) {
    const Tensor& saved = c.saved(0);
    Tensor x = c.wants(0) ? make_leaf(saved, "recompute input") : saved;
    const RngScope same_draws(rng);
    const PrecisionScope same_types(half);
    Tensor y;
    {
      const RecordingScope on(true);
      const RecomputingScope again;
      y = body(x);
    }
    // The nested pass adds to the parameters' own sinks; the outer pass fires their hooks, since
    // they are inputs of this node.
    if (y.requires_grad()) backward_without_hooks(y, dy);
    std::vector<Tensor> gradients(1);
    if (c.wants(0) && leaf_of(x).has_gradient()) gradients[0] = leaf_of(x).gradient();
    return gradients;
  }
};

}  // namespace

bool recomputing() { return t_recomputing; }

Tensor recompute(const std::function<Tensor(const Tensor&)>& body, const Tensor& x,
                 const std::vector<Tensor>& parameters) {
  std::vector<Tensor> inputs{x};
  inputs.insert(inputs.end(), parameters.begin(), parameters.end());
  return apply_list(Recompute{body}, inputs);
}

}  // namespace bora
