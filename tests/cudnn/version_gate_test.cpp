// SPDX-License-Identifier: Apache-2.0
// Which versions of cuDNN are refused for what.
#include "kernels/cudnn/version_gate.hpp"

#include <gtest/gtest.h>

namespace bora::kernels::cudnn {
namespace {

constexpr Dims3 kOne = Dims3::all(1), kThree = Dims3::all(3);

bool half_allowed(size_t v) {
  const bool f16 = refusal(v, DType::f16, false, kThree).empty();
  EXPECT_EQ(f16, refusal(v, DType::bf16, false, kThree).empty());
  return f16;
}

bool tf32_allowed(size_t v) { return refusal(v, DType::f32, true, kThree).empty(); }

TEST(CudnnVersion, RefusesHalfConvolutionsOf98To914) {
  EXPECT_FALSE(half_allowed(version_number(9, 8, 0)));
  EXPECT_FALSE(half_allowed(version_number(9, 10, 2)));
  EXPECT_FALSE(half_allowed(version_number(9, 14, 99)));
  EXPECT_TRUE(half_allowed(version_number(9, 15, 0)));
  EXPECT_TRUE(half_allowed(version_number(9, 19, 0)));
  EXPECT_TRUE(half_allowed(version_number(10, 0, 0)));
}

TEST(CudnnVersion, PointwiseKernelsAndF32AreNotAffected) {
  EXPECT_EQ(refusal(version_number(9, 10, 0), DType::f16, false, kOne), "");
  EXPECT_EQ(refusal(version_number(9, 10, 0), DType::f32, false, kThree), "");
  EXPECT_NE(refusal(version_number(9, 10, 0), DType::f16, false, Dims3{1, 1, 3}), "");
}

TEST(CudnnVersion, RefusesTf32Of9102To915) {
  EXPECT_TRUE(tf32_allowed(version_number(9, 10, 1)));
  EXPECT_FALSE(tf32_allowed(version_number(9, 10, 2)));
  EXPECT_FALSE(tf32_allowed(version_number(9, 15, 0)));
  EXPECT_FALSE(tf32_allowed(version_number(9, 15, 99)));
  EXPECT_TRUE(tf32_allowed(version_number(9, 16, 0)));
  EXPECT_EQ(refusal(version_number(9, 12, 0), DType::f32, false, kThree), "")
      << "strict f32 does not use it";
}

TEST(CudnnVersion, RefusesWhatCannotDescribeADevice) {
  EXPECT_NE(refusal(version_number(9, 7, 1), DType::f32, false, kOne), "");
}

TEST(CudnnVersion, SaysWhatIsWrongAndWhatHelps) {
  const std::string text = refusal(version_number(9, 10, 2), DType::f16, false, kThree);
  for (const char* part : {"9.10.2", "f16", "wrong", "9.15"})
    EXPECT_NE(text.find(part), std::string::npos) << text;
  EXPECT_EQ(version_text(91900), "9.19.0");
}

}  // namespace
}  // namespace bora::kernels::cudnn
