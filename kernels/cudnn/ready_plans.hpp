// SPDX-License-Identifier: Apache-2.0
// Plans that are ready to run: chosen by the plan file, by measurement or by cuDNN's suggestion,
// qualified, and kept for the process.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "kernels/cudnn/session.hpp"

namespace bora::kernels::cudnn {

struct ReadyPlan {
  ConvGraph graph;               ///< what the plan stands on
  std::optional<ConvPlan> plan;  ///< nothing: no engine computes it
  std::string reasons;           ///< then: what speaks against each
};

/// The plan of `key` on the session's device.  Made when first asked for, which takes milliseconds
/// (with settings.tune a second) and waits for the device; during a capture that is an Error.
/// Throws Error naming the version if refusal() says so.
std::shared_ptr<const ReadyPlan> ready_plan(Session& session, const ConvKey& key);

/// What tensors are called in a pass: forward (x, w, y), backward_data (dy, w, dx),
/// backward_weights (x, dy, dw).
std::vector<Session::Binding> bindings(ConvPass pass, const Tensor& first, const Tensor& second,
                                       const Tensor& bias, const Tensor& result);

/// One line for each plan made so far.
std::vector<std::string> ready_plan_log();

}  // namespace bora::kernels::cudnn
