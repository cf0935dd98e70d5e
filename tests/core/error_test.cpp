// SPDX-License-Identifier: Apache-2.0
#include "core/error.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "core/portable.hpp"
#include "core/status.hpp"

namespace bora {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::MatchesRegex;
using testing::Not;
using testing::StartsWith;
using testing::ThrowsMessage;

TEST(Error, CheckJoinsPartsAndNamesThePlace) {
  EXPECT_THAT([] { BORA_CHECK(1 == 2, "conv3d: ", 32, " channels wanted, got ", 16.5); },
              ThrowsMessage<Error>(AllOf(StartsWith("conv3d: 32 channels wanted, got 16.5"),
                                         HasSubstr("[tests/core/error_test.cpp:"))));
}

TEST(Error, CheckEvaluatesItsPartsOnlyOnFailure) {
  int n = 0;
  BORA_CHECK(true, ++n);
  EXPECT_EQ(n, 0);
  EXPECT_THROW(BORA_CHECK(false, ++n), Error);
  EXPECT_EQ(n, 1);
}

TEST(Error, CheckIsOneStatement) {
  bool other = false;
  if (false)
    BORA_CHECK(false, "not reached");
  else
    other = true;
  EXPECT_TRUE(other);
}

TEST(Error, AssertIsOnExactlyWithoutNdebug) {
#if defined(NDEBUG)
  BORA_ASSERT(false);
#else
  EXPECT_THROW(BORA_ASSERT(1 > 2), Error);
#endif
}

TEST(Error, ContextKeepsTheType) {
  EXPECT_THAT([] { with_context("reading a.h5", [] { throw Error("no such dataset"); }); },
              ThrowsMessage<Error>(std::string("reading a.h5: no such dataset")));
  EXPECT_THAT([] { with_context("a", [] { with_context("b", [] { throw UsageError("c"); }); }); },
              ThrowsMessage<UsageError>(std::string("a: b: c")));
  // A plain Error must not become a UsageError: the exit codes differ.
  try {
    with_context("x", [] { throw Error("y"); });
    FAIL();
  } catch (const UsageError&) {
    FAIL() << "became a UsageError";
  } catch (const Error&) {
  }
}

TEST(Error, ContextPassesValuesReferencesAndOtherExceptions) {
  int value = 3;
  int& same = with_context("x", [&]() -> int& { return value; });
  EXPECT_EQ(&same, &value);
  EXPECT_EQ(with_context("x", [] { return std::string("r"); }), "r");
  EXPECT_THROW(with_context("x", [] { throw std::out_of_range("foreign"); }), std::out_of_range);
}

struct ToyStatus {
  using Code = int;
  static bool ok(Code code) { return code == 0; }
  static std::string text(Code code) { return "code " + std::to_string(code); }
  static constexpr const char* name = "Toy";
};

TEST(Status, NamesLibraryCallAndReason) {
  EXPECT_NO_THROW(check<ToyStatus>(0, "toy_open(path)"));
  EXPECT_THAT([] { check<ToyStatus>(5, "toy_open(path)"); },
              ThrowsMessage<Error>(AllOf(StartsWith("Toy: toy_open(path) failed: code 5"),
                                         HasSubstr("error_test.cpp:"))));
}

TEST(Status, WarnNeverThrows) {
  testing::internal::CaptureStderr();
  check_warn<ToyStatus>(0, "toy_close(h)");
  check_warn<ToyStatus>(9, "toy_close(h)");
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "warn: Toy: toy_close(h) failed: code 9\n");
}

#if !defined(BORA_CUDA)
TEST(Portable, CudaArmsThrowInACpuBuild) {
  const auto arm = [] { BORA_IF_CUDA(FAIL() << "the arm ran"); };
  EXPECT_THAT(arm, ThrowsMessage<Error>(HasSubstr("built without CUDA (BORA_CUDA=OFF)")));
}
#endif

}  // namespace
}  // namespace bora
