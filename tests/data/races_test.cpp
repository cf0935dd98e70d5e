// SPDX-License-Identifier: Apache-2.0
// Files that change, go or are cut between two looks of one process (rows 75, 88, 91).  Each test
// makes the change at a place of its choice: nothing waits for luck.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/inotify.h>
#include <unistd.h>

#include <chrono>
#include <functional>
#include <future>

#include "data/volume_statistics.hpp"
#include "data/wind_check.hpp"
#include "tests/data/held_lock.hpp"
#include "tests/data/volume_fixture.hpp"
#include "tests/data/volume_reference.hpp"
#include "tests/data/wind_fixture.hpp"

namespace bora::data::test {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

/// The same bytes, written at another time.
void touch(const std::string& path) {
  fs::last_write_time(path, fs::last_write_time(path) + std::chrono::seconds(5));
}

/// Tells when this file is opened, by whomever.
class OpenWatch {
 public:
  explicit OpenWatch(const std::string& path) {
    EXPECT_GE(::inotify_add_watch(fd_, path.c_str(), IN_OPEN), 0) << path;
  }
  ~OpenWatch() { ::close(fd_); }
  OpenWatch(const OpenWatch&) = delete;
  OpenWatch& operator=(const OpenWatch&) = delete;
  /// False if nobody did within 30 s.
  bool wait() const {
    pollfd event{.fd = fd_, .events = POLLIN, .revents = 0};
    return ::poll(&event, 1, 30000) == 1;
  }

 private:
  const int fd_ = ::inotify_init1(IN_CLOEXEC);
};

class WindRaces : public WindDatasetTest {
 protected:
  /// What the look into a case says when `change` comes behind the reading of the values.
  std::vector<std::string> told(const std::function<void()>& change,
                                PreflightDepth depth = PreflightDepth::values) const {
    WindCase c = find_wind_files(config_).cases.at(0);
    std::vector<std::string> problems;
    look_into(config_, c, depth, problems, change);
    return problems;
  }
  std::string name() const { return find_wind_files(config_).cases.at(0).name; }
};

TEST_F(WindRaces, AFileThatChangesWhileItIsLookedIntoIsNamed) {
  const std::string wind_path = wind(name()), mask_path = mask(name());
  const auto changed = [](const std::string& path) {
    return HasSubstr("'" + path + "' has changed while it was looked into");
  };
  EXPECT_THAT(told([] {}), IsEmpty());
  EXPECT_THAT(told([&] { touch(mask_path); }), ElementsAre(changed(mask_path)));
  EXPECT_THAT(told([&] { touch(wind_path); }), ElementsAre(changed(wind_path)));
  EXPECT_THAT(told([&] { touch(mask_path), touch(wind_path); }),
              ElementsAre(changed(mask_path), changed(wind_path)));
  // Another file of the name and time, and longer.
  const auto time = fs::last_write_time(wind_path);
  EXPECT_THAT(told([&] {
                write_file(folder_.file("new"), read_file(wind_path) + " ");
                fs::last_write_time(folder_.file("new"), time);
                fs::rename(folder_.file("new"), wind_path);
              }),
              ElementsAre(changed(wind_path)));
  EXPECT_THAT(told([&] { fs::remove(mask_path); }),
              ElementsAre(HasSubstr("'" + mask_path + "': No such file or directory (errno 2)")));
}

TEST_F(WindRaces, AHeaderIsLookedAtOnce) {
  int n_calls = 0;
  EXPECT_THAT(told([&] { ++n_calls; }, PreflightDepth::headers), IsEmpty());
  EXPECT_EQ(n_calls, 0);
}

TEST_F(WindRaces, AFileThatChangesBehindTheLookIsNotRead) {
  const WindDataset data(config_);
  const auto read = [&] { return data.read(0, WindowChoice::centred()); };
  EXPECT_NO_THROW(read());
  touch(data.at(0).mask_path);
  EXPECT_THAT(message_of(read), HasSubstr("'" + data.at(0).mask_path +
                                          "' has changed since the start of the program; start "
                                          "again"));
  fs::remove(data.at(0).mask_path);
  EXPECT_THAT(message_of(read), HasSubstr("'" + data.at(0).mask_path + "': No such file"));
}

class VolumeRaces : public VolumeTest {
 protected:
  std::string image() const { return root + "/a_image.h5"; }
  VolumesConfig one_case() const {
    write_pair("a", places({4, 3, 2}), no_labels({4, 3, 2}));
    return pairs();
  }
};

TEST_F(VolumeRaces, AFileThatChangesBetweenHeaderAndValuesIsNamed) {
  const VolumesConfig config = one_case();
  std::future<VolumeCases> look;
  {
    const HeldLock library_is_busy;
    const OpenWatch watch(image());
    look = std::async(std::launch::async, [&] { return find_volume_cases(config, nullptr, {}); });
    // Its stamp is taken before it is opened, to see what it is; then the library is waited for.
    ASSERT_TRUE(watch.wait());
    touch(image());
  }
  EXPECT_THAT(message_of([&] { look.get(); }),
              AllOf(HasSubstr("1 problem(s)"), HasSubstr("'" + image() +
                                                         "' has changed since the start of the "
                                                         "program; start again")));
}

TEST_F(VolumeRaces, AFileThatChangesBehindTheLookIsNotRead) {
  const VolumeDataset data(one_case());
  const auto read = [&] { return data.read(0, WindowChoice::centred()); };
  EXPECT_NO_THROW(read());
  touch(image());
  EXPECT_THAT(message_of(read), HasSubstr("'" + image() + "' has changed since the start"));
  fs::remove(image());
  EXPECT_THAT(message_of(read), HasSubstr("'" + image() + "': No such file"));
}

// The stamp says the same, but the second pass finds other values than the first one counted.
TEST_F(VolumeRaces, ValuesThatChangeWhilePercentilesAreLookedForAreTold) {
  int n_slabs = 0;
  const auto read = [&](const Box& box) {
    return Tensor::full({box.count.d, 1, 1, 1}, ++n_slabs <= 2 ? 1.0 : 300.0, DType::f32);
  };
  const StatisticsOptions options{.percentiles = {1, 99}, .name = "'a.nii'"};
  EXPECT_THAT(message_of([&] {
                volume_statistics({{}, {4, 1, 1}}, 1, read, options, 2);
              }),
              HasSubstr("'a.nii' has changed while its percentiles were looked for; start again"));
  EXPECT_EQ(n_slabs, 4) << "two passes of two slabs";
}

// Opened whole, cut before its values are read.
TEST(FileRaces, AFileThatIsCutWhileItIsOpenIsTold) {
  TempFolder folder;
  for (const std::string name : {"int16_le.nii", "array_order_xyz.npy"}) {
    const std::string path = folder.file(name);
    fs::copy_file(kVolumes + name, path);
    const std::string order = name.ends_with(".npy") ? "xyz" : "";
    const auto volume = open_volume({path, {}, order});
    const auto bytes = fs::file_size(path);
    fs::resize_file(path, bytes - 3);
    EXPECT_THAT(message_of([&] { read_all(*volume); }),
                HasSubstr("reading '" + path + "': it ends after " + std::to_string(bytes - 3) +
                          " bytes, " + std::to_string(bytes) + " were wanted"));
  }
}

}  // namespace
}  // namespace bora::data::test
