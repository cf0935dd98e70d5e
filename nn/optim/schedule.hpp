// SPDX-License-Identifier: Apache-2.0
// Schedules: the learning rate as a pure function of the number of updates made.
#pragma once

#include "kernels/schedule.hpp"

#include <cstdint>
#include <string>

namespace bora::nn {

/// The settings of every kind; unused ones are ignored.
using Schedule = kernels::Schedule;

/// The rate of the update that comes after `done` updates.  A skipped update does not count.  Past
/// the end the last value holds.  one_cycle: peak/div at 0, peak at warm_fraction*total - 1,
/// peak/div/final_div at total - 1, cosine in between. Source: Smith and Topin 2018, in the form
/// that PyTorch made common.  Throws Error on settings out of range.
double learning_rate(const Schedule& schedule, int64_t done);

/// beta1 of that update: `fixed` unless one_cycle cycles it.
double momentum(const Schedule& schedule, int64_t done, double fixed);

/// Throws Error if a setting is out of range; the two above do so, too.
void check_schedule(const Schedule& schedule);

Schedule::Kind schedule_kind(const std::string& name);

}  // namespace bora::nn
