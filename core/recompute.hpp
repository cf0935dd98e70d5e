// SPDX-License-Identifier: Apache-2.0
// recompute: activation checkpointing.  ("checkpoint" means a file in this project.)
#pragma once

#include <functional>
#include <vector>

#include "core/tensor.hpp"

namespace bora {

/// y = body(x), keeping only x: backward runs the body again.  `parameters` are the leaves that
/// body uses; they become inputs of the recorded node, so the node is recorded even if x needs no
/// gradient, and ready hooks fire exactly once each, also for a parameter that several segments
/// share.  Random draws of the body are the same in both runs.  `body` is copied; what it captures
/// by reference must live until backward.  Gradients are bitwise those of the plain run, wherever a
/// leaf is used by one segment only (else up to the order of sums).  What a body does to the
/// outside besides its result, it asks recomputing() about.
Tensor recompute(const std::function<Tensor(const Tensor&)>& body, const Tensor& x,
                 const std::vector<Tensor>& parameters);

/// Whether this thread is running the body of a recompute() again, for backward.  What changes
/// state in the forward pass (running statistics, counters) asks this, so as to do it once a step.
bool recomputing();

}  // namespace bora
