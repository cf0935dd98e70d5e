// SPDX-License-Identifier: Apache-2.0
// When operations of the NCCL communicator happen, and who waits for them, over the doubles.
#include "core/backend.hpp"
#include "tests/comm/nccl_fixture.hpp"

#include <cuda_runtime_api.h>

#include <atomic>
#include <thread>

namespace bora {
namespace {

using testing::NcclOperations;
using testing::NcclTest;

// Asynchronous work runs in order, behind the computation before it and before that after it.
TEST_F(NcclOperations, OperationsInFlightKeepTheirOrder) {
  Tensor x = Tensor::full({1000}, 1, DType::f64, device_);
  std::vector<Work> works;
  double want = 1;
  for (int i = 0; i < 5; ++i) {
    works.push_back(nccl_->all_reduce_async(x, i % 2 == 0 ? ReduceOp::sum : ReduceOp::max, "x"));
    if (i % 2 == 0) want *= size();
  }
  // Nobody has waited for the earlier ones: the last one's end is theirs too.
  works.back().wait();
  Tensor y = Tensor::zeros({1000}, DType::f64, device_);
  backend(DeviceType::cuda).accumulate(x.stream(), y.raw(), DType::f64, x.raw(), DType::f64, 1000);
  for (double v : y.to_vector<double>()) ASSERT_EQ(want, v);
  for (const Work& w : works) EXPECT_TRUE(w.done());
}

/// A kernel that lasts until it is told to end, and then writes.
struct SlowKernel {
  std::atomic<bool> end{false};
  float* data = nullptr;
  static void run(void* self) {
    auto& kernel = *static_cast<SlowKernel*>(self);
    while (!kernel.end) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    for (int i = 0; i < 10; ++i) kernel.data[i] = 1;
  }
};

// What was issued before on the compute stream is part of what is reduced, and what comes after the
// wait sees the sum; the host goes on meanwhile.
TEST_F(NcclOperations, WaitingOrdersTheStreamsAndNotTheHost) {
  Tensor x = Tensor::zeros({10}, DType::f32, device_);
  SlowKernel kernel;
  kernel.data = x.data<float>();
  ASSERT_EQ(cudaSuccess, cudaSetDevice(device_.index));
  ASSERT_EQ(cudaSuccess, cudaLaunchHostFunc(nullptr, SlowKernel::run, &kernel));
  const Work work = nccl_->all_reduce_async(x, ReduceOp::sum, "x");
  work.wait();
  EXPECT_FALSE(work.done());
  std::this_thread::sleep_for(std::chrono::milliseconds(50));  // for what would begin too early
  kernel.end = true;
  for (float v : x.to_vector<float>()) ASSERT_EQ(static_cast<float>(size()), v);
  EXPECT_TRUE(work.done());
}

// Nobody else holds the tensor: its memory must not be given to others before NCCL is done with it.
TEST_F(NcclOperations, TensorsLiveUntilTheirOperationIsDone) {
  nccl_double::Faults fault;
  fault.hang_operation = 2;
  set_faults_on(0, fault);
  std::vector<float> memory(10, 1);
  std::atomic<bool> released{false};
  nccl_->all_reduce_async(
      Tensor::wrap(memory.data(), {10}, DType::f32, device_, [&] { released = true; }),
      ReduceOp::sum, "x");
  nccl_->check();
  EXPECT_FALSE(released);
  host_->barrier("all have looked");
  nccl_->abort("enough");
  nccl_.reset();
  EXPECT_TRUE(released);
}

TEST_F(NcclTest, HostWaitsUntilDoneIfAsked) {
  options_.wait = NcclWait::host;
  const auto nccl = make();
  nccl_double::Faults late;
  late.delay_operation = 2;
  late.delay_s = 0.2;
  set_faults_on(0, late);
  Tensor x = Tensor::full({10}, 1, DType::f32, cuda(nccl->device()));
  const Work work = nccl->all_reduce_async(x, ReduceOp::sum, "late");
  work.wait();
  EXPECT_TRUE(work.done());
  EXPECT_EQ(static_cast<float>(size()), x.data<float>()[9]);  // without any synchronisation
}

// Non-blocking mode: every call may still be in progress when it returns.
TEST_F(NcclTest, CallsInProgressAreWaitedFor) {
  nccl_double::Faults slow;
  slow.in_progress = 7;
  set_faults_on(size() - 1, slow);
  const auto nccl = make();
  Tensor x = Tensor::full({100}, 1, DType::i32, cuda(nccl->device()));
  for (int i = 0; i < 3; ++i) nccl->all_reduce(x, ReduceOp::sum, "x");
  const auto part = nccl->split(0, rank());
  part->all_reduce(x, ReduceOp::max, "x");
  EXPECT_EQ(size() * size() * size(), x.to_vector<int32_t>()[99]);
  EXPECT_EQ(0, nccl_double::counters().misuses);
}

}  // namespace
}  // namespace bora
