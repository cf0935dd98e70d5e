// SPDX-License-Identifier: Apache-2.0
#include "core/tape.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "tests/core/fake_backend.hpp"
#include "tests/core/toy_ops.hpp"

namespace bora {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;
using namespace toy;  // NOLINT(google-build-using-namespace)

class TapeTest : public testing::Test {
 protected:
  void SetUp() override { trace().clear(); }
  void TearDown() override { set_backward_poll({}); }
};

TEST_F(TapeTest, ChainGivesTheProductRule) {
  const Tensor a = leaf({2, 3}, "a"), b = leaf({5, 7}, "b");
  backward(sum(mul(scale(a, 10), b)));
  EXPECT_THAT(grad(a), ElementsAre(50, 70));
  EXPECT_THAT(grad(b), ElementsAre(20, 30));
}

TEST_F(TapeTest, DiamondAddsBothPathsAndRunsTheTopOnce) {
  const Tensor a = leaf({3}, "a");
  const Tensor top = scale(a, 2);
  const Tensor left = scale(top, 5), right = mul(top, top);
  backward(sum(add(left, right)));  // 10 a + 4 a^2
  EXPECT_THAT(grad(a), ElementsAre(10 + 8 * 3));
  // sum, add, then mul (recorded after scale), scale, and the top once.
  EXPECT_THAT(trace(), ElementsAre("sum", "add", "mul", "scale", "scale"));
}

TEST_F(TapeTest, OneTensorTwiceInOneOp) {
  const Tensor a = leaf({3, -4}, "a");
  backward(sum(mul(a, a)));
  EXPECT_THAT(grad(a), ElementsAre(6, -8));
  const Tensor b = leaf({3, -4}, "b");
  backward(sum(add(b, b)));
  EXPECT_THAT(grad(b), ElementsAre(2, 2));
}

TEST_F(TapeTest, InputSharedByManyOps) {
  const Tensor a = leaf({1}, "a");
  std::vector<Tensor> parts;
  for (int i = 1; i <= 5; ++i) parts.push_back(scale(a, i));
  backward(apply_list(SumList{}, parts));
  EXPECT_THAT(grad(a), ElementsAre(15));
}

// add gives the same dy to both inputs; the sum into one must not show in the other.
TEST_F(TapeTest, GradientsThatShareBytesAreNotWrittenThrough) {
  const Tensor a = leaf({1}, "a"), b = leaf({1}, "b");
  const Tensor x = scale(a, 1), y = scale(b, 1);
  backward(sum(add(add(x, y), scale(x, 10))));
  EXPECT_THAT(grad(a), ElementsAre(11));
  EXPECT_THAT(grad(b), ElementsAre(1));
}

/// y = x; its gradient is added to what x has got from others.
struct Join {
  static constexpr OpInfo info{"join", Precision::follow};
  Tensor forward(OpContext&, const Tensor& x) const { return x.clone(); }
  Tensor backward(OpContext& c, const Tensor& dy) const {
    Tensor dx = c.partial(0);
    trace().emplace_back(dx.defined() ? "joined" : "alone");
    if (!dx.defined()) return dy;
    for (int64_t i = 0; i < dx.numel(); ++i) dx.data<double>()[i] += dy.data<double>()[i];
    return dx;
  }
};

TEST_F(TapeTest, OpMayAddToTheGradientOfOtherReaders) {
  const Tensor a = leaf({1, 2}, "a");
  const Tensor x = scale(a, 1);
  const Tensor joined = apply(Join{}, x);  // its backward runs after that of the later reader
  backward(sum(add(joined, scale(x, 10))));
  EXPECT_THAT(grad(a), ElementsAre(11, 11));
  EXPECT_THAT(trace(), testing::Contains("joined"));
  // Nobody before it: nothing to add to.  A leaf's gradient is not handed out.
  trace().clear();
  const Tensor b = leaf({1, 2}, "b");
  backward(sum(add(scale(b, 10), apply(Join{}, b))));
  EXPECT_THAT(grad(b), ElementsAre(11, 11));
  EXPECT_THAT(trace(), testing::Contains("alone"));
}

// The first reader's gradient is dy itself, which the other operand's branch holds too.
TEST_F(TapeTest, SharedGradientIsNotHandedOut) {
  const Tensor a = leaf({1}, "a"), b = leaf({1}, "b");
  const Tensor x = scale(a, 1), y = scale(b, 1);
  const Tensor joined = apply(Join{}, x);
  backward(sum(add(add(x, y), scale(joined, 10))));
  EXPECT_THAT(grad(a), ElementsAre(11));
  EXPECT_THAT(grad(b), ElementsAre(1));
}

TEST_F(TapeTest, SeedIsNeitherNeededForScalarsNorWritten) {
  const Tensor a = leaf({1, 2}, "a");
  const Tensor seed = values({3, 4});
  const Tensor y = scale(a, 2);
  backward(add(y, y), seed);
  EXPECT_THAT(grad(a), ElementsAre(12, 16));
  EXPECT_THAT(seed.to_vector<double>(), ElementsAre(3, 4));
  EXPECT_THAT([&] { backward(scale(a, 2)); },
              ThrowsMessage<Error>(HasSubstr("a seed is wanted for a root of shape (2)")));
  EXPECT_THAT([&] { backward(scale(a, 2), values({1})); },
              ThrowsMessage<Error>(HasSubstr("seed is (1), root is (2)")));
}

TEST_F(TapeTest, RootMayBeALeaf) {
  const Tensor a = leaf({1, 2}, "a");
  int fired = 0;
  leaf_of(a).set_ready_hook([&](Leaf&) { ++fired; });
  backward(a, values({5, 6}));
  EXPECT_THAT(grad(a), ElementsAre(5, 6));
  EXPECT_EQ(fired, 1);
}

TEST_F(TapeTest, RootOffTheTapeIsAnError) {
  EXPECT_THAT([] { backward(values({1})); },
              ThrowsMessage<Error>(HasSubstr("not on the tape (was it computed under NoGrad")));
  EXPECT_THROW(backward(Tensor()), Error);
}

TEST_F(TapeTest, OnlyWantedGradientsAreComputed) {
  const Tensor a = leaf({2}, "a");
  const Tensor data = values({7});
  const Tensor y = mul(a, data);
  EXPECT_EQ(y.node()->inputs()[0], a.node());
  EXPECT_EQ(y.node()->inputs()[1], nullptr);
  backward(y);
  EXPECT_THAT(grad(a), ElementsAre(7));
}

TEST_F(TapeTest, NoGradRecordsNothing) {
  const Tensor a = leaf({2}, "a");
  {
    const NoGrad no_grad;
    EXPECT_FALSE(recording());
    const Tensor y = mul(a, a);
    EXPECT_FALSE(y.requires_grad());
    {
      const RecordingScope on(true);
      EXPECT_TRUE(mul(a, a).requires_grad());
    }
    EXPECT_FALSE(recording());
  }
  EXPECT_TRUE(recording());
  EXPECT_FALSE(mul(values({1}), values({2})).requires_grad());
  bool other = false;
  {
    const NoGrad no_grad;
    std::thread([&] { other = recording(); }).join();
  }
  EXPECT_TRUE(other);
}

TEST_F(TapeTest, NothingIsSavedWithoutRecording) {
  const Tensor data = values(std::vector<double>(1000, 1.0));
  const int64_t before = caching_allocator(cpu()).stats().live;
  const Tensor y = mul(scale(data, 2), data);
  EXPECT_EQ(caching_allocator(cpu()).stats().live - before, 8192);  // y alone
}

TEST_F(TapeTest, PollRunsAfterEachNode) {
  const Tensor a = leaf({2}, "a");
  set_backward_poll([] { trace().emplace_back("poll"); });
  backward(scale(mul(a, a), 2));
  EXPECT_THAT(trace(), ElementsAre("scale", "poll", "mul", "poll"));
}

TEST_F(TapeTest, OrderIsTheSameInEachRun) {
  std::vector<std::string> first;
  for (int run = 0; run < 3; ++run) {
    trace().clear();
    const Tensor a = leaf({2}, "a"), b = leaf({3}, "b");
    const Tensor p = mul(a, b), q = scale(a, 2), r = add(p, b);
    const Tensor left = mul(p, q), inner = scale(q, 3), right = add(r, inner);
    backward(sum(add(left, right)));
    if (run == 0) first = trace();
    EXPECT_EQ(trace(), first);
  }
  // Decreasing order of recording.
  EXPECT_THAT(first, ElementsAre("sum", "add", "add", "scale", "mul", "add", "scale", "mul"));
}

TEST_F(TapeTest, SecondBackwardNamesTheOp) {
  const Tensor a = leaf({2}, "a");
  const Tensor y = mul(a, a);
  backward(y);
  EXPECT_THAT([&] { backward(y); }, ThrowsMessage<Error>(AllOf(HasSubstr("backward of mul #"),
                                                               HasSubstr("run forward"))));
  EXPECT_THAT(grad(a), ElementsAre(4));
}

// An op that saves nothing could run again, and would add its gradients twice without a word.
TEST_F(TapeTest, SecondBackwardOverAnOpThatSavesNothingIsAnErrorToo) {
  const Tensor a = leaf({2}, "a");
  const Tensor y = scale(a, 3);
  backward(y);
  EXPECT_THAT([&] { backward(y); }, ThrowsMessage<Error>(HasSubstr("backward of scale #")));
  // Also when only a part of the nodes was used before.
  EXPECT_THROW(backward(add(y, a)), Error);
  EXPECT_THAT(grad(a), ElementsAre(testing::Ge(3)));
}

TEST_F(TapeTest, ErrorsNameOpNumberAndGradient) {
  const Tensor a = leaf({1, 2, 3}, "a");
  const Tensor y = apply(Fail{}, a);
  EXPECT_THAT(
      [&] {
        backward(scale(y, 1), values({1, 1, 1}));
      },
      ThrowsMessage<Error>(HasSubstr(detail::join("in backward of fail #", y.node()->sequence(),
                                                  ", dy (3) f64: on purpose"))));
}

struct WrongShape {
  static constexpr OpInfo info{"wrong_shape", Precision::follow};
  Tensor forward(OpContext&, const Tensor& x) const { return x.clone(); }
  Tensor backward(OpContext&, const Tensor&) const { return values({1, 2, 3}); }
};

TEST_F(TapeTest, GradientOfAWrongShapeIsAnError) {
  const Tensor a = leaf({2}, "a");
  leaf_of(a).set_gradient_buffer(Tensor::zeros({1}, DType::f64));
  EXPECT_THAT([&] { backward(apply(WrongShape{}, a)); },
              ThrowsMessage<Error>(HasSubstr("in backward of wrong_shape #")));
}

TEST_F(TapeTest, SavedTensorsAreFreedAtTheirLastUse) {
  const size_t n = 1 << 17;
  const int64_t bytes = 8 << 17;
  const Tensor x = values(std::vector<double>(n, 1.0));
  const Tensor seed = values(std::vector<double>(n, 1.0));
  std::vector<Tensor> w;
  for (int i = 0; i < 3; ++i) {
    w.push_back(leaf(std::vector<double>(n, 2.0), "w"));
    leaf_of(w.back()).set_gradient_buffer(Tensor::zeros(x.shape(), DType::f64));
  }
  // h1 = x w0 and h2 = h1 w1 live only as saved tensors.
  const Tensor y = mul(mul(mul(x, w[0]), w[1]), w[2]);
  const auto live = [] { return caching_allocator(cpu()).stats().live; };
  const int64_t start = live();
  std::vector<int64_t> after;
  set_backward_poll([&] { after.push_back((live() - start) / bytes); });
  backward(y, seed);
  // mul 3: + d_h2 - h2.  mul 2: + d_h1 - d_h2 - h1.  mul 1: - d_h1.
  EXPECT_THAT(after, ElementsAre(0, -1, -2));
}

TEST_F(TapeTest, DroppingTheLossFreesTheGraph) {
  const Tensor a = leaf(std::vector<double>(1000, 1.0), "a");
  const int64_t before = caching_allocator(cpu()).stats().live;
  {
    const Tensor y = mul(mul(a, a), a);
    EXPECT_GT(caching_allocator(cpu()).stats().live, before);
  }
  EXPECT_EQ(caching_allocator(cpu()).stats().live, before);
}

TEST_F(TapeTest, LongChainsNeedNoDeepStack) {
  const Tensor a = leaf({1}, "a");
  Tensor y = a;
  for (int i = 0; i < 200000; ++i) y = scale(y, 1);
  backward(y);
  EXPECT_THAT(grad(a), ElementsAre(1));
  y = Tensor();
}

struct Composite {
  static constexpr OpInfo info{"composite", Precision::follow};
  Tensor forward(OpContext& c, const Tensor& x) const {
    EXPECT_FALSE(recording());
    EXPECT_TRUE(c.records());
    return scale(scale(x, 2), 3);
  }
  Tensor backward(OpContext&, const Tensor& dy) const { return scale(dy, 6); }
};

TEST_F(TapeTest, OpsKeepTheirNodesButTheirInsidesAreNotRecorded) {
  const Tensor a = leaf({2}, "a");
  const Tensor y = apply(Composite{}, a);
  EXPECT_EQ(y.node()->name(), "composite");
  EXPECT_EQ(y.node()->inputs()[0], a.node());
  backward(y);
  EXPECT_THAT(grad(a), ElementsAre(6));
}

struct Same {
  static constexpr OpInfo info{"same", Precision::follow};
  Tensor forward(OpContext&, const Tensor& x) const { return x; }
  Tensor backward(OpContext&, const Tensor& dy) const { return dy; }
};

TEST_F(TapeTest, ForwardReturningItsInputDoesNotStealItsPlace) {
  const Tensor a = leaf({2}, "a");
  const Tensor y = apply(Same{}, a);
  EXPECT_NE(y.node(), a.node());
  const NoGrad no_grad;
  EXPECT_FALSE(apply(Same{}, a).requires_grad());
}

TEST_F(TapeTest, InputsOnSeveralDevicesAreRefused) {
  FakeBackend fake(DeviceType::cuda);
  {
    const Tensor here = values({1}), there = values({1}).to(cuda(0));
    EXPECT_THAT(
        [&] { add(here, there); },
        ThrowsMessage<Error>(HasSubstr("add: input 1 is on cuda:0, an earlier one is on cpu")));
    EXPECT_THAT([] { apply(Stop{}, Tensor()); },
                ThrowsMessage<Error>(HasSubstr("stop: no input is defined")));
  }
  caching_allocator(cuda(0)).release_cached();
}

TEST_F(TapeTest, BytesAreNamedByOp) {
  CachingAllocator& memory = caching_allocator(cpu());
  memory.reset_peak();
  const Tensor a = leaf(std::vector<double>(1 << 16, 1.0), "a");
  const Tensor y = sum(mul(a, a));
  backward(y);
  const auto by_op = memory.stats().by_op_at_peak;
  EXPECT_TRUE(by_op.contains("mul.backward")) << "at the peak both gradients of mul are there";
}

}  // namespace
}  // namespace bora
