// SPDX-License-Identifier: Apache-2.0
// The ends of the tape: gradient buffers, sinks, ready hooks.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/tape.hpp"
#include "tests/core/toy_ops.hpp"

namespace bora {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;
using namespace toy;  // NOLINT(google-build-using-namespace)

class LeafTest : public testing::Test {
 protected:
  void SetUp() override { trace().clear(); }
};

TEST_F(LeafTest, GradientsAccumulateUntilCleared) {
  const Tensor a = leaf({2}, "a");
  for (int pass = 1; pass <= 3; ++pass) {
    backward(scale(a, 5));
    EXPECT_THAT(grad(a), ElementsAre(5 * pass));
  }
  leaf_of(a).clear_gradient();
  EXPECT_FALSE(leaf_of(a).has_gradient());
  backward(scale(a, 7));
  EXPECT_THAT(grad(a), ElementsAre(7));
}

TEST_F(LeafTest, GradientBufferOfAnotherTypeIsConvertedInto) {
  const Tensor a = leaf({2}, "a");
  Tensor buffer = Tensor::full({1}, 99, DType::f32);
  leaf_of(a).set_gradient_buffer(buffer);
  backward(add(scale(a, 0.5), scale(a, 2)));
  EXPECT_THAT(buffer.to_vector<float>(), ElementsAre(2.5f));
}

TEST_F(LeafTest, SinkOverwritesThenAdds) {
  const Tensor w = leaf({2}, "w");
  Tensor buffer = Tensor::full({1}, 99, DType::f64);  // stale: must be overwritten
  leaf_of(w).set_gradient_buffer(buffer);
  const Tensor y = add(mul_sink(values({10}), w), mul_sink(values({20}), w));
  backward(y);
  EXPECT_THAT(trace(), ElementsAre("add", "mul_sink", "sink overwrite", "mul_sink", "sink add"));
  EXPECT_THAT(buffer.to_vector<double>(), ElementsAre(30));
  leaf_of(w).clear_gradient();
  trace().clear();
  backward(mul_sink(values({5}), w));
  EXPECT_THAT(trace(), ElementsAre("mul_sink", "sink overwrite"));
  EXPECT_THAT(buffer.to_vector<double>(), ElementsAre(5));
}

TEST_F(LeafTest, SinkOfOneLeafTwiceInOneOp) {
  const Tensor w = leaf({3}, "w");
  leaf_of(w).set_gradient_buffer(Tensor::zeros({1}, DType::f64));
  backward(mul_sink(w, w));
  EXPECT_THAT(trace(), ElementsAre("mul_sink", "sink overwrite", "sink add"));
  EXPECT_THAT(grad(w), ElementsAre(6));
}

TEST_F(LeafTest, NoSinkWithoutBufferOrWithAnotherType) {
  const Tensor w = leaf({3}, "w"), v = leaf({4}, "v");
  leaf_of(v).set_gradient_buffer(Tensor::zeros({1}, DType::f32));
  backward(mul_sink(w, v));
  EXPECT_THAT(trace(), ElementsAre("mul_sink"));
  EXPECT_THAT(grad(w), ElementsAre(4));
  EXPECT_EQ(leaf_of(v).gradient().to_vector<float>()[0], 3);
}

TEST_F(LeafTest, HooksFireOnceEachWhileThePassGoesOn) {
  const Tensor w1 = leaf({2}, "w1"), w2 = leaf({3}, "w2");
  for (const Tensor& w : {w1, w2})
    leaf_of(w).set_ready_hook([](Leaf& l) {
      EXPECT_TRUE(l.has_gradient());
      trace().push_back("ready " + l.name());
    });
  // w2 is used last but one, w1 first: w2 is ready while mul of w1 is still to come.
  backward(scale(mul(scale(mul(values({1}), w1), 2), w2), 3));
  EXPECT_THAT(trace(), ElementsAre("scale", "mul", "ready w2", "scale", "mul", "ready w1"));
}

TEST_F(LeafTest, HookWaitsForTheLastUse) {
  const Tensor w = leaf({2}, "w");
  leaf_of(w).set_ready_hook([&](Leaf& l) {
    trace().push_back("ready");
    EXPECT_THAT(l.gradient().to_vector<double>(), ElementsAre(3 * 2 * 2));
  });
  backward(mul(mul(w, w), w));
  EXPECT_THAT(trace(), ElementsAre("mul", "mul", "ready"));
}

TEST_F(LeafTest, HookOfALeafWhoseGradientStopsFiresWithoutOne) {
  const Tensor a = leaf({2}, "a"), b = leaf({3}, "b");
  std::vector<std::string> ready;
  for (const Tensor& x : {a, b})
    leaf_of(x).set_ready_hook(
        [&](Leaf& l) { ready.push_back(l.name() + (l.has_gradient() ? " with" : " without")); });
  backward(add(apply(Stop{}, scale(a, 2)), b));
  EXPECT_THAT(ready, testing::UnorderedElementsAre("b with", "a without"));
  // Below the stop no backward runs.
  EXPECT_THAT(trace(), ElementsAre("add", "stop"));
}

TEST_F(LeafTest, BackwardWithoutHooksFiresNone) {
  const Tensor a = leaf({2}, "a");
  leaf_of(a).set_ready_hook([](Leaf&) { FAIL() << "fired"; });
  backward_without_hooks(scale(a, 2), {});
  EXPECT_THAT(grad(a), ElementsAre(2));
}

TEST_F(LeafTest, LeavesWantFloatingTensors) {
  EXPECT_THAT([] { make_leaf(Tensor::zeros({1}, DType::i64), "ids"); },
              ThrowsMessage<Error>(HasSubstr("make_leaf('ids')")));
  EXPECT_THAT([] { leaf_of(values({1})); }, ThrowsMessage<Error>(HasSubstr("not on the tape")));
  const Tensor a = leaf({1}, "a");
  EXPECT_THAT([&] { leaf_of(scale(a, 2)); },
              ThrowsMessage<Error>(HasSubstr("the result of an op")));
}

}  // namespace
}  // namespace bora
