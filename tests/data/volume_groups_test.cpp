// SPDX-License-Identifier: Apache-2.0
// Row 102: what is one group of a split where nobody says it.
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "data/volume_cases.hpp"
#include "tests/data/volume_fixture.hpp"

namespace bora::data::test {
namespace {

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

}  // namespace
}  // namespace bora::data::test
