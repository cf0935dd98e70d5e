// SPDX-License-Identifier: Apache-2.0
// SharedFolder: a folder of a test that all its ranks know, gone when the test has ended on all.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <string>

#include "core/collective.hpp"
#include "core/error.hpp"

namespace bora::testing {

class SharedFolder {
 public:
  /// Collective, as the destructor is.  `ranks` outlives it.
  explicit SharedFolder(Collective& ranks) : ranks_(ranks) {
    char name[] = "/tmp/bora_ranks_XXXXXX";
    ranks.agree("making a folder", [&] {
      if (ranks.rank() == 0) BORA_CHECK(::mkdtemp(name) != nullptr, "no folder in /tmp");
    });
    path_ = ranks.broadcast_text(name, 0, "folder");
  }
  ~SharedFolder() {
    ranks_.barrier("end of the test");
    std::error_code ignored;
    if (ranks_.rank() == 0) std::filesystem::remove_all(path_, ignored);
  }
  SharedFolder(const SharedFolder&) = delete;
  SharedFolder& operator=(const SharedFolder&) = delete;
  const std::string& path() const { return path_; }

 private:
  Collective& ranks_;
  std::string path_;
};

}  // namespace bora::testing
