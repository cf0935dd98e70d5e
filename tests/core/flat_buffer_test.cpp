// SPDX-License-Identifier: Apache-2.0
#include "core/flat_buffer.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdint>

namespace bora {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

FlatLayout three() {
  FlatLayout layout;
  EXPECT_EQ(layout.add("bias", {5}), 0);
  EXPECT_EQ(layout.add("weight", {8, 8}), 1);
  EXPECT_EQ(layout.add("scale", {}), 2);
  return layout;
}

TEST(FlatLayout, RangesAreAlignedInOrder) {
  const FlatLayout layout = three();
  EXPECT_EQ(layout.range(0).offset, 0);
  EXPECT_EQ(layout.range(1).offset, 64);
  EXPECT_EQ(layout.range(2).offset, 128);
  EXPECT_EQ(layout.size(), 192);
  EXPECT_EQ(layout.range(1).numel(), 64);
  EXPECT_EQ(layout.range(1).name, "weight");
}

TEST(FlatLayout, EmptyRangeTakesNoSpace) {
  FlatLayout layout;
  layout.add("none", {0, 3});
  layout.add("one", {1});
  EXPECT_EQ(layout.range(1).offset, 0);
  EXPECT_EQ(layout.size(), 64);
  EXPECT_EQ(FlatLayout().size(), 0);
}

TEST(FlatLayout, RefusesASecondRangeOfTheSameName) {
  FlatLayout layout = three();
  EXPECT_THAT([&] { layout.add("weight", {1}); },
              ThrowsMessage<Error>(HasSubstr("two ranges are named 'weight'")));
  EXPECT_EQ(layout.size(), 192);
  EXPECT_THROW(layout.range(3), std::out_of_range);
}

TEST(FlatLayout, CountsBeyond32Bits) {
  FlatLayout layout;
  layout.add("a", {int64_t{1} << 31});
  layout.add("b", {int64_t{1} << 33, 3});
  EXPECT_EQ(layout.range(1).offset, int64_t{1} << 31);
  EXPECT_EQ(layout.size(), (int64_t{1} << 31) + 3 * (int64_t{1} << 33));
}

TEST(FlatBuffer, PartsAreAlignedViewsWithTheirShapes) {
  for (DType type : {DType::f32, DType::f64}) {
    FlatBuffer buffer(three(), type, cpu());
    for (int i = 0; i < 3; ++i) {
      EXPECT_EQ(reinterpret_cast<uintptr_t>(buffer.part(i).raw()) % 256, 0u);
      EXPECT_EQ(buffer.part(i).shape(), buffer.layout().range(i).shape);
      EXPECT_EQ(buffer.part(i).storage(), buffer.all().storage());
    }
  }
}

TEST(FlatBuffer, StartsAsZeroAndPaddingStaysZero) {
  FlatBuffer buffer(three(), DType::f32, cpu());
  EXPECT_EQ(buffer.all().shape(), (Shape{192}));
  EXPECT_THAT(buffer.all().to_vector<float>(), testing::Each(0.0f));
  for (int i = 0; i < 3; ++i) buffer.part(i).fill(i + 1);
  const std::vector<float> all = buffer.all().to_vector<float>();
  for (size_t k = 0; k < all.size(); ++k) {
    const float expected = k < 5 ? 1.0f : k < 64 ? 0.0f : k < 128 ? 2.0f : k == 128 ? 3.0f : 0.0f;
    ASSERT_EQ(all[k], expected) << k;
  }
}

TEST(FlatBuffer, LiesInGivenMemoryAndKeepsIt) {
  const FlatLayout layout = three();
  bool released = false;
  alignas(256) static std::array<unsigned char, 192 * 4 + 256> bytes;
  bytes.fill(0xff);
  const auto memory = [&](int64_t offset, int64_t n) {
    return Tensor::wrap(bytes.data() + offset, {n}, DType::u8, cpu(), [&] { released = true; });
  };
  {
    FlatBuffer buffer(layout, DType::f32, memory(0, 192 * 4 + 5));
    EXPECT_FALSE(released);
    EXPECT_EQ(buffer.all().raw(), bytes.data());
    EXPECT_THAT(buffer.all().to_vector<float>(), testing::Each(0.0f));
    EXPECT_EQ(bytes[192 * 4], 0xff);  // not a byte more
    const Tensor part = buffer.part(1);
    buffer = {};
    EXPECT_FALSE(released);
    EXPECT_EQ(part.raw(), bytes.data() + 256);
  }
  EXPECT_TRUE(released);
  EXPECT_THAT([&] { FlatBuffer(layout, DType::f32, memory(0, 192 * 4 - 1)); },
              ThrowsMessage<Error>(HasSubstr("given 767 bytes of memory, wanted 768")));
  EXPECT_THAT([&] { FlatBuffer(layout, DType::f32, memory(64, 192 * 4)); },
              ThrowsMessage<Error>(HasSubstr("multiple of 256")));
}

TEST(FlatBuffer, AsksItsSourceForTheBytesItNeeds) {
  int64_t asked = -1;
  const MemorySource source = [&](int64_t bytes) {
    asked = bytes;
    return Tensor::zeros({bytes}, DType::u8);
  };
  EXPECT_EQ(FlatBuffer::make(three(), DType::f64, cpu(), source).all().bytes(), 192 * 8);
  EXPECT_EQ(asked, 192 * 8);
  EXPECT_EQ(FlatBuffer::make(three(), DType::f64, cpu(), {}).all().bytes(), 192 * 8);
  EXPECT_EQ(FlatBuffer::make(FlatLayout(), DType::f32, cpu(), source).all().numel(), 0);
}

TEST(FlatBuffer, SliceSharesTheBytes) {
  FlatBuffer buffer(three(), DType::f32, cpu());
  buffer.slice(64, 128).fill(4);
  EXPECT_THAT(buffer.part(1).to_vector<float>(), testing::Each(4.0f));
  EXPECT_THAT(buffer.part(0).to_vector<float>(), testing::Each(0.0f));
  EXPECT_THROW(buffer.slice(0, 193), Error);
}

}  // namespace
}  // namespace bora
