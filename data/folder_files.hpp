// SPDX-License-Identifier: Apache-2.0
// files_below: what lies in a folder and the folders below it.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace bora::data {

/// All that is no folder, sorted; links to folders are followed, links to nothing are among the
/// results.  A link to a folder that it lies in is not followed, and told in the log: it would lead
/// around for ever.  Throws Error naming the folder that cannot be listed, and the reason.
std::vector<std::filesystem::path> files_below(const std::string& folder);

}  // namespace bora::data
