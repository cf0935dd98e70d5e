// SPDX-License-Identifier: Apache-2.0
// Which rank draws from a volume without labelled cells is chance: whoever it is tells it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "comm/communicator.hpp"
#include "data/atomic_file.hpp"
#include "data/hdf5.hpp"
#include "data/volume_dataset.hpp"
#include "tests/support/mpi_main.hpp"
#include "tests/support/shared_folder.hpp"

namespace bora::data::test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(ForegroundRanks, VolumesWithoutForegroundAreNamedByWhomeverTheyMeet) {
  const auto ranks = make_communicator(bora::testing::session());
  const bora::testing::SharedFolder folder(*ranks);
  ranks->agree("writing volumes", [&] {
    if (ranks->rank() != 0) return;
    for (int i = 0; i < 5; ++i) {
      hdf5::File file = hdf5::File::create(folder.path() + "/case" + std::to_string(i) + ".h5");
      const hdf5::Lock lock;
      file.write_dataset("raw", Tensor::full({5, 5, 5}, 1, DType::f32));
      file.write_dataset("label", Tensor::zeros({5, 5, 5}, DType::u8));
      file.close();
    }
  });
  VolumesConfig config;
  config.root = folder.path();
  config.image_suffix = config.label_suffix = ".h5";
  config.patch = {3, 3, 3};
  config.foreground = 1;
  const VolumeDataset data(config, ranks.get());
  const auto last = static_cast<int64_t>(data.size()) - 1;
  ::testing::internal::CaptureStderr();
  if (ranks->rank() == ranks->size() - 1)
    for (int64_t i = 0; i <= last; ++i) data.patch_window(i, {1, static_cast<uint64_t>(i)});
  const std::string log = ::testing::internal::GetCapturedStderr();
  if (ranks->rank() != ranks->size() - 1) return;
  for (const char* name : {"case0", "case1", "case2"})
    EXPECT_THAT(log, HasSubstr("/" + std::string(name) + ".h5' (case '" + name + "')"));
  EXPECT_THAT(log, HasSubstr("further such cases are not named"));
  EXPECT_THAT(log, Not(HasSubstr("case3")));
}

}  // namespace
}  // namespace bora::data::test
