// SPDX-License-Identifier: Apache-2.0
// The setting that chooses the way of all-reductions, for every program that has it.
#pragma once

#include "core/config.hpp"

namespace bora::apps {

/// What all_reduce_algorithm() knows (a test compares them).
inline constexpr ChoiceCheck kAllReduceChoices =
    one_of("auto", "shared", "exchange", "ring", "chunked_ring", "halving", "hierarchical",
           "library", "reproducible");

}  // namespace bora::apps
