// SPDX-License-Identifier: Apache-2.0
// The CUDA backend's host code: memory, copies, streams, events, captures.
#include <cuda_runtime_api.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include "core/allocator.hpp"
#include "core/backend.hpp"
#include "core/pinned.hpp"
#include "core/readback.hpp"
#include "core/tensor.hpp"
#include "kernels/cuda/device.hpp"
#include "tests/nccl_double/cuda_double.hpp"
#include "tests/nccl_double/nccl_double.hpp"

namespace bora {
namespace {

using kernels::cuda::bind_device;
using kernels::cuda::device_counters;
using kernels::cuda::DeviceCounters;
using kernels::cuda::install_cuda_backend;

using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

class CudaBackendTest : public testing::Test {
 protected:
  ~CudaBackendTest() override { nccl_double::set_memory_limits(INT64_MAX, INT64_MAX); }

  Backend& cuda_backend() { return backend(DeviceType::cuda); }
  const bool installed_ = (install_cuda_backend(), true);
  Stream compute_ = current_stream(cuda(0));

  /// Holds a stream until let go.
  struct Gate {
    std::atomic<bool> open{false};
    void hold(Stream s) {
      nccl_double::stream_of(static_cast<cudaStream_t>(s.native)).enqueue([this] {
        while (!open) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      });
    }
  };
};

TEST_F(CudaBackendTest, ComputesOnAStreamOfItsOwnNotTheLegacyOne) {
  ASSERT_NE(compute_.native, nullptr);
  EXPECT_EQ(current_stream(cuda(0)).native, compute_.native);
  EXPECT_NE(current_stream(cuda(1)).native, compute_.native);
  const Stream urgent = cuda_backend().make_stream(cuda(0), true);
  const Stream plain = cuda_backend().make_stream(cuda(0), false);
  EXPECT_EQ(nccl_double::priority_of(urgent.native), -5);
  EXPECT_EQ(nccl_double::priority_of(plain.native), 0);
  const int64_t before = nccl_double::live_streams();
  cuda_backend().destroy_stream(urgent);
  cuda_backend().destroy_stream(plain);
  EXPECT_EQ(nccl_double::live_streams(), before - 2);
}

TEST_F(CudaBackendTest, TheThreadsDeviceStaysAsItWas) {
  bind_device(1);
  const Tensor there = Tensor::full({10}, 1.0, DType::f32, cuda(3));
  EXPECT_EQ(there.to_vector<float>()[9], 1.0f);
  int now = -1;
  cudaGetDevice(&now);
  EXPECT_EQ(now, 1);
  bind_device(0);
  cudaGetDevice(&now);
  EXPECT_EQ(now, 0);
}

// A thread stands on device 0 whether the process works there or not.
TEST_F(CudaBackendTest, ADeviceThatNobodyChoseIsLeftAlone) {
  std::thread([&] {
    constexpr int kUnused = 6;
    ASSERT_EQ(cudaSetDevice(kUnused), cudaSuccess);
    const int64_t before = nccl_double::uses_of_device(kUnused);
    void* const pinned = cuda_backend().allocate_pinned(256);
    cuda_backend().free_pinned(pinned, 256);
    const Tensor x = Tensor::full({10}, 1.0, DType::f32, cuda(0));
    EXPECT_EQ(x.to_vector<float>()[9], 1.0f);
    compute_.record().synchronize();
    EXPECT_EQ(nccl_double::uses_of_device(kUnused), before) << "a context was made there";
  }).join();
}

// CUDA's word: the call "might be synchronous".
TEST_F(CudaBackendTest, PageableMemoryHasBeenReadWhenACopyReturns) {
  std::vector<float> host(1000, 1.0f);
  Tensor there = Tensor::zeros({1000}, DType::f32, cuda(0));
  compute_.synchronize();
  Gate gate;
  gate.hold(compute_);
  std::thread opener([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    gate.open = true;
  });
  cuda_backend().copy(compute_, there.raw(), cuda(0), host.data(), cpu(), 4000);
  host.assign(1000, 2.0f);
  opener.join();
  EXPECT_EQ(there.to_vector<float>(), std::vector<float>(1000, 1.0f));
}

TEST_F(CudaBackendTest, TensorsComeAndGoAsOnTheCpu) {
  std::vector<float> values(1001);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i) * 0.5f - 100.0f;
  const Tensor host = Tensor::from<float>({7, 11, 13}, values), there = host.to(cuda(0));
  EXPECT_EQ(there.to_vector<float>(), values);
  for (const DType type : {DType::f16, DType::bf16, DType::f64, DType::i32})
    EXPECT_EQ(there.to(type).to(DType::f32).to_vector<float>(),
              host.to(type).to(DType::f32).to_vector<float>());
  EXPECT_EQ(Tensor::full({3}, -0.0, DType::f32, cuda(0)).to_vector<float>()[0], -0.0f);
  EXPECT_EQ(Tensor::full({5}, 255, DType::u8, cuda(0)).to_vector<uint8_t>()[4], 255);
  EXPECT_EQ(Tensor::scalar<double>(2.5, cuda(0)).item(), 2.5);
}

TEST_F(CudaBackendTest, NoMemoryIsAnErrorWithFigures) {
  nccl_double::set_memory_limits(int64_t{300} << 20, INT64_MAX);
  EXPECT_THAT(
      [] { Tensor::empty({int64_t{400} << 20}, DType::u8, cuda(0)); },
      ThrowsMessage<Error>(AllOf(HasSubstr("out of memory on cuda:0 (double of a device"),
                                 HasSubstr("400 MiB were asked for, 120 of 144384 MiB are free"),
                                 HasSubstr("MiB live"))));
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
  nccl_double::set_memory_limits(INT64_MAX, 1000);
  EXPECT_THAT([&] { cuda_backend().allocate_pinned(4096); },
              ThrowsMessage<Error>(AllOf(HasSubstr("pinned host memory"), HasSubstr("ulimit -l"))));
}

TEST_F(CudaBackendTest, PinnedCopiesDoNotWaitPageableOnesDo) {
  PinnedPool pool(cuda(0), 1 << 16);
  Tensor pinned = pool.tensor({100}, DType::f32), pageable = Tensor::zeros({100}, DType::f32);
  Tensor there = Tensor::full({100}, 1.0, DType::f32, cuda(0));
  compute_.synchronize();
  Gate gate;
  gate.hold(compute_);
  const DeviceCounters before = device_counters();
  pinned.fill(5);
  there.view(0, {100});
  cuda_backend().copy(compute_, there.raw(), cuda(0), pinned.raw(), cpu(), 400);
  cuda_backend().copy(compute_, pinned.raw(), cpu(), there.raw(), cuda(0), 400);
  const Event copied = compute_.record();
  EXPECT_FALSE(copied.done());
  EXPECT_EQ(device_counters().copies, before.copies + 2);
  EXPECT_EQ(device_counters().blocking_copies, before.blocking_copies);
  gate.open = true;
  copied.synchronize();
  EXPECT_TRUE(copied.done());
  cuda_backend().copy(compute_, pageable.raw(), cpu(), there.raw(), cuda(0), 400);
  EXPECT_EQ(pageable.data<float>()[99], 5.0f);
  EXPECT_EQ(device_counters().blocking_copies, before.blocking_copies + 1);
  EXPECT_EQ(device_counters().synchronizes, before.synchronizes + 1);
}

TEST_F(CudaBackendTest, StreamsWaitForEventsNotTheHost) {
  const Stream copy = cuda_backend().make_stream(cuda(0), false);
  Tensor x = Tensor::zeros({1000}, DType::f32, cuda(0)), y = x.clone();
  compute_.synchronize();
  Gate gate;
  gate.hold(compute_);
  x.fill(3);
  const Event filled = compute_.record();
  copy.wait(filled);
  cuda_backend().copy(copy, y.raw(), cuda(0), x.raw(), cuda(0), x.bytes());
  const Event copied = copy.record();
  EXPECT_FALSE(filled.done());
  EXPECT_FALSE(copied.done());
  gate.open = true;
  compute_.wait(copied);
  EXPECT_EQ(y.to_vector<float>()[999], 3.0f);
  cuda_backend().destroy_stream(copy);
}

TEST_F(CudaBackendTest, EventsAreUsedAgain) {
  { const Event first = compute_.record(); }
  const int64_t alive = nccl_double::live_events();
  for (int i = 0; i < 100; ++i) compute_.record();
  EXPECT_EQ(nccl_double::live_events(), alive);
  EXPECT_TRUE(Event().done());
}

TEST_F(CudaBackendTest, ReadbackArrivesWithoutAWait) {
  DeviceReadback readback(cuda(0));
  Tensor loss = Tensor::scalar<float>(1.5f, cuda(0));
  readback.push(loss);  // the pool takes its slab
  readback.wait();
  const DeviceCounters before = device_counters();
  loss.fill(2.5);
  readback.push(loss);
  std::optional<DeviceReadback::Item> item;
  while (!item) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    item = readback.pop();
  }
  EXPECT_EQ(item->values.item(), 2.5);
  EXPECT_EQ(device_counters().synchronizes, before.synchronizes);
  EXPECT_EQ(device_counters().blocking_copies, before.blocking_copies);
  EXPECT_EQ(device_counters().pinned_allocations, before.pinned_allocations);
}

TEST_F(CudaBackendTest, ACaptureRunsWhenLaunched) {
  const Stream side = cuda_backend().make_stream(cuda(0), true);
  Tensor x = Tensor::zeros({100}, DType::f32, cuda(0)), y = x.clone(), z = x.clone();
  compute_.synchronize();
  cuda_backend().begin_capture(compute_);
  x.fill(2);
  side.wait(compute_.record());
  cuda_backend().accumulate(side, y.raw(), DType::f32, x.raw(), DType::f32, 100);
  compute_.wait(side.record());
  z.copy_from(y);
  const Graph graph = cuda_backend().end_capture(compute_);
  EXPECT_EQ(y.to_vector<float>()[0], 0.0f) << "written down, not run";
  for (int i = 1; i <= 3; ++i) {
    cuda_backend().launch(compute_, graph);
    EXPECT_EQ(z.to_vector<float>()[99], 2.0f * static_cast<float>(i));
  }
  cuda_backend().destroy_stream(side);
}

TEST_F(CudaBackendTest, GraphsAreFreed) {
  const int64_t before = nccl_double::live_graphs();
  cuda_backend().begin_capture(compute_);
  {
    const Graph graph = cuda_backend().end_capture(compute_);
    EXPECT_EQ(nccl_double::live_graphs(), before + 1) << "the executable one alone";
  }
  EXPECT_EQ(nccl_double::live_graphs(), before);
}

// Each breaks the capture with its reason, and leaves the stream as good as new.
TEST_F(CudaBackendTest, WhatACaptureCannotHoldIsNamed) {
  const Stream side = cuda_backend().make_stream(cuda(0), false);
  Tensor x = Tensor::zeros({100}, DType::f32, cuda(0));
  const Event earlier = side.record();
  struct Case {
    const char* name;
    std::function<void()> what;
    const char* why;
  };
  const std::vector<Case> cases{
      {"allocation", [&] { cuda_backend().allocate(256, cuda(0)); }, "memory is taken"},
      {"pinned", [&] { cuda_backend().allocate_pinned(256); }, "pinned memory is taken"},
      {"item", [&] { x.to_vector<float>(); }, "400 bytes to pageable host memory"},
      {"upload", [&] { x.copy_from(Tensor::zeros({100}, DType::f32)); },
       "400 bytes from pageable host memory"},
      {"stream", [&] { compute_.synchronize(); }, "the host waits for a stream"},
      {"event", [&] { earlier.synchronize(); }, "the host waits for an event"},
      {"before", [&] { compute_.wait(earlier); }, "work issued before the capture"},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.name);
    cuda_backend().begin_capture(compute_);
    EXPECT_THAT(c.what, ThrowsMessage<Error>(HasSubstr(c.why)));
    EXPECT_THAT([&] { cuda_backend().end_capture(compute_); },
                ThrowsMessage<Error>(HasSubstr(c.why)));
    x.fill(1);
    EXPECT_EQ(x.to_vector<float>()[0], 1.0f);
  }
  // What CUDA finds itself: a stream that joined and was not waited for.
  cuda_backend().begin_capture(compute_);
  side.wait(compute_.record());
  cuda_backend().fill(side, x.raw(), DType::f32, 2, 100);
  EXPECT_THAT([&] { cuda_backend().end_capture(compute_); },
              ThrowsMessage<Error>(HasSubstr("has not been waited for in turn")));
  cuda_backend().destroy_stream(side);
}

// What broke a capture is told once, not again by the next check of a launch.
TEST_F(CudaBackendTest, ABrokenCaptureLeavesNoErrorBehind) {
  cuda_backend().begin_capture(compute_);
  void* data = nullptr;
  EXPECT_NE(cudaMalloc(&data, 256), cudaSuccess);
  EXPECT_THROW(cuda_backend().allocate(256, cuda(0)), Error);
  EXPECT_NE(cudaGetLastError(), cudaSuccess);
  EXPECT_THROW(cuda_backend().end_capture(compute_), Error);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
}

// The captured work runs at the launch: other streams must not run ahead of it.
TEST_F(CudaBackendTest, WhoWaitsForAnEventOfACaptureWaitsForItsLaunch) {
  const Stream side = cuda_backend().make_stream(cuda(0), false);
  Tensor x = Tensor::zeros({100}, DType::f32, cuda(0)), y = x.clone();
  cuda_backend().begin_capture(compute_);
  x.fill(4);
  const Event inside = compute_.record();
  const Graph graph = cuda_backend().end_capture(compute_);
  compute_.synchronize();
  Gate gate;
  gate.hold(compute_);
  cuda_backend().launch(compute_, graph);
  side.wait(inside);
  cuda_backend().copy(side, y.raw(), cuda(0), x.raw(), cuda(0), x.bytes());
  const Event copied = side.record();
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_FALSE(copied.done());
  std::thread opener([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    gate.open = true;
  });
  inside.synchronize();
  EXPECT_TRUE(gate.open);
  opener.join();
  copied.synchronize();
  EXPECT_EQ(y.to_vector<float>()[99], 4.0f);
  cuda_backend().destroy_stream(side);
}

TEST_F(CudaBackendTest, ACaptureDoesNotMindLooksAtOtherWorkNorOtherThreads) {
  const Event outside = current_stream(cuda(1)).record();
  Tensor x = Tensor::zeros({100}, DType::f32, cuda(0));
  cuda_backend().begin_capture(compute_);
  outside.done();
  std::thread([] {
    Tensor::full({10}, 1.0, DType::f32, cuda(1)).to_vector<float>();
    current_stream(cuda(1)).synchronize();
  }).join();
  x.fill(4);
  const Event inside = compute_.record();
  EXPECT_FALSE(inside.done());
  const Graph graph = cuda_backend().end_capture(compute_);
  EXPECT_TRUE(inside.done()) << "what comes now comes after it";
  cuda_backend().launch(compute_, graph);
  EXPECT_EQ(x.to_vector<float>()[0], 4.0f);
}

}  // namespace
}  // namespace bora
