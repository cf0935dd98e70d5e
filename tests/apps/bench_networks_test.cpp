// SPDX-License-Identifier: Apache-2.0
// Every network that we ship, trained a step: no convolution may run in a library's reference loops
// (up to 2000 times slower).  tests/kernels has the same for single layers of more sizes.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <string>
#include <vector>

#include "apps/bench/step.hpp"
#include "comm/communicator.hpp"
#include "kernels/conv3d.hpp"

namespace bora::bench {
namespace {

/// One step for each config file of the repository, and one of the plain U-Net.
std::vector<StepConfig> shipped() {
  std::vector<StepConfig> out;
  for (const auto& entry : std::filesystem::directory_iterator("configs")) {
    if (entry.path().extension() != ".toml") continue;
    unet3d::Config config;
    config_load_file(config, entry.path().string());
    StepConfig step;
    step.model = config.model;
    step.loss = config.loss;
    step.precision = config.precision;
    out.push_back(step);
  }
  EXPECT_GE(out.size(), 2u) << "configs/*.toml were not found";
  StepConfig plain;
  plain.network = "plain";
  for (const int64_t base : {8, 16}) {
    plain.model.base = base;
    out.push_back(plain);
  }
  return out;
}

class ShippedNetworks : public testing::TestWithParam<const char*> {};

TEST_P(ShippedNetworks, NeverFallToReferenceLoops) {
#if defined(__x86_64__)
  if (!__builtin_cpu_supports("avx2")) GTEST_SKIP() << "this processor has no AVX2";
#endif
  const auto ranks = make_self_communicator();
  for (StepConfig config : shipped()) {
    config.precision = GetParam();
    config.size = {32, 24, 20};
    Step step(config, *ranks);
    step.run();
    EXPECT_TRUE(std::isfinite(step.loss())) << config.network;
  }
  const std::vector<std::string> lines = kernels::conv3d_implementations();
  EXPECT_GT(lines.size(), 20u);
  for (const std::string& line : lines) {
    EXPECT_EQ(line.find("ref"), std::string::npos) << line;
    EXPECT_EQ(line.find(": none"), std::string::npos) << line;
  }
}

INSTANTIATE_TEST_SUITE_P(Precisions, ShippedNetworks, testing::Values("fp32", "bf16", "fp16"),
                         [](const testing::TestParamInfo<const char*>& precision) {
                           return std::string(precision.param);
                         });

}  // namespace
}  // namespace bora::bench
