// SPDX-License-Identifier: Apache-2.0
// Whether all ranks hold the same text: settings, layouts.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/collective.hpp"

namespace bora {

/// Every rank's text by rank if they differ, nothing if all are the same.  Collective; the usual
/// case costs one exchange of two numbers (over the host, for a group of devices).
std::vector<std::string> texts_if_different(Collective& collective, const std::string& text,
                                            std::string_view label);

}  // namespace bora
