// SPDX-License-Identifier: Apache-2.0
#include "comm/launcher.hpp"

#include <gtest/gtest.h>

#include <map>

namespace bora::detail {
namespace {

EnvironmentLookup environment(std::map<std::string, std::string> variables) {
  return [variables = std::move(variables)](const char* name) -> const char* {
    const auto it = variables.find(name);
    return it == variables.end() ? nullptr : it->second.c_str();
  };
}

bool names(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

// Row 4: nothing set is a world of one.
TEST(Launcher, NothingSetIsFine) {
  EXPECT_EQ("", launcher_fault(1, environment({})));
  EXPECT_FALSE(has_launcher(environment({})));
}

TEST(Launcher, AnotherMpisLauncherIsNamed) {
  const auto open = launcher_fault(1, environment({{"OMPI_COMM_WORLD_SIZE", "4"}}));
  EXPECT_TRUE(names(open, "OMPI_COMM_WORLD_SIZE=4") && names(open, "another MPI")) << open;
  EXPECT_TRUE(names(launcher_fault(1, environment({{"PMI_SIZE", "2"}})), "PMI_SIZE=2"));
  EXPECT_TRUE(has_launcher(environment({{"PMI_SIZE", "2"}})));
}

TEST(Launcher, AgreementIsFine) {
  EXPECT_EQ("", launcher_fault(4, environment({{"OMPI_COMM_WORLD_SIZE", "4"}})));
  EXPECT_EQ("", launcher_fault(1, environment({{"OMPI_COMM_WORLD_SIZE", "1"}})));
  EXPECT_EQ("", launcher_fault(1, environment({{"PMI_SIZE", "what?"}})));
}

// A batch script, or a shell from salloc: SLURM_NTASKS says what may be started, not what was.
TEST(Launcher, SlurmBatchScriptWithoutSrunIsFine) {
  EXPECT_EQ("", launcher_fault(1, environment({{"SLURM_NTASKS", "8"}})));
  EXPECT_EQ("", launcher_fault(1, environment({{"SLURM_NTASKS", "8"}, {"SLURM_PROCID", "0"}})));
  EXPECT_EQ("", launcher_fault(1, environment({{"SLURM_NTASKS", "8"},
                                               {"SLURM_PROCID", "0"},
                                               {"SLURM_STEP_ID", "4294967291"},
                                               {"SLURM_STEP_NUM_TASKS", "8"}})));
}

TEST(Launcher, SrunWithoutACommonProtocolIsNamed) {
  const auto text = launcher_fault(1, environment({{"SLURM_NTASKS", "8"},
                                                   {"SLURM_PROCID", "3"},
                                                   {"SLURM_STEP_ID", "0"},
                                                   {"SLURM_STEP_NUM_TASKS", "8"}}));
  EXPECT_TRUE(names(text, "srun started 8 tasks") && names(text, "pmix")) << text;
  EXPECT_EQ("", launcher_fault(1, environment({{"SLURM_PROCID", "0"},
                                               {"SLURM_STEP_ID", "0"},
                                               {"SLURM_STEP_NUM_TASKS", "1"}})));
}

// mpirun starts its helpers through srun: the step's tasks are then one a node, not the ranks.
TEST(Launcher, MpirunInsideASlurmStepDecides) {
  EXPECT_EQ("", launcher_fault(1, environment({{"OMPI_COMM_WORLD_SIZE", "1"},
                                               {"SLURM_PROCID", "0"},
                                               {"SLURM_STEP_ID", "1"},
                                               {"SLURM_STEP_NUM_TASKS", "2"}})));
}

}  // namespace
}  // namespace bora::detail
