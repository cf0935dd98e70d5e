// SPDX-License-Identifier: Apache-2.0
// What the pipeline tests share: a folder that goes away, whole files, messages of errors.
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "core/error.hpp"

namespace bora::data::test {

/// A new folder under the system's temporary one, removed at the end.
class TempFolder {
 public:
  TempFolder() {
    path_ = (std::filesystem::temp_directory_path() / "bora-test-XXXXXX").string();
    BORA_CHECK(::mkdtemp(path_.data()) != nullptr, "no temporary folder could be made");
  }
  ~TempFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;

  std::string file(const std::string& name) const { return path_ + "/" + name; }
  const std::string& path() const { return path_; }
  int n_files() const {
    return static_cast<int>(std::distance(std::filesystem::directory_iterator(path_),
                                          std::filesystem::directory_iterator()));
  }

 private:
  std::string path_;
};

inline std::string read_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

inline void write_file(const std::string& path, const std::string& content) {
  std::filesystem::remove(path);  // some file systems sync a file that is truncated and rewritten
  std::ofstream out(path, std::ios::binary);
  out << content;
  ASSERT_TRUE(out.flush().good()) << path;
}

/// The message of the E that `body` throws; fails the test (and returns "") if it throws none.
template <class E = Error, class Body>
std::string message_of(Body&& body) {
  try {
    body();
  } catch (const E& e) {
    return e.what();
  }
  ADD_FAILURE() << "no exception was thrown";
  return "";
}

}  // namespace bora::data::test
