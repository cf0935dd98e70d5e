// SPDX-License-Identifier: Apache-2.0
// Rows 1, 3, 4, 5, 9, 172: what variables of launchers other than MPI's say.
#include "comm/launcher.hpp"
#include "core/error.hpp"
#include "tests/support/message_of.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

namespace bora::detail {
namespace {

using bora::testing::message_of;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

using Environment = std::map<std::string, std::string>;

EnvironmentLookup lookup(const Environment& variables) {
  return [variables](const char* name) -> const char* {
    const auto it = variables.find(name);
    return it == variables.end() ? nullptr : it->second.c_str();
  };
}

const Environment kPlain = {
    {"RANK", "1"}, {"WORLD_SIZE", "4"}, {"LOCAL_RANK", "1"}, {"MASTER_ADDR", "node-7"}};

Environment with(Environment variables, const std::string& name, const std::string& value) {
  variables[name] = value;
  return variables;
}

std::string fault(const Environment& variables) {
  const auto ask = [&] { launch_place(lookup(variables)); };
  EXPECT_THROW(ask(), UsageError);  // exit code 2
  return message_of(ask);
}

TEST(LaunchPlace, NothingSetIsNoPlace) {
  EXPECT_FALSE(launch_place(lookup({})));
  // Left over from a script that also runs mpirun.
  EXPECT_FALSE(launch_place(lookup({{"MASTER_ADDR", "a"}, {"MASTER_PORT", "1"}})));
}

TEST(LaunchPlace, PlainVariablesWithTheDefaultPort) {
  const auto place = launch_place(lookup(kPlain));
  ASSERT_TRUE(place);
  EXPECT_EQ(1, place->rank);
  EXPECT_EQ(4, place->size);
  EXPECT_EQ(1, place->local_rank);
  EXPECT_EQ("node-7", place->master_host);
  EXPECT_EQ(29500, place->master_port);
  EXPECT_EQ(1234, launch_place(lookup(with(kPlain, "MASTER_PORT", "1234")))->master_port);
}

TEST(LaunchPlace, EveryMissingVariableIsNamed) {
  EXPECT_THAT(fault({{"RANK", "0"}}),
              AllOf(HasSubstr("WORLD_SIZE is missing"), Not(HasSubstr("RANK is missing"))));
  EXPECT_THAT(fault({{"WORLD_SIZE", "2"}}),
              AllOf(HasSubstr("; MASTER_ADDR is missing"), HasSubstr("RANK is missing")));
  EXPECT_THAT(fault({{"LOCAL_RANK", "0"}}),
              AllOf(HasSubstr(" RANK is missing"), HasSubstr("WORLD_SIZE is missing")));
  EXPECT_THAT(fault(with(kPlain, "RANK", "")), HasSubstr(" RANK is missing"));
}

TEST(LaunchPlace, EveryVariableThatIsNoNumberIsNamed) {
  for (const char* name : {"RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_PORT"})
    for (const char* value : {"two", "1.5", "3x", " 1", "-1", "99999999999999999999"})
      EXPECT_THAT(fault(with(kPlain, name, value)), HasSubstr(join(name, "=")));
  EXPECT_THAT(fault({{"RANK", "x"}, {"WORLD_SIZE", "y"}, {"MASTER_ADDR", "a"}}),
              AllOf(HasSubstr("RANK='x' is not a whole number"), HasSubstr("WORLD_SIZE='y'")));
  EXPECT_THAT(fault(with(kPlain, "RANK", "4")), HasSubstr("RANK=4 is not below WORLD_SIZE=4"));
  EXPECT_THAT(fault(with(kPlain, "MASTER_PORT", "65536")), HasSubstr("MASTER_PORT=65536"));
}

TEST(LaunchPlace, OneRankNeedsNoMeetingPoint) {
  EXPECT_EQ(1, launch_place(lookup({{"RANK", "0"}, {"WORLD_SIZE", "1"}}))->size);
}

// Row 5: "with only SLURM_PROCID, LOCALID, NTASKS, nodelist set".
TEST(LaunchPlace, SlurmsVariablesAlone) {
  const auto place = launch_place(lookup({{"SLURM_PROCID", "5"},
                                          {"SLURM_LOCALID", "1"},
                                          {"SLURM_NTASKS", "8"},
                                          {"SLURM_NODELIST", "n[003-004,7]"}}));
  ASSERT_TRUE(place);
  EXPECT_EQ(5, place->rank);
  EXPECT_EQ(8, place->size);
  EXPECT_EQ(1, place->local_rank);
  EXPECT_EQ("n003", place->master_host);
  EXPECT_EQ(29500, place->master_port);
}

const Environment kStep = {{"SLURM_JOB_ID", "1042"},
                           {"SLURM_STEP_ID", "3"},
                           {"SLURM_PROCID", "1"},
                           {"SLURM_STEP_NUM_TASKS", "2"},
                           {"SLURM_NTASKS", "8"},
                           {"SLURM_LOCALID", "0"},
                           {"SLURM_JOB_NODELIST", "a[1-4]"},
                           {"SLURM_STEP_NODELIST", "a[2-3]"}};

TEST(LaunchPlace, AStepOfSrunCountsItsOwnTasksAndNodes) {
  const auto place = launch_place(lookup(kStep));
  ASSERT_TRUE(place);
  EXPECT_EQ(2, place->size);
  EXPECT_EQ("a2", place->master_host);
  const auto next = launch_place(lookup(with(kStep, "SLURM_STEP_ID", "4")));
  EXPECT_NE(place->master_port, next->master_port);  // steps at once on one node
  EXPECT_NE(place->token, next->token);
  EXPECT_EQ(1234, launch_place(lookup(with(kStep, "MASTER_PORT", "1234")))->master_port);
  EXPECT_EQ("b", launch_place(lookup(with(kStep, "MASTER_ADDR", "b")))->master_host);
}

// It has the variables of a rank, except for a step's.
TEST(LaunchPlace, ABatchScriptIsNoRank) {
  Environment batch = kStep;
  batch.erase("SLURM_STEP_ID");
  batch.erase("SLURM_STEP_NUM_TASKS");
  EXPECT_FALSE(launch_place(lookup(batch)));
  EXPECT_FALSE(launch_place(lookup(with(kStep, "SLURM_STEP_ID", "4294967291"))));
  EXPECT_FALSE(launch_place(lookup(with(kStep, "SLURM_STEP_NUM_TASKS", "1"))));
}

TEST(LaunchPlace, FaultsOfSlurmsVariablesAreNamed) {
  EXPECT_THAT(fault(with(kStep, "SLURM_PROCID", "9")), HasSubstr("SLURM_PROCID=9 is not below"));
  EXPECT_THAT(fault(with(kStep, "SLURM_STEP_NODELIST", "n[x]")), HasSubstr("n[x]"));
}

TEST(LaunchPlace, PlainVariablesWinOverSlurms) {
  Environment both = kStep;
  both.insert(kPlain.begin(), kPlain.end());
  EXPECT_EQ(4, launch_place(lookup(both))->size);
}

TEST(LaunchPlace, MpisLauncherIsSeen) {
  for (const bool speaks_pmi : {false, true}) {
    EXPECT_FALSE(has_mpi_launcher(lookup(kPlain), speaks_pmi));
    EXPECT_FALSE(has_mpi_launcher(lookup(kStep), speaks_pmi));
    for (const char* name : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "PMI_RANK", "PMIX_RANK"})
      EXPECT_TRUE(has_mpi_launcher(lookup(with(kPlain, name, "1")), speaks_pmi)) << name;
    EXPECT_TRUE(has_mpi_launcher(lookup(with(kStep, "PMIX_RANK", "1")), speaks_pmi));
    EXPECT_EQ(speaks_pmi, has_mpi_launcher(lookup(with(kStep, "PMI_RANK", "1")), speaks_pmi));
  }
}

TEST(LaunchPlace, TheWayCanBeForced) {
  const auto mpi = with(kPlain, "BORA_TRANSPORT", "mpi");
  const auto tcp = with(with(kPlain, "PMIX_RANK", "0"), "BORA_TRANSPORT", "tcp");
  EXPECT_TRUE(has_mpi_launcher(lookup(mpi), false));
  EXPECT_FALSE(has_mpi_launcher(lookup(tcp), true));
  EXPECT_THAT(
      message_of([&] { has_mpi_launcher(lookup(with(kPlain, "BORA_TRANSPORT", "nccl")), false); }),
      HasSubstr("'nccl'"));
}

TEST(FirstHost, OfBracketedLists) {
  const std::map<std::string, std::string> cases = {{"n[003-004,7]", "n003"},
                                                    {"n[5]", "n5"},
                                                    {"n1", "n1"},
                                                    {"n1,n2", "n1"},
                                                    {"m7,n[1-3]", "m7"},
                                                    {"r[1-2]n[03-09]", "r1n03"},
                                                    {"n[7,1-3]-ib", "n7-ib"},
                                                    {"a-b.c.de,f", "a-b.c.de"}};
  for (const auto& [list, first] : cases) EXPECT_EQ(first, first_host(list)) << list;
}

TEST(FirstHost, NonsenseIsNamed) {
  for (const char* list : {"", ",", "n[", "n[]", "n[a]", "n[1", "n]1", "n[1;2]", "n 1"})
    EXPECT_THAT(message_of([&] { first_host(list); }), HasSubstr(join("'", list, "'"))) << list;
}

}  // namespace
}  // namespace bora::detail
