// SPDX-License-Identifier: Apache-2.0
// Which devices there are, and why not.
#include "kernels/cuda/device.hpp"

#include <cuda_runtime_api.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/backend.hpp"
#include "tests/nccl_double/nccl_double.hpp"

namespace bora::kernels::cuda {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::ThrowsMessage;

class DeviceTest : public testing::Test {
 protected:
  ~DeviceTest() override {
    nccl_double::set_driver_version(CUDART_VERSION);
    nccl_double::set_devices({"0", "1", "2", "3", "4", "5", "6", "7"});
  }
};

TEST_F(DeviceTest, AreCountedAndDescribed) {
  nccl_double::set_devices({"a", "b"});
  EXPECT_EQ(n_devices(), 2);
  EXPECT_THAT(why_no_cuda(), IsEmpty());
  EXPECT_EQ(device_description(1), "double of a device, 141 GiB, 132 SMs, sm_90");
  EXPECT_NE(device_uuid(0), device_uuid(1));
  EXPECT_EQ(device_uuid(0).size(), 40u);
  EXPECT_EQ(free_device_memory(0), int64_t{120} << 20);  // the double's answer
  EXPECT_THAT(versions_text(), HasSubstr("driver for"));
  EXPECT_FALSE(is_emulated());
  EXPECT_THAT([] { device_description(2); },
              ThrowsMessage<Error>(HasSubstr("no CUDA device 2: this process sees 2")));
  EXPECT_THROW(bind_device(-1), Error);
}

// Row 35 of the traps: without a driver the runtime leaves the count as it was.
TEST_F(DeviceTest, ThereAreNoneWithoutADriver) {
  nccl_double::set_driver_version(0);
  EXPECT_EQ(n_devices(), 0);
  EXPECT_THAT(why_no_cuda(), HasSubstr("no NVIDIA driver"));
  EXPECT_THAT(versions_text(), HasSubstr("no NVIDIA driver"));
  EXPECT_EQ(driver_version(), 0);
  EXPECT_THAT([] { device_uuid(0); }, ThrowsMessage<Error>(HasSubstr("no NVIDIA driver")));
  EXPECT_EQ(cudaGetLastError(), cudaSuccess) << "asking must not look like a failed launch later";
}

TEST_F(DeviceTest, AnOldDriverIsNamed) {
  nccl_double::set_driver_version(11040);
  EXPECT_EQ(n_devices(), 0);
  EXPECT_THAT(why_no_cuda(), HasSubstr("too old: it supports CUDA 11.4"));
}

TEST_F(DeviceTest, AProcessMayBeShownNone) {
  nccl_double::set_devices({});
  EXPECT_EQ(n_devices(), 0);
  EXPECT_THAT(why_no_cuda(), HasSubstr("CUDA_VISIBLE_DEVICES"));
  const bool before = has_backend(DeviceType::cuda);
  install_cuda_backend();
  EXPECT_EQ(has_backend(DeviceType::cuda), before);
}

}  // namespace
}  // namespace bora::kernels::cuda
