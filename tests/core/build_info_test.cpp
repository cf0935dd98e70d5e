// SPDX-License-Identifier: Apache-2.0
#include "core/build_info.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace bora {
namespace {

using testing::HasSubstr;
using testing::MatchesRegex;
using testing::Not;

TEST(BuildInfo, IsFilledIn) {
  const BuildInfo& b = build_info();
  EXPECT_THAT(b.version, MatchesRegex("[0-9]+\\.[0-9]+\\.[0-9]+"));
  EXPECT_THAT(b.git_commit, testing::AnyOf("unknown", MatchesRegex("[0-9a-f]{12}")));
  EXPECT_THAT(b.build_type, testing::AnyOf("Release", "Debug", "RelWithDebInfo", "MinSizeRel"));
  EXPECT_THAT(b.compiler, MatchesRegex("[A-Za-z]+ [0-9.]+"));
#if defined(BORA_CUDA)
  EXPECT_TRUE(b.cuda);
  EXPECT_THAT(b.cuda_compiler, HasSubstr("nvcc "));
#else
  EXPECT_FALSE(b.cuda);
  EXPECT_EQ(b.cuda_compiler, "");
#endif
#if defined(NDEBUG)
  EXPECT_FALSE(b.checks_internal);
#else
  EXPECT_TRUE(b.checks_internal);
#endif
}

TEST(BuildInfo, TextIsOneLineWithTheFacts) {
  const std::string text = build_info_text();
  EXPECT_THAT(text, HasSubstr("bora " + build_info().version));
  EXPECT_THAT(text, HasSubstr(build_info().git_commit));
  EXPECT_THAT(text, HasSubstr(build_info().arch_flags));
  EXPECT_THAT(text, HasSubstr(build_info().cuda ? "CUDA nvcc" : "CUDA off"));
  EXPECT_THAT(text, Not(HasSubstr("\n")));
  EXPECT_THAT(text, Not(HasSubstr("@")));  // a variable that CMake did not know
}

}  // namespace
}  // namespace bora
