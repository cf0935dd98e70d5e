// SPDX-License-Identifier: Apache-2.0
// The NCCL communicator with the real libraries, on whatever machine this is: one rank with a
// device of its own, or a clear word about what is missing.
#include "comm/communicator.hpp"
#include "comm/nccl_communicator.hpp"
#include "tests/support/message_of.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace bora {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::message_of;
using ::testing::Not;

TEST(NcclOnThisMachine, StartsOrSaysWhyNot) {
  const auto host = make_self_communicator();
  const NcclPlace place{0, 1, "this host"};
  const std::string missing = nccl_missing();
  if (missing.empty()) {
    const auto nccl = make_nccl_communicator(*host, place);  // ends with a sum that is checked
    EXPECT_EQ(1, nccl->size());
    EXPECT_EQ(0, nccl->device());
    nccl->barrier("with the real library");
    const auto part = nccl->split(0, 0);
    EXPECT_EQ(1, part->size());
    return;
  }
  EXPECT_THAT(missing, AllOf(HasSubstr("no CUDA device: "), Not(HasSubstr("double"))));
  EXPECT_THROW(make_nccl_communicator(*host, place), UsageError);
  EXPECT_THAT(message_of([&] { make_nccl_communicator(*host, place); }),
              HasSubstr("NCCL communicator: no CUDA device on host this host: "));
  EXPECT_EQ(missing, nccl_missing());  // asked again, the runtime says the same
}

}  // namespace
}  // namespace bora
