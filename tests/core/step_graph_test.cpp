// SPDX-License-Identifier: Apache-2.0
// A step that is captured and replayed, on a device whose work happens late.
#include "core/step_graph.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <vector>

#include "core/rng.hpp"
#include "tests/support/deferred_backend.hpp"

namespace bora {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using Way = StepGraph::Way;

class StepGraphTest : public testing::Test {
 protected:
  test::DeferredBackend device_;
  Tensor input_ = Tensor::zeros({1000}, DType::f32, cuda(0));
  Tensor sum_ = Tensor::zeros({1000}, DType::f32, cuda(0));
  int bodies_ = 0;

  /// sum += 2 input, by way of scratch; returns a copy of it.
  std::vector<Tensor> step() {
    ++bodies_;
    const Tensor scratch = input_.clone();
    Tensor twice = scratch.clone();
    add(twice, scratch);
    add(sum_, twice);
    return {sum_.clone()};
  }
  static void add(Tensor& to, const Tensor& x) {
    backend(DeviceType::cuda)
        .accumulate(to.stream(), to.raw(), to.dtype(), x.raw(), x.dtype(), to.numel());
  }
  /// Runs with these inputs in turn and returns all results.
  std::vector<std::vector<float>> results(StepGraph& graph, const std::vector<double>& inputs) {
    sum_.fill(0);
    std::vector<std::vector<float>> all;
    for (const double x : inputs) {
      input_.fill(x);
      all.push_back(graph.run("step", {input_}, [&] { return step(); })[0].to_vector<float>());
    }
    return all;
  }
};

TEST_F(StepGraphTest, ReplaysGiveTheBitsOfEagerRuns) {
  const std::vector<double> inputs{1, 0.1, -3, 1e-3, 7, 11, 0.3};
  StepGraph eager(cuda(0), {.enabled = false}), graph(cuda(0), {.warm_up = 3});
  const auto want = results(eager, inputs);
  EXPECT_EQ(bodies_, 7);
  EXPECT_THAT(eager.why_eager("step"), HasSubstr("switched off"));
  bodies_ = 0;
  EXPECT_EQ(results(graph, inputs), want);
  EXPECT_EQ(bodies_, 4) << "three warm-up runs and the capture";
  EXPECT_EQ(device_.n.launches, 4);
  EXPECT_EQ(graph.way("step"), Way::replayed);
  EXPECT_THAT(graph.why_eager("step"), IsEmpty());
}

TEST_F(StepGraphTest, NothingWaitsInAReplay) {
  StepGraph graph(cuda(0), {.warm_up = 2});
  for (int i = 0; i < 3; ++i) graph.run("step", {input_}, [&] { return step(); });
  const auto before = device_.n;
  for (int i = 0; i < 5; ++i) graph.run("step", {input_}, [&] { return step(); });
  EXPECT_EQ(device_.n.launches, before.launches + 5);
  EXPECT_EQ(device_.n.synchronizes, before.synchronizes);
  EXPECT_EQ(device_.n.blocking_copies, before.blocking_copies);
  EXPECT_EQ(device_.n.allocations, before.allocations);
  EXPECT_EQ(device_.n.tasks, before.tasks + 5) << "nothing but the launches is started";
}

TEST_F(StepGraphTest, ScratchOfTheGraphIsNobodyElses) {
  StepGraph graph(cuda(0), {.warm_up = 2});
  results(graph, {1, 2, 3, 4});
  // Eager work between replays takes all the memory it likes.
  std::vector<Tensor> others;
  for (int i = 0; i < 20; ++i) others.push_back(Tensor::full({1000}, i, DType::f32, cuda(0)));
  sum_.fill(0);
  input_.fill(5);
  EXPECT_EQ(graph.run("step", {input_}, [&] { return step(); })[0].to_vector<float>(),
            std::vector<float>(1000, 10.0f));
  for (int i = 0; i < 20; ++i)
    EXPECT_EQ(others[static_cast<size_t>(i)].to_vector<float>(),
              std::vector<float>(1000, static_cast<float>(i)));
}

TEST_F(StepGraphTest, OtherInputsRunEagerlyAndTheGraphStays) {
  StepGraph graph(cuda(0), {.warm_up = 2});
  results(graph, {1, 2, 3});
  const Tensor kept = input_;
  const auto run = [&] { return graph.run("step", {input_}, [&] { return step(); }); };
  sum_.fill(0);
  input_ = Tensor::full({1000}, 4.0, DType::f32, cuda(0));
  EXPECT_EQ(run()[0].to_vector<float>()[7], 8.0f);
  EXPECT_EQ(graph.way("step"), Way::eager);
  EXPECT_THAT(graph.why_eager("step"), HasSubstr("input 0 lies elsewhere"));
  input_ = Tensor::full({10}, 4.0, DType::f32, cuda(0));
  const Tensor long_sum = std::exchange(sum_, Tensor::zeros({10}, DType::f32, cuda(0)));
  EXPECT_EQ(run()[0].to_vector<float>(), std::vector<float>(10, 8.0f));
  EXPECT_THAT(graph.why_eager("step"), HasSubstr("input 0 is (10) f32, captured with (1000) f32"));
  input_ = kept;
  sum_ = long_sum;
  input_.fill(1);
  EXPECT_EQ(run()[0].to_vector<float>()[7], 10.0f);
  EXPECT_EQ(graph.way("step"), Way::replayed);
}

TEST_F(StepGraphTest, VariantsAreCapturedEachForItself) {
  StepGraph graph(cuda(0), {.warm_up = 2});
  sum_.fill(0);
  input_.fill(1);
  for (int window = 0; window < 5; ++window) {
    graph.run("accumulate", {input_}, [&] { return step(); });
    const auto last = graph.run("last", {input_}, [&] {
      std::vector<Tensor> all = step();
      sum_.fill(0);
      return all;
    });
    EXPECT_EQ(last[0].to_vector<float>(), std::vector<float>(1000, 4.0f)) << window;
  }
  EXPECT_EQ(graph.way("accumulate"), Way::replayed);
  EXPECT_EQ(graph.way("last"), Way::replayed);
  EXPECT_EQ(bodies_, 6);
}

// What a later variant makes on first use must not lie in the scratch of an earlier graph.
TEST_F(StepGraphTest, WhatStaysFromAFirstRunIsNotOverwritten) {
  StepGraph graph(cuda(0), {.warm_up = 2});
  results(graph, {1, 2, 3});
  Tensor made;
  const auto other = [&] {
    if (!made.defined()) made = Tensor::full({1000}, 42.0, DType::f32, cuda(0));
    return std::vector<Tensor>{made.clone()};
  };
  graph.run("other", {}, other);
  for (int i = 0; i < 5; ++i) {
    input_.fill(i);
    graph.run("step", {input_}, [&] { return step(); });
    EXPECT_EQ(graph.run("other", {}, other)[0].to_vector<float>(), std::vector<float>(1000, 42.0f));
  }
  EXPECT_EQ(graph.way("step"), Way::replayed);
  EXPECT_EQ(graph.way("other"), Way::replayed);
}

TEST_F(StepGraphTest, WhatCannotBeCapturedRunsEagerlyAndSaysWhy) {
  struct Case {
    const char* name;
    std::function<void()> what;
    const char* why;
  };
  std::vector<float> host(4);
  const Event earlier = current_stream(cuda(0)).record();
  std::vector<Tensor> kept;
  const std::vector<Case> cases{
      {"item", [&] { Tensor::zeros({}, DType::f32, cuda(0)).item(); }, "pageable memory"},
      {"waits", [&] { sum_.stream().synchronize(); }, "the host waits for a stream"},
      {"event", [&] { sum_.stream().wait(earlier); }, "issued before the capture"},
      {"draws", [&] { next_rng_key(); }, "draws random numbers"},
      {"keeps", [&] { kept.push_back(Tensor::zeros({9}, DType::f32, cuda(0))); }, "outlive it"},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.name);
    StepGraph graph(cuda(0), {.warm_up = 2});
    sum_.fill(0);
    input_.fill(1);
    int restarts = 0;
    std::vector<float> last;
    for (int i = 0; i < 5; ++i)
      last = graph
                 .run(
                     "step", {input_},
                     [&] {
                       c.what();
                       return step();
                     },
                     [&] { ++restarts; })[0]
                 .to_vector<float>();
    EXPECT_EQ(last, std::vector<float>(1000, 10.0f)) << "every run must have counted once";
    EXPECT_EQ(graph.way("step"), Way::eager);
    EXPECT_THAT(graph.why_eager("step"), HasSubstr(c.why));
    EXPECT_LE(restarts, 1);
    kept.clear();
  }
}

TEST_F(StepGraphTest, AnErrorOfTheStepStaysOne) {
  StepGraph graph(cuda(0), {.warm_up = 2});
  const auto run = [&](bool fails) {
    graph.run("step", {input_}, [&] {
      BORA_CHECK(!fails, "the step is wrong");
      return step();
    });
  };
  run(false);
  run(false);
  EXPECT_THROW(run(true), Error);
  run(false);  // the capture is over
  EXPECT_THAT(graph.why_eager("step"), HasSubstr("the step is wrong"));
}

TEST_F(StepGraphTest, ResetCapturesAgain) {
  StepGraph graph(cuda(0), {.warm_up = 2});
  results(graph, {1, 2, 3, 4});
  graph.reset();
  EXPECT_EQ(results(graph, {1, 2, 3, 4})[3], std::vector<float>(1000, 20.0f));
  EXPECT_EQ(graph.way("step"), Way::replayed);
  EXPECT_EQ(bodies_, 6);
}

TEST(StepGraphWithoutGraphs, IsThePlainStep) {
  for (const bool cuda_device : {false, true}) {
    std::optional<test::DeferredBackend> device;
    if (cuda_device) device.emplace(/*graphs=*/false);
    const Device where = cuda_device ? cuda(0) : cpu();
    StepGraph graph(where);
    for (int i = 0; i < 6; ++i) {
      const auto out = graph.run(
          "step", {}, [&] { return std::vector<Tensor>{Tensor::full({2}, i, DType::f32, where)}; });
      EXPECT_EQ(out[0].to_vector<float>()[1], static_cast<float>(i));
    }
    EXPECT_THAT(graph.why_eager("step"), HasSubstr("no graphs on"));
  }
  EXPECT_THROW(StepGraph(cpu(), {.warm_up = 1}), Error);
}

}  // namespace
}  // namespace bora
