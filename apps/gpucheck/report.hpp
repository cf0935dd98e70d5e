// SPDX-License-Identifier: Apache-2.0
// What a run of the check amounts to: the stages' files joined, a verdict, a table.
#pragma once

#include <string>

#include "apps/gpucheck/result.hpp"

namespace bora::gpucheck {

/// Joins the stage files (*.json) of a folder, in the order of their names; a file that cannot be
/// read becomes a stage of status error.  Facts of the stage "environment" become the machine, its
/// numbers the ceilings.  `want_device`: a stage that judges results but found no GPU is a fault.
/// Throws Error if there are none.
Run join_stages(const std::string& folder, bool want_device);

/// Whether a stage says that results are wrong or were not looked at: a stage that judges results
/// and failed, broke off, ran out of time or (with want_device) found no device.  Speed judges
/// nothing.
bool at_fault(const Stage& stage, bool want_device);

/// The run in a few words.
const char* verdict(const Run& run);

/// Markdown: stages, failures, plans, times, comparison with PyTorch.  Prints only what the run
/// holds; what was not measured is called so.
std::string table(const Run& run);

}  // namespace bora::gpucheck
