// SPDX-License-Identifier: Apache-2.0
// Row 102: what is one group of a split where nobody says it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <string>

#include "data/volume_cases.hpp"
#include "tests/data/volume_fixture.hpp"
#include "tests/support/message_of.hpp"

namespace bora::data::test {
namespace {

using bora::testing::message_of;

class VolumeGroups : public VolumeTest {
 protected:
  std::map<std::string, std::string> groups(const std::string& list = "") const {
    VolumesConfig config = pairs();
    config.list = list;
    config.preflight = "headers";
    std::map<std::string, std::string> out;
    for (const VolumeCase& c : find_volume_cases(config).cases) out[c.name] = c.group;
    return out;
  }
  void write_in(const std::string& folder, const std::string& name) const {
    std::filesystem::create_directories(root + "/" + folder);
    write_pair(folder + "/" + name, places({4, 3, 2}), no_labels({4, 3, 2}));
  }
};

// The last folder alone would bring days together, and each patient to both sides.
TEST_F(VolumeGroups, FilesWithoutNamesInFoldersThatAreCalledAlikeAreGroupsOfTheirOwn) {
  for (const char* folder : {"p1/day1", "p1/day2", "p2/day1", "p3/other"}) write_in(folder, "");
  const std::map<std::string, std::string> wanted{
      {"p1/day1", "p1/day1"}, {"p1/day2", "day2"}, {"p2/day1", "p2/day1"}, {"p3/other", "other"}};
  EXPECT_EQ(groups(), wanted);
}

// Boxes of one volume stay together, two volumes of one name do not.
TEST_F(VolumeGroups, ImagesOfOneNameInAManifestAreGroupsOfTheirOwn) {
  for (const char* folder : {"p1", "p2", "p3"}) write_in(folder, "scan");
  write_in("p4", "alone");
  write_list("m.csv",
             "case,image,group,box\n"
             "a,p1/scan_image.h5,,\"0:2,,\"\n"
             "b,p1/scan_image.h5,,\"2:4,,\"\n"
             "c,p2/scan_image.h5,,\n"
             "d,p3/scan_image.h5,given,\n"
             "e,p4/alone_image.h5,,\n");
  const std::map<std::string, std::string> wanted{
      {"a", "p1/scan"}, {"b", "p1/scan"}, {"c", "p2/scan"}, {"d", "given"}, {"e", "alone"}};
  EXPECT_EQ(groups("m.csv"), wanted);
}

// Links and other spellings of a path are one file: its cells may not train and validate.
TEST_F(VolumeGroups, OneFileByAnyNameIsOneFile) {
  write_pair("a", places({4, 3, 2}), no_labels({4, 3, 2}));
  std::filesystem::create_symlink("a_image.h5", root + "/sym_image.h5");
  std::filesystem::create_hard_link(root + "/a_image.h5", root + "/hard_image.h5");
  VolumesConfig config = pairs();
  config.list = "m.csv";
  for (const std::string other : {"./a_image.h5", "sym_image.h5", "hard_image.h5"}) {
    const auto list = [&](const std::string& box, const std::string& part) {
      write_list("m.csv",
                 "case,image,label,part,box\na,a_image.h5,a_label.h5,training,\"0:2,,\"\nb," +
                     other + ",a_label.h5," + part + ",\"" + box + ",,\"\n");
    };
    list("1:4", "validation");
    EXPECT_THAT(message_of([&] { find_volume_cases(config); }),
                ::testing::HasSubstr("may come to different sides of the split"))
        << other;
    list("2:4", "validation");
    EXPECT_EQ(find_volume_cases(config).cases.size(), 2U) << other;
  }
}

TEST_F(VolumeGroups, NamesThatLeadOutOfAFolderAreRefused) {
  write_pair("a", places({4, 3, 2}), no_labels({4, 3, 2}));
  VolumesConfig config = pairs();
  config.list = "m.csv";
  for (const char* name : {"../y", "x/../../y", "..", "/tmp/y", "a\x1b[2J", "./a"}) {
    write_list("m.csv", std::string("case,image,label\n") + name + ",a_image.h5,a_label.h5\n");
    EXPECT_THAT(message_of([&] { find_volume_cases(config); }),
                ::testing::HasSubstr("cannot be the name of a case"))
        << name;
  }
  write_list("m.csv", "case,image,label\nx/..y,a_image.h5,a_label.h5\n");
  EXPECT_EQ(find_volume_cases(config).cases.size(), 1U);
}

TEST_F(VolumeGroups, FoldersThatLookLikePatientsAreTold) {
  VolumesConfig config = pairs();
  config.preflight = "headers";
  const auto told = [&] {
    ::testing::internal::CaptureStderr();
    find_volume_cases(config);
    return ::testing::internal::GetCapturedStderr();
  };
  for (const char* folder : {"p1", "p2", "p3"}) write_in(folder, std::string(folder) + "_scan");
  EXPECT_EQ(told(), "");  // one each
  write_in("p2/later", "again");
  EXPECT_EQ(told(),
            "volumes: 1 of 3 folders in '" + root +
                "' hold several images ('p2' 2), each of which is a group of its own: a split "
                "may part them. If a folder is a patient, name it: by volumes.group_pattern, "
                "where names of cases have it, or in a manifest's column 'group'\n");
  config.group_pattern = "(.)";
  EXPECT_EQ(told(), "");  // somebody said it
  config.group_pattern.clear();
  for (const char* folder : {"p1", "p3"}) std::filesystem::remove_all(root + "/" + folder);
  write_in("other", "a");
  EXPECT_EQ(told(), "");  // two folders may be parts of a set
}

}  // namespace
}  // namespace bora::data::test
