// SPDX-License-Identifier: Apache-2.0
#include "core/error.hpp"

#include <string_view>

#include "core/portable.hpp"

namespace bora::detail {

void throw_error(const std::string& message, const std::source_location& where) {
  std::string_view file = where.file_name();
  // The path from the repository's root is what a reader can open; the build machine's prefix is
  // noise.
  // tests/ comes first, since it has a core/ and the others inside.
  for (const char* folder :
       {"/tests/", "/core/", "/kernels/", "/nn/", "/comm/", "/data/", "/apps/"}) {
    if (auto at = file.rfind(folder); at != std::string_view::npos) {
      file = file.substr(at + 1);
      break;
    }
  }
  throw Error(join(message, "  [", file, ":", where.line(), "]"));
}

void throw_built_without_cuda() {
  throw Error("a CUDA tensor was given, but this binary was built without CUDA (BORA_CUDA=OFF)");
}

}  // namespace bora::detail
