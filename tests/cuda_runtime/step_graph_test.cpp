// SPDX-License-Identifier: Apache-2.0
// StepGraph over the CUDA backend: captured and replayed, with uploads on a stream of their own.
#include "core/step_graph.hpp"

#include <gtest/gtest.h>

#include <vector>

#include "core/backend.hpp"
#include "core/pinned.hpp"
#include "core/readback.hpp"
#include "kernels/cuda/device.hpp"

namespace bora {
namespace {

using kernels::cuda::device_counters;
using kernels::cuda::DeviceCounters;
using kernels::cuda::install_cuda_backend;

/// Sums of weighted inputs over some steps, the losses read back without waiting.
std::vector<double> train(bool graphs, int steps) {
  Backend& device = backend(DeviceType::cuda);
  const Stream compute = current_stream(cuda(0)), copy = device.make_stream(cuda(0), false);
  StepGraph graph(cuda(0), {.enabled = graphs, .warm_up = 2});
  PinnedPool pool(cuda(0));
  DeviceReadback readback(cuda(0), pool);
  Tensor input = Tensor::zeros({4096}, DType::f32, cuda(0));
  Tensor weights = Tensor::full({4096}, 0.1, DType::f32, cuda(0));
  Event used = compute.record();  // the work that touched `input` last, at first its filling
  for (int i = 0; i < steps; ++i) {
    Tensor staged = pool.tensor({4096}, DType::f32);
    for (int64_t k = 0; k < 4096; ++k)
      staged.data<float>()[k] = 0.01f * static_cast<float>((k + 7 * i) % 13);
    copy.wait(used);
    device.copy(copy, input.raw(), cuda(0), staged.raw(), cpu(), input.bytes());
    const Event uploaded = copy.record();
    pool.guard(staged, uploaded);
    compute.wait(uploaded);
    const auto loss = graph.run("step", {input}, [&] {
      Tensor half = input.to(DType::f16);  // scratch
      Tensor sum = half.to(DType::f32);
      device.accumulate(compute, weights.raw(), DType::f32, sum.raw(), DType::f32, 4096);
      return std::vector<Tensor>{weights.rows(17, 18).clone()};
    });
    used = compute.record();
    readback.push(loss[0]);
    EXPECT_EQ(graph.way("step") == StepGraph::Way::replayed, graphs && i > 2);
  }
  std::vector<double> losses;
  while (readback.pending() > 0) losses.push_back(readback.wait().values.item());
  device.destroy_stream(copy);
  return losses;
}

TEST(CudaStepGraph, ReplaysGiveTheBitsOfEagerRuns) {
  install_cuda_backend();
  const std::vector<double> eager = train(false, 20), graph = train(true, 20);
  ASSERT_EQ(eager.size(), 20u);
  EXPECT_EQ(graph, eager);
  EXPECT_NE(eager[18], eager[19]);
  EXPECT_EQ(train(true, 20), graph);
}

// What a run with other inputs makes and keeps must not lie where a replay has its scratch.
TEST(CudaStepGraph, WhatAnEagerRunKeepsOutlivesReplays) {
  install_cuda_backend();
  Tensor a = Tensor::full({4096}, 1.0, DType::f32, cuda(0)), b = a.clone(), kept;
  StepGraph graph(cuda(0), {.warm_up = 2});
  const auto step = [&](const Tensor& x) {
    graph.run("step", {x}, [&] {
      if (x.raw() == b.raw() && !kept.defined())
        kept = Tensor::full({4096}, 7.0, DType::f32, cuda(0));
      return std::vector<Tensor>{x.clone().rows(0, 1).clone()};
    });
    return graph.way("step");
  };
  for (int i = 0; i < 3; ++i) step(a);
  EXPECT_EQ(step(a), StepGraph::Way::replayed);
  EXPECT_EQ(step(b), StepGraph::Way::eager);
  EXPECT_EQ(step(a), StepGraph::Way::eager) << "the graph is forgotten";
  step(a);
  EXPECT_EQ(step(a), StepGraph::Way::replayed);
  EXPECT_EQ(kept.to_vector<float>(), std::vector<float>(4096, 7.0f));
  EXPECT_EQ(step(b), StepGraph::Way::eager);
  EXPECT_EQ(step(a), StepGraph::Way::replayed) << "this time nothing stayed";
}

TEST(CudaStepGraph, ReplaysMakeNoCallsThatWait) {
  install_cuda_backend();
  Tensor x = Tensor::zeros({100}, DType::f32, cuda(0));
  StepGraph graph(cuda(0), {.warm_up = 2});
  const auto step = [&] {
    return graph.run("step", {x}, [&] {
      x.copy_from(x.clone());
      return std::vector<Tensor>{};
    });
  };
  for (int i = 0; i < 3; ++i) step();
  const DeviceCounters before = device_counters();
  for (int i = 0; i < 10; ++i) step();
  const DeviceCounters after = device_counters();
  EXPECT_EQ(after.graph_launches, before.graph_launches + 10);
  EXPECT_EQ(after.synchronizes, before.synchronizes);
  EXPECT_EQ(after.blocking_copies, before.blocking_copies);
  EXPECT_EQ(after.copies, before.copies);
  EXPECT_EQ(after.allocations, before.allocations);
}

}  // namespace
}  // namespace bora
