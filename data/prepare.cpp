// SPDX-License-Identifier: Apache-2.0
#include "data/prepare.hpp"

#include <stdlib.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include "core/error.hpp"

namespace bora::data {
namespace {

namespace fs = std::filesystem;

bool holds_something(const std::string& folder) {
  std::error_code code;
  return fs::is_directory(folder, code) && !fs::is_empty(folder, code);
}

/// "a/b" of "a/b/": what is made lies beside it.
std::string without_slash(std::string folder) {
  while (folder.size() > 1 && folder.back() == '/') folder.pop_back();
  return folder;
}

/// Removes itself unless it was renamed.
class Part {
 public:
  explicit Part(const std::string& folder) : path_(folder + ".part-XXXXXX") {
    std::error_code code;
    if (fs::path(folder).has_parent_path())
      fs::create_directories(fs::path(folder).parent_path(), code);
    BORA_CHECK(::mkdtemp(path_.data()) != nullptr, "cannot make a folder beside '", folder,
               "': ", std::strerror(errno));
    // mkdtemp's is for its owner alone; the data is for whom the umask says.
    const mode_t mask = ::umask(0);
    ::umask(mask);
    BORA_CHECK(::chmod(path_.c_str(), 0777 & ~mask) == 0, "setting the mode of '", path_,
               "': ", std::strerror(errno));
  }
  ~Part() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  Part(const Part&) = delete;
  Part& operator=(const Part&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace

bool prepare_once(const std::string& given, Collective& ranks,
                  const std::function<void(const std::string& part)>& make) {
  const std::string folder = without_slash(given);
  bool made = false;
  ranks.agree("preparing '" + folder + "'", [&] {
    if (ranks.rank() != 0 || holds_something(folder)) return;
    const Part part(folder);
    make(part.path());
    BORA_CHECK(holds_something(part.path()), "nothing was made");
    made = std::rename(part.path().c_str(), folder.c_str()) == 0;
    // Another job was faster: its data is as good.
    BORA_CHECK(made || holds_something(folder), "renaming '", part.path(), "' to '", folder,
               "': ", std::strerror(errno));
  });
  ranks.agree("looking for what was prepared", [&] {
    BORA_CHECK(holds_something(folder), "'", folder,
               "' is not visible here: all ranks of the group must share the folder");
  });
  return ranks.all_reduce(int64_t{made}, ReduceOp::max, "prepared") != 0;
}

}  // namespace bora::data
