// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <vector>

#include "core/backend.hpp"
#include "tests/core/fake_backend.hpp"

namespace bora {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

Backend& host() { return backend(DeviceType::cpu); }

TEST(BackendCpu, MemoryIsZeroedAlignedAndWritable) {
  for (int64_t bytes : {int64_t{1}, int64_t{4096}, int64_t{4097}, int64_t{3} << 20}) {
    auto* p = static_cast<char*>(host().allocate(bytes, cpu()));
    EXPECT_EQ(reinterpret_cast<uintptr_t>(p) % (2u << 20), 0u);
    EXPECT_EQ(p[0], 0);
    EXPECT_EQ(p[bytes - 1], 0);
    std::memset(p, 1, static_cast<size_t>(bytes));
    host().free(p, bytes, cpu());
  }
}

TEST(BackendCpu, OutOfMemoryNamesTheSize) {
  EXPECT_THAT([] { host().allocate(int64_t{1} << 60, cpu()); },
              ThrowsMessage<Error>(HasSubstr("out of host memory: 1099511627776 MiB")));
}

TEST(BackendCpu, FillWritesEachTypeAndNothingBeyond) {
  for (DType type :
       {DType::f16, DType::bf16, DType::f32, DType::f64, DType::u8, DType::i32, DType::i64})
    for (int64_t n : {1, 7, 64, 65})
      for (double value : {0.0, 3.0})
        dispatch_any(type, [&]<class T>() {
          std::vector<T> out(static_cast<size_t>(n) + 1, static_cast<T>(static_cast<acc_t<T>>(9)));
          host().fill({}, out.data(), type, value, n);
          for (int64_t i = 0; i <= n; ++i)
            EXPECT_EQ(static_cast<double>(static_cast<acc_t<T>>(out[static_cast<size_t>(i)])),
                      i < n ? value : 9.0)
                << type << " " << n;
        });
}

TEST(BackendCpu, FillKeepsMinusZero) {
  float out = 1;
  host().fill({}, &out, DType::f32, -0.0, 1);
  EXPECT_EQ(out, 0.0f);
  EXPECT_TRUE(std::signbit(out));
}

TEST(BackendCpu, CastRoundsAndTruncates) {
  const float in[] = {1.0f, -2.75f, 65520.0f, 1.0009765625f};
  Half half[4];
  host().cast({}, half, DType::f16, in, DType::f32, 4);
  EXPECT_EQ(half[0].bits, 0x3c00);
  EXPECT_EQ(half[2].bits, 0x7c00);
  int32_t whole[2];
  host().cast({}, whole, DType::i32, in, DType::f32, 2);
  EXPECT_EQ(whole[1], -2);
  double wide[4];
  host().cast({}, wide, DType::f64, half, DType::f16, 4);
  EXPECT_EQ(wide[1], -2.75);
  EXPECT_EQ(wide[2], std::numeric_limits<double>::infinity());
  const int64_t large[] = {(int64_t{1} << 53) + 1};
  int64_t same[1];
  host().cast({}, same, DType::i64, large, DType::i64, 1);
  EXPECT_EQ(same[0], large[0]);
}

TEST(BackendCpu, AccumulateSumsInTheTypeOfTheTarget) {
  // 1 + 2^-12 three times: kept by f32, lost by f16 unless the source is wide and the sum is f32.
  std::vector<float> target{1.0f, 2.0f};
  const Half small[] = {Half(0.000244140625f), Half(-2.0f)};
  for (int i = 0; i < 3; ++i)
    host().accumulate({}, target.data(), DType::f32, small, DType::f16, 1);
  EXPECT_EQ(target[0], 1.0f + 3 * 0.000244140625f);
  EXPECT_EQ(target[1], 2.0f);
  EXPECT_THROW(host().accumulate({}, target.data(), DType::i32, small, DType::f16, 1), Error);
}

TEST(BackendCpu, LongLoopsGiveTheSameAsShortOnes) {
  const int64_t n = 65537;  // above the threshold of the threaded loop
  std::vector<float> a(static_cast<size_t>(n)), b(a.size());
  for (size_t i = 0; i < a.size(); ++i) a[i] = static_cast<float>(i) * 0.5f;
  std::vector<double> wide(a.size());
  host().cast({}, wide.data(), DType::f64, a.data(), DType::f32, n);
  host().accumulate({}, b.data(), DType::f32, a.data(), DType::f32, n);
  for (size_t i = 0; i < a.size(); ++i) {
    ASSERT_EQ(wide[i], static_cast<double>(i) * 0.5);
    ASSERT_EQ(b[i], a[i]);
  }
}

TEST(Backend, MissingCudaIsAnErrorThatSaysSo) {
  if (has_backend(DeviceType::cuda)) GTEST_SKIP() << "a CUDA backend is in place";
  EXPECT_THAT([] { backend(DeviceType::cuda); },
              ThrowsMessage<Error>(HasSubstr("no CUDA backend")));
  {
    const FakeBackend fake(DeviceType::cuda);
    EXPECT_TRUE(has_backend(DeviceType::cuda));
    EXPECT_EQ(&backend(DeviceType::cuda), &fake);
  }
  EXPECT_FALSE(has_backend(DeviceType::cuda));
}

}  // namespace
}  // namespace bora
