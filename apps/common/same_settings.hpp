// SPDX-License-Identifier: Apache-2.0
// All ranks of a job must have been started with the same settings.
#pragma once

#include <string>

#include "core/collective.hpp"

namespace bora::apps {

/// Collective: throws UsageError on all ranks that names the first rank whose `text` (lines of a
/// TOML file, as config_text gives) differs from rank 0's, the key, and both values.
void require_same_settings(Collective& ranks, const std::string& text);

/// The first line in which two such texts differ, with its section: "optim.lr: 'lr = 0.1', on rank
/// 0 'lr = 0.01'".
std::string first_difference(const std::string& text, const std::string& of_rank_0);

}  // namespace bora::apps
