// SPDX-License-Identifier: Apache-2.0
#include "core/build_info.hpp"

#include "core/build_info_values.hpp"

namespace bora {

const BuildInfo& build_info() {
  // Never destroyed: a writer of checkpoints that was given up may outlive main().
  static const BuildInfo& info = *new BuildInfo([] {
    BuildInfo b;
    b.version = detail::kVersion;
    b.git_commit = detail::kGitCommit;
    b.build_type = detail::kBuildType;
    b.compiler = detail::kCompiler;
#if defined(BORA_CUDA)
    b.cuda = true;
#endif
    b.cuda_compiler = detail::kCudaCompiler;
    b.arch_flags = detail::kArchFlags;
    b.sanitizers = detail::kSanitizers;
#if !defined(NDEBUG)
    b.checks_internal = true;
#endif
    return b;
  }());
  return info;
}

std::string build_info_text() {
  const BuildInfo& b = build_info();
  std::string text = "bora " + b.version + " (" + b.git_commit + "), " + b.build_type + ", " +
                     b.compiler + ", CUDA " + (b.cuda ? b.cuda_compiler : "off");
  if (!b.arch_flags.empty()) text += ", " + b.arch_flags;
  if (!b.sanitizers.empty()) text += ", sanitizers " + b.sanitizers;
  return text;
}

}  // namespace bora
