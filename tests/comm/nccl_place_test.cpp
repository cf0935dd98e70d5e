// SPDX-License-Identifier: Apache-2.0
#include "comm/nccl_place.hpp"

#include "comm/communicator.hpp"
#include "comm/nccl_communicator.hpp"
#include "comm/nccl_log.hpp"
#include "tests/support/message_of.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace bora {
namespace {

using bora::testing::message_of;
using ::testing::AllOf;
using ::testing::HasSubstr;

// Row 10: rank 8 of 16 is local rank 0 of the second host, and so on; the choice sees no other
// number.
TEST(NcclDevice, IsTheLocalRank) {
  for (int rank = 0; rank < 16; ++rank) EXPECT_EQ(rank % 8, device_for(rank % 8, 8, 8));
  EXPECT_EQ(2, device_for(2, 3, 8));
}

// Row 11: a scheduler that shows each task one device, whatever its number on the host.
TEST(NcclDevice, IsZeroWhereOneIsVisible) {
  for (int local = 0; local < 8; ++local) EXPECT_EQ(0, device_for(local, 8, 1));
}

// Row 10.
TEST(NcclDevice, AGlobalRankIsRefused) {
  EXPECT_THROW(device_for(8, 8, 8), UsageError);
  EXPECT_THAT(message_of([] { device_for(8, 8, 8); }),
              AllOf(HasSubstr("local rank 8 of 8 ranks"), HasSubstr("not the global rank")));
  EXPECT_THROW(device_for(-1, 8, 8), UsageError);
  EXPECT_THROW(device_for(0, 0, 8), UsageError);
}

TEST(NcclDevice, MoreRanksThanDevicesSaysWhatToSet) {
  EXPECT_THROW(device_for(4, 8, 4), UsageError);
  EXPECT_THAT(message_of([] { device_for(4, 8, 4); }),
              AllOf(HasSubstr("local rank 4"), HasSubstr("8 ranks on this host"),
                    HasSubstr("4 devices visible"), HasSubstr("--ntasks-per-node=4"),
                    HasSubstr("--gpus-per-node=8")));
  EXPECT_EQ(3, device_for(3, 8, 4));  // the refusal is the one's who has none
}

TEST(NcclDevice, NoneIsSaid) {
  EXPECT_THAT(message_of([] { device_for(0, 1, 0); }), HasSubstr("no CUDA device is visible"));
}

// Row 39.
TEST(NcclDevice, AListOfSeveralIsRefused) {
  const NcclPlace place{1, 2, "node1"};
  EXPECT_THROW(device_for({0, 1}, place, 8), UsageError);
  EXPECT_THAT(message_of([&] {
                device_for({0, 1}, place, 8);
              }),
              AllOf(HasSubstr("one process drives one device"), HasSubstr("2 were listed (0, 1)")));
  EXPECT_EQ(1, device_for(std::vector<int>{}, place, 8));
  EXPECT_EQ(5, device_for({5}, place, 8));
  EXPECT_THAT(message_of([&] { device_for({8}, place, 8); }),
              AllOf(HasSubstr("device 8"), HasSubstr("8 devices are visible")));
  EXPECT_THROW(device_for({-1}, place, 8), UsageError);
}

DeviceClaim claim(int rank, const std::string& host, int device, const std::string& uuid,
                  const std::string& version = "NCCL 2.28.9, CUDA 13.0") {
  return {rank, host, device, uuid, "a GPU", version};
}

TEST(NcclClaims, TravelAsText) {
  const DeviceClaim a = claim(3, "node 1", 2, "GPU-42");
  const DeviceClaim b = DeviceClaim::from_text(a.text());
  EXPECT_EQ(a.text(), b.text());
  EXPECT_EQ(3, b.rank);
  EXPECT_EQ("node 1", b.host);
  EXPECT_EQ("NCCL 2.28.9, CUDA 13.0", b.version);
  EXPECT_THROW(DeviceClaim::from_text("3\tnode1"), Error);
  EXPECT_THROW(DeviceClaim::from_text("x\tnode1\t0\tu\tn\tv"), Error);
}

// The fault "SLURM_LOCALID of the batch step wins": both ranks of a host take device 0.
TEST(NcclClaims, TwoRanksOnOneDeviceAreNamed) {
  EXPECT_THAT(claims_fault({claim(0, "a", 0, "GPU-1"), claim(1, "b", 0, "GPU-1"),
                            claim(2, "b", 0, "GPU-2"), claim(3, "b", 1, "GPU-2")}),
              AllOf(HasSubstr("ranks 2 and 3 on host b"), HasSubstr("GPU-2")));
}

// Cyclic placement: ranks 0 and 2 on one host.  And equal UUIDs on two hosts are no fault of ours.
TEST(NcclClaims, OneDeviceEachIsFine) {
  EXPECT_EQ("", claims_fault({claim(0, "a", 0, "GPU-1"), claim(1, "b", 0, "GPU-1"),
                              claim(2, "a", 1, "GPU-2"), claim(3, "b", 1, "GPU-2")}));
}

TEST(NcclClaims, DifferentVersionsAreNamed) {
  EXPECT_THAT(claims_fault({claim(0, "a", 0, "1"), claim(1, "a", 1, "2", "NCCL 2.19.3, CUDA 12.4"),
                            claim(2, "a", 2, "3")}),
              AllOf(HasSubstr("NCCL 2.28.9, CUDA 13.0 on ranks 0, 2"),
                    HasSubstr("NCCL 2.19.3, CUDA 12.4 on rank 1")));
}

TEST(NcclClaims, SummaryListsHosts) {
  EXPECT_THAT(claims_summary({claim(0, "a", 0, "1"), claim(1, "b", 3, "2")}),
              AllOf(HasSubstr("NCCL 2.28.9"), HasSubstr("2 ranks on 2 hosts"),
                    HasSubstr("b: rank 1 -> 3 (a GPU)")));
}

std::string log_of(const std::string& head, const std::vector<std::string>& operations) {
  IssueLog log;
  for (const std::string& o : operations) log.add(o);
  return log.text(head);
}

TEST(NcclLog, FirstDifferenceIsNamed) {
  const std::string a = log_of("node1", {"x", "all_reduce 'y'", "z"});
  const std::string b = log_of("node2", {"x", "broadcast 'y'", "other"});
  EXPECT_THAT(compare_logs({a, a, b}),
              AllOf(HasSubstr("as number 2"), HasSubstr("rank 0 (node1) issued all_reduce 'y'"),
                    HasSubstr("rank 2 (node2) issued broadcast 'y'")));
}

TEST(NcclLog, RanksBehindAreNamed) {
  EXPECT_THAT(compare_logs({log_of("a", {"x", "y"}), log_of("b", {"x"}), log_of("c", {"x", "y"})}),
              AllOf(HasSubstr("rank 1 (b) has issued only 1 of 2"), HasSubstr("next would be y")));
  EXPECT_THAT(compare_logs({log_of("a", {}), log_of("b", {"x"})}),
              AllOf(HasSubstr("rank 0 (a) has issued only 0 of 1"), HasSubstr("x")));
}

TEST(NcclLog, SilentRanksAndEqualLogsAreSaid) {
  EXPECT_THAT(compare_logs({"", log_of("b", {"x"})}), HasSubstr("rank 0 did not answer"));
  EXPECT_EQ("no rank answered", compare_logs({"", ""}));
  EXPECT_THAT(compare_logs({log_of("a", {"x"}), log_of("b", {"x"})}),
              HasSubstr("all ranks have issued the same 1 operation"));
}

// Longer than what is kept, on ranks that are more than that apart.
TEST(NcclLog, KeepsTheLastOperations) {
  IssueLog a, b;
  for (int i = 1; i <= 1000; ++i) {
    a.add(detail::join("op ", i));
    b.add(detail::join("op ", i == 900 ? -1 : i));
  }
  EXPECT_NE(a.hash(), b.hash());
  EXPECT_THAT(compare_logs({a.text("a"), b.text("b")}),
              AllOf(HasSubstr("as number 900"), HasSubstr("issued op 900"), HasSubstr("op -1")));
  for (int i = 1001; i <= 3000; ++i) a.add("more");
  EXPECT_THAT(compare_logs({a.text("a"), b.text("b")}),
              HasSubstr("rank 1 (b) has issued only 1000"));
}

#ifndef BORA_CUDA
// Row 13: forcing what is not there is an error.
TEST(NcclAbsent, SaysHowToBuildIt) {
  const auto host = make_self_communicator();
  EXPECT_THAT(nccl_missing(), HasSubstr("-DBORA_CUDA=ON"));
  EXPECT_THROW(make_nccl_communicator(*host, {}), UsageError);
  EXPECT_THAT(message_of([&] { make_nccl_communicator(*host, {}); }),
              HasSubstr("built without CUDA"));
}
#endif

TEST(NcclInquest, OfOneRankAnswersOnce) {
  NcclInquest inquest(make_self_communicator(), 5.0);
  EXPECT_THAT(inquest.hold(log_of("a", {"x"})), HasSubstr("all ranks have issued the same"));
  EXPECT_THAT(inquest.hold(log_of("a", {"x"})), HasSubstr("held twice"));
}

}  // namespace
}  // namespace bora
