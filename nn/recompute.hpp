// SPDX-License-Identifier: Apache-2.0
// recompute for modules: activation checkpointing of a block.
#pragma once

#include <functional>

#include "core/recompute.hpp"
#include "nn/module.hpp"

namespace bora::nn {

/// y = forward(x) without keeping what lies between; backward runs it again.  `module` is what
/// forward uses, so that its parameters are inputs of the recorded node (see core/recompute.hpp).
Tensor recompute(Module& module, const std::function<Tensor(const Tensor&)>& forward,
                 const Tensor& x);

}  // namespace bora::nn
