// SPDX-License-Identifier: Apache-2.0
// Mixed precision at an op's door (feature 128), and the watch that names the first bad result.
#include "core/precision.hpp"

#include <gtest/gtest.h>

#include <limits>

#include "core/finite_watch.hpp"
#include "core/op.hpp"
#include "core/recompute.hpp"

namespace bora {
namespace {

/// y = x + w, which remembers the types that it saw.  Its gradient for w goes to an f32 sink.
template <Precision P>
struct Spy {
  static constexpr OpInfo info{"spy", P};
  std::vector<DType>* seen;
  Tensor forward(OpContext&, const Tensor& x, const Tensor& w) const {
    seen->assign({x.dtype(), w.dtype()});
    return x.clone();
  }
  std::array<Tensor, 2> backward(OpContext& c, const Tensor& dy) const {
    seen->push_back(dy.dtype());
    if (const Sink sink = c.sink(1, DType::f32)) {
      Tensor buffer = sink.buffer;
      buffer.fill(3.0);
      return {dy, {}};
    }
    return {dy, Tensor::full(dy.shape(), 3.0, dy.dtype())};
  }
};

template <Precision P>
std::vector<DType> types(DType x, DType w) {
  std::vector<DType> seen;
  apply(Spy<P>{&seen}, Tensor::full({4}, 1.0, x), Tensor::full({4}, 1.0, w));
  return seen;
}

constexpr DType f16 = DType::f16, bf16 = DType::bf16, f32 = DType::f32, f64 = DType::f64;
using Types = std::vector<DType>;

TEST(Precision, ClassesSeeTheirTypes) {
  EXPECT_EQ(half_type(), f32);
  EXPECT_EQ((types<Precision::half>(f32, f32)), (Types{f32, f32}));  // off by default
  for (const DType narrow : {f16, bf16}) {
    const PrecisionScope scope(narrow);
    EXPECT_EQ(half_type(), narrow);
    EXPECT_EQ((types<Precision::half>(f32, narrow)), (Types{narrow, narrow}));
    EXPECT_EQ((types<Precision::half>(f64, f64)), (Types{f64, f64}));  // gradient checks
    EXPECT_EQ((types<Precision::full>(narrow, f32)), (Types{f32, f32}));
    EXPECT_EQ((types<Precision::follow>(narrow, f32)), (Types{narrow, f32}));
    EXPECT_EQ((types<Precision::half>(DType::u8, f32)), (Types{DType::u8, narrow}));
    {
      const PrecisionScope off(f32);
      EXPECT_EQ((types<Precision::half>(f32, f32)), (Types{f32, f32}));
    }
    EXPECT_EQ(half_type(), narrow);
  }
  EXPECT_EQ(half_type(), f32);
  EXPECT_THROW(PrecisionScope{f64}, Error);
  EXPECT_EQ(precision_type("bf16"), bf16);
  EXPECT_THROW(precision_type("half"), UsageError);
}

TEST(Precision, ParameterIsReadFromItsWorkingCopyAndItsGradientStaysInF32) {
  const Tensor x = make_leaf(Tensor::full({4}, 0.5, f32), "x");
  const Tensor w = make_leaf(Tensor::full({4}, 2.0, f32), "w");
  Tensor copy = Tensor::full({4}, 7.0, f16);
  leaf_of(w).set_gradient_buffer(Tensor::zeros({4}, f32));
  leaf_of(w).set_working(copy);
  const PrecisionScope scope(f16);
  EXPECT_EQ(autocast(Precision::half, w).raw(), copy.raw()) << "a copy was made";
  EXPECT_EQ(autocast(Precision::full, w).raw(), w.raw());
  Types seen;
  const Tensor y = apply(Spy<Precision::half>{&seen}, x, w);
  EXPECT_EQ(y.dtype(), f16);
  backward(y, Tensor::full({4}, 1.0, f16));
  EXPECT_EQ(seen, (Types{f16, f16, f16}));
  EXPECT_EQ(leaf_of(w).gradient().dtype(), f32);
  EXPECT_EQ(leaf_of(w).gradient().to_vector<float>(), std::vector<float>(4, 3.0f));
  // x has no copy: it was cast on the tape, and its gradient comes back in its own type.
  EXPECT_EQ(leaf_of(x).gradient().dtype(), f32);
  EXPECT_EQ(leaf_of(x).gradient().to_vector<float>(), std::vector<float>(4, 1.0f));
  // A copy of another type is not used.
  const PrecisionScope other(bf16);
  EXPECT_NE(autocast(Precision::half, w).raw(), copy.raw());
}

TEST(Precision, SecondOperandFollowsTheFirst) {
  const Tensor a = Tensor::full({2}, 1.0, f16), b = Tensor::full({2}, 1.0, f32);
  EXPECT_EQ(autocast_like(a, b).dtype(), f32) << "off by default";
  const PrecisionScope scope(f16);
  EXPECT_EQ(autocast_like(a, b).dtype(), f16);
  EXPECT_EQ(autocast_like(b, a).dtype(), f32);
  EXPECT_FALSE(autocast_like(a, Tensor()).defined());
}

TEST(Precision, RecomputeRunsInTheTypesOfTheFirstRun) {
  const Tensor x = make_leaf(Tensor::full({4}, 0.5, f32), "x");
  Types seen;
  const auto body = [&](const Tensor& t) {
    return apply(Spy<Precision::half>{&seen}, t, Tensor::full({4}, 1.0, f32));
  };
  Tensor y;
  {
    const PrecisionScope scope(bf16);
    y = recompute(body, x, {});
  }
  EXPECT_EQ(y.dtype(), bf16);
  seen.clear();
  backward(y, Tensor::full({4}, 1.0, bf16));  // outside the scope
  EXPECT_EQ(seen, (Types{bf16, bf16, bf16}));
}

TEST(FiniteWatch, NamesTheFirstBadResult) {
  Types seen;
  const auto run = [&](double value, DType type) {
    apply(Spy<Precision::follow>{&seen}, Tensor::full({3}, value, type), Tensor::zeros({3}, type));
  };
  run(std::numeric_limits<double>::quiet_NaN(), f32);  // nobody watches
  FiniteWatch watch;
  run(1.0, f32);
  EXPECT_EQ(watch.first(), "");
  run(1e6, f16);  // overflows
  run(std::numeric_limits<double>::quiet_NaN(), f32);
  EXPECT_NE(watch.first().find("op 2 (spy), result (3) f16: 3 of 3 values"), std::string::npos)
      << watch.first();
  {
    FiniteWatch inner;
    run(std::numeric_limits<double>::infinity(), f32);
    EXPECT_NE(inner.first().find("op 1"), std::string::npos);
  }
  EXPECT_NE(watch.first().find("op 2"), std::string::npos);
}

}  // namespace
}  // namespace bora
