// SPDX-License-Identifier: Apache-2.0
// The choice of engines and the plan file, without cuDNN.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kernels/cudnn/choice.hpp"
#include "kernels/cudnn/tuning.hpp"
#include "tests/support/message_of.hpp"

namespace bora::kernels::cudnn {
namespace {

using ::testing::HasSubstr;

ConvKey a_key(DType type = DType::f16, cuda::Conv3dSettings settings = {}) {
  const Conv3dAttributes a{.padding = Dims3::all(1)};
  const Shape x{2, 8, 9, 10, 16}, w{32, 3, 3, 3, 16}, y{2, 8, 9, 10, 32};
  return key_of(ConvPass::forward, problem_of(a, x, w, y), type, false, false, 16, settings);
}

TEST(EngineChoice, DropsWhatIsNotDeterministicOrNotAsPreciseAsAsked) {
  const ConvKey half = a_key();
  EXPECT_EQ(rejection({.tensor_core = true}, 0, half), "");
  EXPECT_NE(rejection({.nondeterministic = true}, 0, half), "");
  EXPECT_NE(rejection({.down_converts = true}, 0, half), "");
  EXPECT_NE(rejection({.reduced_reduction = true}, 0, half), "");
  EXPECT_NE(rejection({.compiled_at_run_time = true}, 0, half), "");
  EXPECT_EQ(rejection({.nondeterministic = true}, 0, a_key(DType::f16, {.deterministic = false})),
            "");
}

TEST(EngineChoice, StrictF32KeepsOffTensorCoresAndTf32Wants) {
  EXPECT_NE(rejection({.tensor_core = true}, 0, a_key(DType::f32)), "");
  EXPECT_EQ(rejection({}, 0, a_key(DType::f32)), "");
  EXPECT_FALSE(prefers_tensor_cores(a_key(DType::f32)));
  const ConvKey tf32 = a_key(DType::f32, {.tf32 = true});
  EXPECT_EQ(rejection({.tensor_core = true}, 0, tf32), "");
  EXPECT_TRUE(prefers_tensor_cores(tf32));
  EXPECT_EQ(a_key(DType::f16, {.tf32 = true}).tf32, 0) << "of no meaning to halves: same key";
}

TEST(EngineChoice, HoldsTheWorkspaceLimit) {
  const ConvKey key = a_key(DType::f16, {.workspace_limit = 1000});
  EXPECT_EQ(rejection({}, 1000, key), "");
  EXPECT_NE(rejection({}, 1001, key), "");
  EXPECT_NE(rejection({}, 1, a_key(DType::f16, {.workspace_limit = 0})), "");
}

TEST(EngineChoice, TuningKeepsTheFirstUnlessAnotherIsClearlyFaster) {
  EXPECT_EQ(tuned_choice({1.0}), 0u);
  EXPECT_EQ(tuned_choice({1.0, 0.98, 2.0}), 0u) << "within 3 %";
  EXPECT_EQ(tuned_choice({1.0, 0.96, 0.9}), 2u);
  EXPECT_THROW(tuned_choice({}), Error);
}

TEST(ConvKey, F64IsRefusedByName) {
  EXPECT_THAT(bora::testing::message_of([] { a_key(DType::f64); }), HasSubstr("f64"));
}

TEST(ConvKey, TextNamesAllThatMatters) {
  ConvKey key = a_key();
  EXPECT_EQ(text_of(key),
            "forward f16 2x8x9x10x16 -> 8x9x10x32 k3x3x3 s1x1x1 p1x1x1+1x1x1 d1x1x1 g1 a16 "
            "w268435456");
  const std::string before = text_of(key);
  const auto differs = [&](auto change) {
    ConvKey other = key;
    change(other);
    EXPECT_NE(text_of(other), before);
  };
  differs([](ConvKey& k) { k.pass = ConvPass::backward_data; });
  differs([](ConvKey& k) { k.type = static_cast<int64_t>(DType::bf16); });
  differs([](ConvKey& k) { k.tf32 = 1; });
  differs([](ConvKey& k) { k.bias = 1; });
  differs([](ConvKey& k) { k.add = 1; });
  differs([](ConvKey& k) { k.alignment = 4; });
  differs([](ConvKey& k) { k.deterministic = 0; });
  differs([](ConvKey& k) { k.workspace_limit = 7; });
  differs([](ConvKey& k) { k.problem.n = 3; });
  differs([](ConvKey& k) { k.problem.groups = 2; });
}

TEST(ConvKey, PaddingBehindFollowsTheShapes) {
  const auto behind = [](int64_t in, int64_t out, int64_t k, int64_t stride, int64_t left,
                         int64_t dilation = 1) {
    ConvProblem p{.n = 1, .c_in = 1, .c_out = 1};
    for (size_t i = 0; i < 3; ++i) {
      p.in[i] = in;
      p.out[i] = out;
      p.kernel[i] = k;
      p.stride[i] = stride;
      p.pad_left[i] = left;
      p.dilation[i] = dilation;
    }
    return padding_behind(p, 1);
  };
  EXPECT_EQ(behind(8, 8, 3, 1, 1), 1);
  EXPECT_EQ(behind(8, 4, 3, 2, 1), 1) << "rounded down: equal paddings are kept";
  EXPECT_EQ(behind(9, 4, 2, 2, 0), 0) << "the last cell is not seen";
  EXPECT_EQ(behind(9, 8, 3, 1, 1), 0) << "a slab whose end is not the volume's";
  EXPECT_EQ(behind(9, 8, 3, 1, 0), 1);
  EXPECT_EQ(behind(6, 8, 3, 1, 2), 2);
  EXPECT_EQ(behind(7, 8, 3, 1, 1), 2);
  EXPECT_THROW(behind(20, 4, 1, 2, 0), Error);
}

TEST(PlanBook, TextBringsAllChoicesBack) {
  PlanBook book;
  const EngineChoice first{62, {{2, 5}, {12, -1}}}, second{10, {}};
  book.add("card A", a_key(), first);
  book.add("card B", a_key(DType::f32), second);
  book.ban("card A", a_key(), 7);
  PlanBook other;
  other.add("card C", a_key(), second);
  other.load(book.text());
  EXPECT_EQ(other.text(), book.text());
  EXPECT_EQ(other.find("card A", a_key()), first);
  EXPECT_EQ(other.find("card B", a_key(DType::f32)), second);
  EXPECT_EQ(other.banned("card A", a_key()), std::set<int64_t>{7});
  EXPECT_EQ(other.size(), 2u) << "what was there before is replaced";
  EXPECT_EQ(other.generation(), 1);
}

TEST(PlanBook, AnotherDeviceOrAnotherProblemFindsNothing) {
  PlanBook book;
  book.add("card A", a_key(), {62, {}});
  PlanBook other;
  other.load(book.text());
  EXPECT_FALSE(other.find("card A", a_key(DType::bf16)));
  ::testing::internal::CaptureStderr();
  EXPECT_FALSE(other.find("card B", a_key()));
  EXPECT_FALSE(other.find("card B", a_key(DType::bf16)));
  const std::string log = ::testing::internal::GetCapturedStderr();
  EXPECT_THAT(log, HasSubstr("card A"));
  EXPECT_THAT(log, HasSubstr("card B"));
  EXPECT_EQ(log.find("plan file"), log.rfind("plan file")) << "said once: " << log;
}

TEST(PlanBook, DamagedTextIsAnErrorThatSaysWhat) {
  PlanBook book;
  book.add("card A", a_key(), {62, {{2, 5}}});
  const std::string good = book.text();
  const auto message = [&](const std::string& from, const std::string& to) {
    std::string bad = good;
    const size_t at = bad.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    bad.replace(at, from.size(), to);
    return bora::testing::message_of([&] { book.load(bad); });
  };
  EXPECT_THAT(bora::testing::message_of([&] { book.load(good.substr(0, good.size() / 2)); }),
              HasSubstr("not JSON"));
  EXPECT_THAT(bora::testing::message_of([&] { book.load("[]"); }), HasSubstr("wanted an object"));
  EXPECT_THAT(message("bora convolution plans", "something"), HasSubstr("something"));
  EXPECT_THAT(message("\"version\": 1", "\"version\": 2"), HasSubstr("version is 2"));
  EXPECT_THAT(message("\"engine\": 62", "\"engine\": \"x\""), HasSubstr("\"engine\""));
  EXPECT_THAT(message("\"engine\": 62", "\"engine\": -2"), HasSubstr("-2"));
  EXPECT_THAT(message("\"knobs\"", "\"nobs\""), HasSubstr("\"knobs\""));
  EXPECT_THAT(message("\"problem\"", "\"roblem\""), HasSubstr("\"problem\""));
  EXPECT_EQ(book.text(), good) << "nothing of a damaged file is taken over";
  EXPECT_EQ(book.generation(), 0);
}

TEST(PlanBook, SettingsReachThePublicFunctions) {
  cuda::set_tf32(true);
  EXPECT_TRUE(cuda::conv3d_settings().tf32);
  cuda::set_conv3d_settings({});
  EXPECT_FALSE(cuda::tf32());
  EXPECT_THROW(cuda::set_conv3d_settings({.workspace_limit = -1}), Error);
  EXPECT_THROW(cuda::load_plan_file_text("{"), Error);
  cuda::load_plan_file_text(cuda::plan_file_text());
}

}  // namespace
}  // namespace bora::kernels::cudnn
