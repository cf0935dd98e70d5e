// SPDX-License-Identifier: Apache-2.0
// What compilers got wrong in this code, with the flags that it is built with.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "core/tensor.hpp"

namespace bora {
namespace {

struct Seen {
  int64_t cells;
  int64_t first;
  std::vector<double> values;
};
[[gnu::noinline]] Seen seen(const Tensor& tensor, const Shape& shape,
                            const std::vector<double>& values) {
  return {tensor.numel(), shape[0], values};
}

// GCC 12.2 with -O2 -march=x86-64-v4 and without -fno-tree-slp-vectorize gave 1, 1, 1, 1.
TEST(Compiler, KeepsConstantsOfTwoValues) {
  const Tensor tensor = Tensor::zeros({2, 2, 1, 1}, DType::f32);
  EXPECT_THAT(seen(tensor, Shape{2, 2, 1, 1}, {1, 1, 0, 0}).values,
              testing::ElementsAre(1, 1, 0, 0));
}

}  // namespace
}  // namespace bora
