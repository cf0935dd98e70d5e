// SPDX-License-Identifier: Apache-2.0
// BuildInfo: which source, built how.  Goes into logs, checkpoints and bug reports.
#pragma once

#include <string>

namespace bora {

/// What the build was configured with.
struct BuildInfo {
  std::string version;        ///< "0.1.0"
  std::string git_commit;     ///< twelve hex digits at configure time; "unknown" without a .git
  std::string build_type;     ///< "Release", "Debug", ...
  std::string compiler;       ///< "GNU 12.2.0"
  bool cuda = false;          ///< CUDA code is in this binary (a device may still be missing)
  std::string cuda_compiler;  ///< "nvcc 12.4.131, 80-real 90-real 90-virtual"; empty without CUDA
  std::string arch_flags;     ///< "-march=native ..."
  std::string sanitizers;     ///< empty in a normal build
  bool checks_internal = false;  ///< BORA_ASSERT is on (a build without NDEBUG)
};

/// The facts of this binary.
const BuildInfo& build_info();

/// One line for logs: "bora 0.1.0 (0123456789ab), Release, GNU 12.2.0, CUDA off, -march=native".
std::string build_info_text();

}  // namespace bora
