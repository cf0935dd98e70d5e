// SPDX-License-Identifier: Apache-2.0
#include "core/recompute.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "tests/core/toy_ops.hpp"

namespace bora {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;
using namespace toy;  // NOLINT(google-build-using-namespace)

using Body = std::function<Tensor(const Tensor&)>;

Tensor plain(const Body& body, const Tensor& x, const std::vector<Tensor>&) { return body(x); }

// Odd numbers, so that a change in the order of sums or products shows in the last bit.
std::vector<double> odd(size_t n, double start) {
  std::vector<double> v(n);
  for (size_t i = 0; i < n; ++i) v[i] = start + 0.1 * static_cast<double>(i) + 1.0 / 3.0;
  return v;
}

struct Result {
  double loss = 0;
  std::map<std::string, std::vector<double>> grads;
  std::vector<std::string> ready;
  friend bool operator==(const Result&, const Result&) = default;
};

// `run(segment, leaves)` builds the loss; the leaves are x, w1, w2.
template <class Run>
Result result_of(Run&& run, bool again) {
  const RngScope position({42, 7, 0});
  std::vector<Tensor> leaves{leaf(odd(50, 1), "x"), leaf(odd(50, 2), "w1"), leaf(odd(50, 3), "w2")};
  Result r;
  for (const Tensor& l : leaves)
    leaf_of(l).set_ready_hook([&](Leaf& one) { r.ready.push_back(one.name()); });
  const Tensor loss = run(again ? recompute : plain, leaves);
  r.loss = loss.item();
  backward(loss);
  for (const Tensor& l : leaves)
    if (leaf_of(l).has_gradient()) r.grads[leaf_of(l).name()] = grad(l);
  return r;
}

template <class Run>
void expect_same_as_plain(Run&& run) {
  const Result a = result_of(run, false), b = result_of(run, true);
  EXPECT_EQ(a.loss, b.loss);
  EXPECT_EQ(a.grads, b.grads);  // bitwise
  // Once each.  Inside a segment the order is that of its list, in each run.
  EXPECT_THAT(b.ready, testing::UnorderedElementsAreArray(a.ready));
  EXPECT_EQ(b, result_of(run, true));
}

TEST(Recompute, GradientsAreThoseOfThePlainRun) {
  expect_same_as_plain([](auto segment, const std::vector<Tensor>& l) {
    const Tensor h = segment([&](const Tensor& x) { return mul(mul(x, l[1]), x); }, l[0], {l[1]});
    return sum(segment([&](const Tensor& x) { return mul(scale(x, 0.3), l[2]); }, h, {l[2]}));
  });
}

TEST(Recompute, ParameterSharedByTwoSegmentsIsReadyOnce) {
  const auto run = [](auto segment, const std::vector<Tensor>& l) {
    const Body body = [&](const Tensor& x) { return mul(x, l[1]); };
    return sum(mul(segment(body, segment(body, l[0], {l[1]}), {l[1]}), l[2]));
  };
  expect_same_as_plain(run);
  EXPECT_THAT(result_of(run, true).ready, testing::UnorderedElementsAre("x", "w1", "w2"));
}

TEST(Recompute, InputWithoutGradientStillTrainsTheParameters) {
  expect_same_as_plain([](auto segment, const std::vector<Tensor>& l) {
    const Tensor data = l[0].detach();
    return sum(segment([&](const Tensor& x) { return mul(x, l[1]); }, data, {l[1]}));
  });
}

TEST(Recompute, RandomDrawsAreTheSame) {
  const auto run = [](auto segment, const std::vector<Tensor>& l) {
    const Body body = [&](const Tensor& x) { return mul(drop(drop(x)), l[1]); };
    // The draw after the segment must not depend on the segment's second run either.
    return sum(drop(segment(body, l[0], {l[1]})));
  };
  expect_same_as_plain(run);
  const Result r = result_of(run, true);
  const std::vector<double>& dx = r.grads.at("x");
  const auto zeros = std::count(dx.begin(), dx.end(), 0.0);
  EXPECT_GT(zeros, 20);  // of 50, 7 of 8 are dropped on average
  EXPECT_LT(zeros, 50);
}

TEST(Recompute, BackwardLeavesTheRandomPositionAlone) {
  const RngScope position({1, 2, 0});
  const Tensor x = leaf(odd(4, 1), "x");
  const Tensor y = sum(recompute([](const Tensor& t) { return drop(t); }, x, {}));
  const uint64_t next = rng_position().next;
  EXPECT_EQ(next, 1u);
  backward(y);
  EXPECT_EQ(rng_position().next, next);
}

TEST(Recompute, Nests) {
  expect_same_as_plain([](auto segment, const std::vector<Tensor>& l) {
    const Body inner = [&](const Tensor& x) { return drop(mul(x, l[1])); };
    // By value: the body runs again in backward, when this scope has gone.
    const Body outer = [inner, segment, &l](const Tensor& x) {
      return mul(segment(inner, scale(x, 0.7), {l[1]}), l[2]);
    };
    return sum(segment(outer, l[0], {l[1], l[2]}));
  });
}

TEST(Recompute, KeepsOnlyTheInput) {
  const size_t n = 1 << 16;
  const Tensor x = leaf(odd(n, 1), "x"), w = leaf(odd(n, 2), "w");
  const Body body = [&](const Tensor& t) { return mul(mul(mul(mul(t, w), w), w), w); };
  const auto live = [] { return caching_allocator(cpu()).stats().live; };
  const int64_t before = live();
  const Tensor kept = body(x);
  EXPECT_EQ(live() - before, int64_t{4} * 8 * (1 << 16));  // three inside and the result
  const int64_t middle = live();
  const Tensor freed = recompute(body, x, {w});
  EXPECT_EQ(live() - middle, int64_t{1} * 8 * (1 << 16));  // the result
}

TEST(Recompute, RunsTheBodyTwiceAndNotUnderNoGrad) {
  int runs = 0;
  const Tensor x = leaf({1, 2}, "x");
  const Body body = [&](const Tensor& t) {
    ++runs;
    return scale(t, 2);
  };
  const Tensor y = sum(recompute(body, x, {}));
  EXPECT_EQ(runs, 1);
  backward(y);
  EXPECT_EQ(runs, 2);
  {
    const NoGrad no_grad;
    EXPECT_FALSE(recompute(body, x, {}).requires_grad());
  }
  EXPECT_EQ(runs, 3);
  EXPECT_FALSE(recompute(body, values({1}), {}).requires_grad());
}

TEST(Recompute, TheBodyKnowsThatItRunsAgain) {
  std::vector<bool> seen;
  const Tensor x = leaf({1, 2}, "x");
  const Body inner = [&](const Tensor& t) {
    seen.push_back(recomputing());
    return scale(t, 2);
  };
  const Tensor y = sum(recompute([&](const Tensor& t) { return inner(t); }, x, {}));
  backward(y);
  EXPECT_THAT(seen, ElementsAre(false, true));
  EXPECT_FALSE(recomputing());
  // Nested: once for the first time, again with the outer body, again for its own backward.
  seen.clear();
  backward(sum(recompute([&](const Tensor& t) { return recompute(inner, t, {}); }, x, {})));
  EXPECT_THAT(seen, ElementsAre(false, true, true));
  // An exception on the second run ends it too.
  const Tensor z = recompute(
      [&](const Tensor& t) {
        if (recomputing()) throw Error("no");
        return scale(t, 2);
      },
      x, {});
  EXPECT_THROW(backward(sum(z)), Error);
  EXPECT_FALSE(recomputing());
}

TEST(Recompute, SinksOverwriteThenAddAcrossSegments) {
  const Tensor w = leaf({2}, "w");
  leaf_of(w).set_gradient_buffer(Tensor::full({1}, 99, DType::f64));
  trace().clear();
  const Body body = [&](const Tensor& x) { return mul_sink(x, w); };
  backward(recompute(body, recompute(body, values({5}), {w}), {w}));
  EXPECT_THAT(trace(), ElementsAre("mul_sink", "sink overwrite", "mul_sink", "sink add"));
  EXPECT_THAT(grad(w), ElementsAre(20));  // d(5 w w)/dw
}

TEST(Recompute, ErrorsNameBothOps) {
  const Tensor x = leaf({1}, "x");
  const Tensor y = recompute([](const Tensor& t) { return apply(Fail{}, t); }, x, {});
  EXPECT_THAT([&] { backward(y); },
              ThrowsMessage<Error>(testing::AllOf(HasSubstr("in backward of recompute #"),
                                                  HasSubstr("in backward of fail #"))));
}

TEST(Recompute, SecondBackwardIsAnError) {
  const Tensor x = leaf({1}, "x");
  const Tensor y = recompute([](const Tensor& t) { return scale(t, 2); }, x, {});
  backward(y);
  EXPECT_THAT([&] { backward(y); }, ThrowsMessage<Error>(HasSubstr("backward of recompute #")));
}

}  // namespace
}  // namespace bora
