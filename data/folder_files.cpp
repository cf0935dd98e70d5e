// SPDX-License-Identifier: Apache-2.0
#include "data/folder_files.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <system_error>
#include <utility>

#include "core/error.hpp"
#include "core/log.hpp"

namespace bora::data {
namespace {

namespace fs = std::filesystem;

class Walk {
 public:
  std::vector<fs::path> files;

  void enter(const fs::path& folder) {
    struct stat s {};
    BORA_CHECK(::stat(folder.c_str(), &s) == 0, "cannot list '", folder.string(),
               "': ", std::strerror(errno));
    const Identity self{s.st_dev, s.st_ino};
    if (std::find(above_.begin(), above_.end(), self) != above_.end()) {
      log_warn("'", folder.string(), "' is a link to a folder that it lies in: it is not followed");
      return;
    }
    above_.push_back(self);
    std::error_code code;
    for (fs::directory_iterator it(folder, code), end; !code && it != end; it.increment(code)) {
      std::error_code ignored;  // a link to nothing
      if (it->is_directory(ignored))
        enter(it->path());
      else
        files.push_back(it->path());
    }
    BORA_CHECK(!code, "cannot list '", folder.string(), "': ", code.message());
    above_.pop_back();
  }

 private:
  using Identity = std::pair<dev_t, ino_t>;
  std::vector<Identity> above_;
};

}  // namespace

std::vector<fs::path> files_below(const std::string& folder) {
  BORA_CHECK(!folder.empty(), "files_below: wants a folder, got an empty path");
  Walk walk;
  walk.enter(folder);
  std::sort(walk.files.begin(), walk.files.end());
  return std::move(walk.files);
}

}  // namespace bora::data
