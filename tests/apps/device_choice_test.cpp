// SPDX-License-Identifier: Apache-2.0
// What computes: rules 10, 11, 13 of the feature table, without a device.
#include "apps/common/device_choice.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "comm/communicator.hpp"
#include "tests/support/message_of.hpp"

namespace bora::apps {
namespace {

using bora::testing::message_of;
using ::testing::AllOf;
using ::testing::HasSubstr;

const DeviceSight kNone{
    .n_devices = 0, .why_none = "no CUDA driver; install one", .emulated = false};
const DeviceSight kFour{.n_devices = 4, .why_none = {}, .emulated = false};
const DeviceSight kEmulator{.n_devices = 1, .why_none = {}, .emulated = true};

// Feature 13: the GPU if there is one, the CPU otherwise, and the reason is told.
TEST(DeviceChoice, AutoTakesADeviceWhereThereIsOne) {
  EXPECT_EQ(decide_device("auto", kNone, 0, 1).text(), "cpu (no CUDA driver)");
  EXPECT_EQ(decide_device("auto", kFour, 0, 1).device, cuda(0));
  EXPECT_EQ(decide_device("cpu", kFour, 0, 1).text(), "cpu (device=cpu)");
}

// A test build's emulator is a thousand times slower than the CPU: only who asks gets it.
TEST(DeviceChoice, AutoDoesNotTakeTheEmulator) {
  EXPECT_EQ(decide_device("auto", kEmulator, 0, 1).device, cpu());
  EXPECT_THAT(decide_device("auto", kEmulator, 0, 1).text(), HasSubstr("emulator"));
  EXPECT_EQ(decide_device("cuda", kEmulator, 0, 1).device, cuda(0));
}

// Feature 13: a device that is not there cannot be forced; the message says why and what to do.
TEST(DeviceChoice, AnAbsentDeviceCannotBeForced) {
  EXPECT_THROW(decide_device("cuda", kNone, 0, 1), UsageError);
  EXPECT_THAT(
      message_of([] { decide_device("cuda", kNone, 0, 1); }),
      AllOf(HasSubstr("device=cuda: there is no CUDA device here: no CUDA driver; install one"),
            HasSubstr("Wanted cpu or auto"), HasSubstr("--gpus-per-task=1")));
  EXPECT_THROW(decide_device("gpu", kFour, 0, 1), Error);
}

// Features 10 and 11: the device is the local rank's; one visible device is index 0 for all.
TEST(DeviceChoice, IsByLocalRank) {
  for (int local = 0; local < 4; ++local)
    EXPECT_EQ(decide_device("auto", kFour, local, 4).device, cuda(local));
  EXPECT_EQ(decide_device("auto", {1, {}, false}, 3, 4).device, cuda(0));
  EXPECT_THROW(decide_device("auto", kFour, 4, 8), UsageError);
  EXPECT_THAT(message_of([] { decide_device("cuda", kFour, 5, 8); }),
              AllOf(HasSubstr("local rank 5 has no device"), HasSubstr("device=cpu")));
}

TEST(DeviceChoice, RanksMustNotShareADeviceNorMixKinds) {
  const DeviceChoice a{cuda(0), "NVIDIA H200", "GPU-a"}, b{cuda(0), "NVIDIA H200", "GPU-b"};
  const DeviceChoice host{cpu(), "no CUDA driver", {}};
  EXPECT_EQ(choices_fault({"n1", "n1"}, {a, b}), "");
  EXPECT_EQ(choices_fault({"n1", "n2"}, {a, a}), "");
  EXPECT_EQ(choices_fault({"n1", "n1"}, {host, host}), "");
  EXPECT_THAT(choices_fault({"n1", "n2", "n1"}, {a, b, a}),
              AllOf(HasSubstr("ranks 0 and 2 on host n1"), HasSubstr("GPU-a"),
                    HasSubstr("cuda:0 NVIDIA H200")));
  EXPECT_THAT(choices_fault({"n1", "n2"}, {a, host}),
              AllOf(HasSubstr("rank 0 on host n1 would compute on cuda:0 NVIDIA H200"),
                    HasSubstr("rank 1 on host n2 on cpu (no CUDA driver)")));
}

// Whoever asks for the CPU gets it without a look at any driver.
TEST(DeviceChoice, TheCpuIsAlwaysThere) {
  EXPECT_THAT(describe_devices(), HasSubstr("cpu"));
  EXPECT_EQ(decide_device("cpu", {}, 7, 8).device, cpu());
}

// The group of one rank for tensors on a device: its tensors are there, its scalars on the host.
TEST(SelfCommunicator, OfADeviceRefusesHostTensors) {
  const auto self = make_self_communicator(DeviceType::cuda);
  EXPECT_EQ(self->device_type(), DeviceType::cuda);
  EXPECT_EQ(self->control().device_type(), DeviceType::cpu);
  Tensor x = Tensor::zeros({3}, DType::f32);
  EXPECT_THAT(message_of([&] { self->all_reduce(x, ReduceOp::sum, "x"); }),
              HasSubstr("the tensor is on cpu, this communicator works on cuda"));
  EXPECT_EQ(self->all_reduce(int64_t{7}, ReduceOp::sum, "n"), 7);
  EXPECT_EQ(self->broadcast_text("word", 0, "text"), "word");
}

}  // namespace
}  // namespace bora::apps
