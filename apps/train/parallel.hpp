// SPDX-License-Identifier: Apache-2.0
// From the settings of comm.* to how ranks work together in training.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "apps/common/window_plan.hpp"
#include "apps/train/config.hpp"
#include "comm/communicator.hpp"
#include "comm/gradient_exchange.hpp"
#include "nn/parameter_arena.hpp"

namespace bora::train {

/// Whether updates have the same bits for any number of ranks (comm.all_reduce=reproducible).
bool reproducible(const RunConfig& config);

/// Throws UsageError where settings do not go together, or not with the device.  A pure function:
/// all ranks agree.
void check_parallel(const RunConfig& config, Device device = cpu(), int n_ranks = 1);

CommunicatorOptions communicator_options(const CommConfig& config);

/// The ranks for tensors on `device`: nullptr on the CPU, where `ranks` itself serves; a group of
/// one for one rank; else NCCL over `ranks`, which it must not outlive.  Collective.  Throws what
/// make_nccl_communicator does.
std::unique_ptr<Collective> make_tensor_group(const CommConfig& config, const MpiSession& session,
                                              Collective& ranks, Device device);

/// Memory for what all ranks reduce every update: shared where they share a host; empty (ordinary
/// memory) for one rank, and for gradients on a device.  `ranks` outlives it.
MemorySource shared_memory(Collective& ranks);

/// The plan of updates for so many samples; `weights`: sampling_weights().
apps::WindowPlan window_plan(const RunConfig& config, int64_t n_samples, const Collective& ranks,
                             std::vector<double> weights = {});

/// What joins the gradients: a GradientReducer that sums (the loss weighs each sample), or a
/// ShardReducer.  Collective; arena and ranks outlive it.
std::unique_ptr<GradientExchange> make_exchange(const RunConfig& config, nn::ParameterArena& arena,
                                                const apps::WindowPlan& plan, Collective& ranks);

}  // namespace bora::train
