// SPDX-License-Identifier: Apache-2.0
// How NCCL communicators start, and are refused, over the doubles.
#include "tests/comm/nccl_fixture.hpp"

namespace bora {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::message_of;
using testing::NcclTest;
using testing::session;

using NcclStart = NcclTest;

TEST_F(NcclStart, LocalRankChoosesTheDevice) {
  EXPECT_EQ("", nccl_missing());
  EXPECT_EQ(session().local_rank(), make()->device());
}

// Row 11: each task sees one device, another one.
TEST_F(NcclStart, OneVisibleDeviceATaskIsIndexZero) {
  nccl_double::set_devices({"own device of rank " + std::to_string(rank())});
  const auto nccl = make();
  EXPECT_EQ(0, nccl->device());
  Tensor x = Tensor::full({3}, 1, DType::f32, cuda(0));
  nccl->all_reduce(x, ReduceOp::sum, "x");
  EXPECT_EQ(static_cast<float>(size()), x.to_vector<float>()[2]);
}

// The same device shown to all: NCCL itself would refuse later, or hang.
TEST_F(NcclStart, TwoRanksOnOneDeviceAreRefusedByName) {
  if (size() < 2) GTEST_SKIP() << "wants two ranks";
  nccl_double::set_devices({"the only one"});
  EXPECT_THAT(message_of([&] { make(); }),
              AllOf(HasSubstr("ranks 0 and 1 on host " + session().host()), HasSubstr("GPU-"),
                    HasSubstr("start one rank a device")));
}

TEST_F(NcclStart, MoreRanksThanDevicesIsRefusedOnAllRanks) {
  if (size() < 4) GTEST_SKIP() << "wants four ranks";
  nccl_double::set_devices({"0", "1", "2"});
  const std::string text = message_of([&] { make(); });
  EXPECT_THAT(text, AllOf(HasSubstr("rank 3 failed"), HasSubstr("local rank 3 has no device"),
                          HasSubstr("4 ranks on this host, 3 devices")));
  for (const std::string& other : on_all(text)) EXPECT_EQ(text, other);
}

TEST_F(NcclStart, NoDeviceIsSaidWithTheDriversWords) {
  nccl_double::set_devices({});
  EXPECT_THROW(make(), UsageError);
  EXPECT_THAT(message_of([&] { make(); }),
              AllOf(HasSubstr("no CUDA device on host " + session().host()),
                    HasSubstr("no CUDA-capable device is detected")));
  EXPECT_THAT(nccl_missing(), HasSubstr("no CUDA device"));
}

TEST_F(NcclStart, NoDeviceOnOneRankIsAnErrorOnAll) {
  if (size() < 2) GTEST_SKIP() << "wants two ranks";
  if (rank() == 1) nccl_double::set_devices({});
  EXPECT_THAT(message_of([&] { make(); }), AllOf(HasSubstr("rank 1"), HasSubstr("no CUDA device")));
}

// Row 39.
TEST_F(NcclStart, AListOfDevicesIsRefused) {
  options_.devices = {0, 1};
  EXPECT_THROW(make(), UsageError);
  options_.devices = {rank() + 4};
  EXPECT_EQ(rank() + 4, make()->device());
}

TEST_F(NcclStart, DifferentVersionsAreRefusedByName) {
  if (size() < 2) GTEST_SKIP() << "wants two ranks";
  nccl_double::Faults old;
  old.version = 21903;
  set_faults_on(1, old);
  EXPECT_THAT(message_of([&] { make(); }), AllOf(HasSubstr("different libraries"),
                                                 HasSubstr("NCCL 2.19.3"), HasSubstr("on rank 1")));
}

TEST_F(NcclStart, AFailureOnOneRankIsAFailureOnAll) {
  nccl_double::Faults fault;
  fault.init_fails = true;
  set_faults_on(size() - 1, fault);
  options_.first_timeout_s = 1;
  EXPECT_THAT(message_of([&] { make(); }),
              AllOf(HasSubstr("rank " + std::to_string(size() - 1) + " ("),
                    HasSubstr("NCCL could not start"), HasSubstr("unhandled system error")));
  nccl_double::set_faults({});
  options_.first_timeout_s = 30;
  EXPECT_EQ(size(), make()->size());  // nothing is left of the failed start
}

TEST_F(NcclStart, AStartThatHangsIsBounded) {
  nccl_double::Faults fault;
  fault.init_hangs = true;
  set_faults_on(0, fault);
  options_.first_timeout_s = 1;
  EXPECT_THAT(message_of([&] { make(); }),
              AllOf(HasSubstr("NCCL is not ready after 1 s"), HasSubstr("NCCL_DEBUG")));
}

// The sum with which a start ends.
TEST_F(NcclStart, AFirstOperationThatHangsIsBounded) {
  nccl_double::Faults fault;
  fault.hang_operation = 1;
  set_faults_on(0, fault);
  options_.first_timeout_s = 1;
  EXPECT_THAT(message_of([&] { make(); }),
              AllOf(HasSubstr("the first operation"), HasSubstr("time is over (limit 1 s)")));
}

TEST_F(NcclStart, NonsenseOptionsAreRefused) {
  options_.timeout_s = 0;
  EXPECT_THROW(make(), UsageError);
  options_.timeout_s = 1;
  options_.check_every = -1;
  EXPECT_THROW(make(), UsageError);
}

}  // namespace
}  // namespace bora
