// SPDX-License-Identifier: Apache-2.0
// Outputs that cannot be: told with the path in the way, what was found and what was wanted
// (row 88).
#include "data/output_place.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <functional>

#include "core/error.hpp"
#include "data/image.hpp"
#include "tests/data/pipeline_support.hpp"

namespace bora::data::test {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;

std::string refusal(const std::function<void()>& body) {
  try {
    body();
  } catch (const UsageError& e) {
    return e.what();
  }
  return "nothing was refused";
}

class OutputPlace : public ::testing::Test {
 protected:
  /// What check_folder says, and make_folder as well, which then leaves nothing.
  std::string of_folder(const std::string& folder) const {
    const std::string text = refusal([&] { check_folder(folder, "--to"); });
    EXPECT_EQ(refusal([&] { make_folder(folder, "--to"); }), text);
    return text;
  }
  TempFolder folder_;
};

TEST_F(OutputPlace, AFolderIsMadeOnlyWhereItIsAskedFor) {
  const std::string inner = folder_.file("a/b/c/");
  check_folder(inner, "--to");
  EXPECT_FALSE(fs::exists(folder_.file("a")));
  make_folder(inner, "--to");
  EXPECT_TRUE(fs::is_directory(inner));
  make_folder(inner, "--to");
  make_folder_of(folder_.file("d/x.csv"), "--csv");
  EXPECT_TRUE(fs::is_directory(folder_.file("d")));
  EXPECT_TRUE(fs::is_empty(folder_.file("d")));
}

TEST_F(OutputPlace, WhatIsInTheWayIsNamed) {
  write_file(folder_.file("file"), "");
  for (const char* below : {"file", "file/a", "file/a/b"})
    EXPECT_EQ(of_folder(folder_.file(below)),
              "--to: '" + folder_.file("file") + "' is a file, wanted a folder");
  fs::create_symlink("/nowhere/at/all", folder_.file("link"));
  EXPECT_EQ(of_folder(folder_.file("link/a")),
            "--to: '" + folder_.file("link") + "' is a link to nothing, wanted a folder");
  EXPECT_THAT(of_folder(folder_.file(std::string(300, 'x'))),
              AllOf(HasSubstr("--to: '" + folder_.path()), HasSubstr("File name too long")));
  EXPECT_THAT(refusal([] { make_folder("/proc/bora/a", "--to"); }),
              HasSubstr("--to: the folder '/proc/bora/a' cannot be made: "));
  EXPECT_EQ(of_folder(""), "--to: no folder is named");
  fs::create_directory(folder_.file("a.csv"));
  EXPECT_EQ(refusal([&] { check_folder_of(folder_.file("a.csv"), "--csv"); }),
            "--csv: '" + folder_.file("a.csv") + "' is a folder, wanted a file");
  EXPECT_EQ(refusal([&] { make_folder_of(folder_.file("file/a.csv"), "--csv"); }),
            "--csv: '" + folder_.file("file") + "' is a file, wanted a folder");
}

TEST_F(OutputPlace, AFolderThatMayNotBeWrittenToIsNamed) {
  fs::create_directory(folder_.file("mine"));
  fs::permissions(folder_.file("mine"), static_cast<fs::perms>(0555));
  fs::permissions(folder_.path(), fs::perms::all);
  const bool is_root = ::geteuid() == 0;
  if (is_root) {
    // access() asks for the real user.
    ASSERT_EQ(::setresuid(65534, 65534, 0), 0);
  }
  const std::string text = of_folder(folder_.file("mine/a/b"));
  if (is_root) {
    ASSERT_EQ(::setresuid(0, 0, 0), 0);
  }
  fs::permissions(folder_.file("mine"), fs::perms::owner_all);
  EXPECT_EQ(text, "--to: the folder '" + folder_.file("mine") +
                      "' may not be written to (Permission denied); wanted one that may");
}

TEST_F(OutputPlace, SuffixesThatCanBeWrittenAreNamed) {
  require_suffix("a/b.CSV", {".csv", ".json"}, "--output");
  EXPECT_EQ(refusal([] {
              require_suffix("a.csv/b.txt", {".csv", ".json"}, "--output=b");
            }),
            "--output=b: wanted a file name in .csv or .json");
  EXPECT_EQ(refusal([] { require_suffix(".png", {".png"}, "picture"); }),
            "picture: wanted a file name in .png");
  EXPECT_TRUE(has_file_suffix("x/a.nii.gz"));
  EXPECT_TRUE(has_file_suffix("a.H5"));
  EXPECT_FALSE(has_file_suffix("a.h5/b"));
  EXPECT_FALSE(has_file_suffix("run.v2"));
  EXPECT_FALSE(has_file_suffix("."));
}

TEST_F(OutputPlace, PicturesAreWrittenAsPngAlone) {
  const std::vector<uint8_t> grey(12, 7);
  for (const char* name : {"a.jpg", "a", "a.png.tif", "png"}) {
    EXPECT_THAT(refusal([&] { write_png(folder_.file(name), 2, 2, grey); }),
                AllOf(HasSubstr(folder_.file(name)), HasSubstr("wanted a file name in .png")));
    EXPECT_FALSE(fs::exists(folder_.file(name)));
  }
  write_png(folder_.file("a.PNG"), 2, 2, grey);
  EXPECT_TRUE(fs::exists(folder_.file("a.PNG")));
}

}  // namespace
}  // namespace bora::data::test
