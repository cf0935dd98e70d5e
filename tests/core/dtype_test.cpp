// SPDX-License-Identifier: Apache-2.0
#include "core/dtype.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <type_traits>

namespace bora {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

constexpr DType kAll[] = {DType::f16, DType::bf16, DType::f32, DType::f64,
                          DType::u8,  DType::i32,  DType::i64};

TEST(DType, DispatchGivesTheTypeOfTheRightSize) {
  for (DType t : kAll) {
    const DType seen = dispatch_any(t, [&]<class T>() {
      EXPECT_EQ(static_cast<int64_t>(sizeof(T)), size_of(t));
      return dtype_of<T>;
    });
    EXPECT_EQ(seen, t);
  }
}

TEST(DType, NamesComeBack) {
  for (DType t : kAll) EXPECT_EQ(dtype_from(name_of(t)), t);
  EXPECT_EQ(detail::join(DType::bf16), "bf16");
}

TEST(DType, UnknownNameListsTheKnownOnes) {
  EXPECT_THAT([] { dtype_from("f8"); },
              ThrowsMessage<UsageError>(HasSubstr("'f8': wanted one of f16, bf16, f32, f64, u8")));
  EXPECT_THROW(dtype_from(""), UsageError);
  EXPECT_THROW(dtype_from("F32"), UsageError);
}

TEST(DType, DispatchFloatRefusesIntegersByName) {
  for (DType t : kAll) {
    const auto call = [&] {
      return dispatch_float(t, "leaky_relu", [&]<class T>() { return dtype_of<T>; });
    };
    if (is_float(t)) {
      EXPECT_EQ(call(), t);
    } else {
      EXPECT_THAT(call, ThrowsMessage<Error>(HasSubstr("leaky_relu: wants a floating type, got " +
                                                       std::string(name_of(t)))));
    }
  }
}

TEST(DType, SixteenBitTypesAccumulateInFloat) {
  static_assert(std::is_same_v<acc_t<Half>, float> && std::is_same_v<acc_t<BFloat16>, float>);
  static_assert(std::is_same_v<acc_t<float>, float> && std::is_same_v<acc_t<double>, double>);
}

}  // namespace
}  // namespace bora
