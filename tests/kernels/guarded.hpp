// SPDX-License-Identifier: Apache-2.0
// A tensor with guard elements before and behind it, which a kernel must leave alone.
#pragma once

#include <gtest/gtest.h>

#include <vector>

#include "core/backend.hpp"
#include "core/tensor.hpp"
#include "tests/support/device.hpp"
#include "tests/support/random.hpp"

namespace bora::test {

class Guarded {
 public:
  /// `shape` elements of `type`, starting at an odd element, so that vectors are not aligned.
  Guarded(const Shape& shape, DType type) : shape_(shape) {
    const int64_t n = shape.numel();
    all_ = empty({n + 2 * kGuard}, type);
    const std::vector<uint8_t> pattern(static_cast<size_t>(all_.bytes()), 0xA5);
    const Tensor bytes = from<uint8_t>({all_.bytes()}, pattern);
    backend(device().type)
        .copy(all_.stream(), all_.raw(), device(), bytes.raw(), device(), all_.bytes());
    view_ = all_.view(kGuard, shape);
  }
  Guarded(const Shape& shape, DType type, const std::vector<double>& values)
      : Guarded(shape, type) {
    view_.copy_from(make_tensor(shape, values, type));
  }
  Tensor& view() { return view_; }
  void expect_guards_untouched() const {
    const std::vector<unsigned char> bytes = bytes_of(all_);
    const int64_t guard = kGuard * size_of(all_.dtype());
    for (int64_t i = 0; i < guard; ++i) {
      ASSERT_EQ(0xA5, bytes[static_cast<size_t>(i)]) << "byte " << i - guard << " of " << shape_;
      ASSERT_EQ(0xA5, bytes[bytes.size() - 1 - static_cast<size_t>(i)])
          << "byte " << guard - i << " behind " << shape_;
    }
  }

 private:
  static constexpr int64_t kGuard = 33;
  Shape shape_;
  Tensor all_, view_;
};

/// Sizes around the vector widths (16 f32 or 8 f64 to 512 bits, 32 f16), a prime, and several
/// blocks and threads.
inline const std::vector<int64_t> kSizes = {0,  1,  7,  8,  15, 16,    17,
                                            31, 32, 33, 63, 64, 10007, 70001};
inline const std::vector<DType> kFloats = {DType::f16, DType::bf16, DType::f32, DType::f64};

}  // namespace bora::test
