// SPDX-License-Identifier: Apache-2.0
// Where output goes: told to be impossible before the work, with what stands in the way.
#pragma once

#include <string>
#include <vector>

namespace bora::data {

/// Throws UsageError unless `folder` is there or can be made, and may be written to.  `what` says
/// whose it is ("data convert: --to=/a/b"); the message names it, the path that is in the way, what
/// was found there and what was wanted.  Makes nothing: for looks that leave no trace.
void check_folder(const std::string& folder, const std::string& what);
/// The same, then makes it and the folders above it.
void make_folder(const std::string& folder, const std::string& what);
/// Of a file to be written: makes its folder; throws UsageError where a folder has its name, too.
void make_folder_of(const std::string& file, const std::string& what);
void check_folder_of(const std::string& file, const std::string& what);

/// Throws UsageError naming the suffixes unless the name ends in one of them, in either case.
void require_suffix(const std::string& file, const std::vector<std::string>& suffixes,
                    const std::string& what);
/// Whether a name ends as a file does that some program of ours reads or writes (".h5", ".png"):
/// where a folder is wanted, that is a mistake.
bool has_file_suffix(const std::string& name);

}  // namespace bora::data
