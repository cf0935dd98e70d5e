// SPDX-License-Identifier: Apache-2.0
#include "nn/recompute.hpp"

namespace bora::nn {

Tensor recompute(Module& module, const std::function<Tensor(const Tensor&)>& forward,
                 const Tensor& x) {
  std::vector<Tensor> parameters;
  for (const auto& [name, p] : named_parameters(module)) parameters.push_back(p->value);
  return bora::recompute(forward, x, parameters);
}

}  // namespace bora::nn
