// SPDX-License-Identifier: Apache-2.0
// prepare_once: data that has to be made before it can be read (unpacked, converted, generated).
#pragma once

#include <functional>
#include <string>

#include "core/collective.hpp"

namespace bora::data {

/// Collective.  Makes sure that `folder` holds what `make` makes, made once: a folder that holds
/// anything is taken as it is; else rank 0 calls make(part) with a new folder beside it, which
/// becomes `folder` by a rename when make has returned, while the others wait.  So whoever sees the
/// folder sees it whole, also after a kill, and of several jobs that start at once the first to
/// finish wins and the others use its data.  All ranks must see the folder; for one that is local
/// to a host pass the group of that host's ranks.  Returns whether this call made it.
/// Throws Error on all ranks with the message of `make`, or if a rank does not see the folder;
/// nothing is left behind then.
bool prepare_once(const std::string& folder, Collective& ranks,
                  const std::function<void(const std::string& part)>& make);

}  // namespace bora::data
