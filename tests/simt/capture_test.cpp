// SPDX-License-Identifier: Apache-2.0
// Streams, events, graphs and counters of the emulated device: what a device allows, and what not.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/backend.hpp"
#include "core/tensor.hpp"
#include "kernels/pointwise.hpp"
#include "kernels/simt/emulator.hpp"
#include "tests/support/message_of.hpp"

namespace bora {
namespace {

using bora::testing::message_of;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

Backend& device() { return backend(DeviceType::cuda); }

/// A stream of its own while it lives.
struct OwnStream {
  Stream stream = device().make_stream(cuda(0), false);
  OwnStream() = default;
  OwnStream(const OwnStream&) = delete;
  OwnStream& operator=(const OwnStream&) = delete;
  ~OwnStream() { device().destroy_stream(stream); }
};

Tensor values(const std::vector<float>& v) {
  return Tensor::from<float>({static_cast<int64_t>(v.size())}, v, cuda(0));
}

TEST(EmulatedGraph, ReplayEqualsEager) {
  Tensor x = values({1, 2, 3}), y = values({0, 0, 0});
  const auto step = [&](Stream s) {
    kernels::scale(s, 2.0, x, y);
    device().accumulate(s, x.raw(), DType::f32, y.raw(), DType::f32, 3);
  };
  const OwnStream own;
  device().begin_capture(own.stream);
  step(own.stream);
  const Graph graph = device().end_capture(own.stream);
  EXPECT_THAT(x.to_vector<float>(), ElementsAre(1, 2, 3)) << "captured work must not run";
  for (int i = 0; i < 2; ++i) device().launch(own.stream, graph);
  const std::vector<float> replayed = x.to_vector<float>();
  x = values({1, 2, 3});
  Tensor again = x;
  for (int i = 0; i < 2; ++i) step(x.stream());
  EXPECT_EQ(x.to_vector<float>(), replayed);
  EXPECT_THAT(replayed, ElementsAre(9, 18, 27));
}

TEST(EmulatedGraph, StreamsThatWaitForItsEventsJoinTheCapture) {
  Tensor x = values({1, 2, 3}), y = values({0, 0, 0});
  const OwnStream main, side;
  device().begin_capture(main.stream);
  kernels::scale(main.stream, 2.0, x, y);
  side.stream.wait(main.stream.record());
  kernels::scale(side.stream, 10.0, y, x);
  main.stream.wait(side.stream.record());
  const Graph graph = device().end_capture(main.stream);
  device().launch(main.stream, graph);
  EXPECT_THAT(x.to_vector<float>(), ElementsAre(20, 40, 60));
  // Both are free again.
  kernels::scale(side.stream, 1.0, y, x);
  EXPECT_THAT(x.to_vector<float>(), ElementsAre(2, 4, 6));
}

TEST(EmulatedGraph, WorkThatDoesNotJoinAgainIsRefused) {
  Tensor x = values({1, 2, 3}), y = values({0, 0, 0});
  const OwnStream main, side;
  device().begin_capture(main.stream);
  kernels::scale(main.stream, 2.0, x, y);
  side.stream.wait(main.stream.record());
  const Event early = side.stream.record();
  kernels::scale(side.stream, 10.0, y, x);
  main.stream.wait(early);
  EXPECT_THAT(message_of([&] { device().end_capture(main.stream); }),
              HasSubstr("does not wait for work of a stream that joined"));
  kernels::scale(side.stream, 1.0, x, y);  // runs: the capture has ended
  EXPECT_THAT(y.to_vector<float>(), ElementsAre(1, 2, 3));
}

TEST(EmulatedGraph, WhatADeviceForbidsInACaptureBreaksIt) {
  const OwnStream own;
  Tensor x = values({1, 2, 3});
  const Event before = own.stream.record();
  struct Case {
    const char* reason;
    std::function<void()> call;
  };
  const Case cases[] = {
      {"the host waits for a captured stream", [&] { own.stream.synchronize(); }},
      {"the host waits for an event of a capture", [&] { own.stream.record().synchronize(); }},
      {"an event of a capture was queried", [&] { own.stream.record().done(); }},
      {"pageable host memory",
       [&] {
         float host[3];
         device().copy(own.stream, host, cpu(), x.raw(), cuda(0), 12);
       }},
      {"memory was asked from the device", [&] { device().allocate(4096, cuda(0)); }},
      {"outside the capture", [&] { own.stream.wait(before); }},
  };
  for (const Case& c : cases) {
    device().begin_capture(own.stream);
    kernels::scale(own.stream, 2.0, x, x);
    EXPECT_THAT(message_of(c.call), HasSubstr(c.reason));
    EXPECT_THAT(message_of([&] { device().end_capture(own.stream); }),
                ::testing::AllOf(HasSubstr("no graph"), HasSubstr(c.reason)));
  }
  EXPECT_THAT(x.to_vector<float>(), ElementsAre(1, 2, 3));
}

TEST(EmulatedGraph, PinnedCopiesAreCapturedAndReadWhenReplayed) {
  auto* host = static_cast<float*>(device().allocate_pinned(8));
  Tensor x = values({0, 0});
  const OwnStream own;
  device().begin_capture(own.stream);
  device().copy(own.stream, x.raw(), cuda(0), host, cpu(), 8);
  const Graph graph = device().end_capture(own.stream);
  for (const float v : {3.0f, 4.0f}) {
    host[0] = v;
    host[1] = v + 10;
    device().launch(own.stream, graph);
    EXPECT_THAT(x.to_vector<float>(), ElementsAre(v, v + 10));
  }
  device().free_pinned(host, 8);
}

TEST(EmulatedCounters, CountWhatWasIssued) {
  Tensor x = values({1, 2, 3}), y = values({0, 0, 0});
  simt::reset_counters();
  kernels::scale(x.stream(), 2.0, x, y);
  y.fill(0.0);
  x.stream().record().synchronize();
  y.to_vector<float>();
  const simt::Counters c = simt::counters();
  EXPECT_EQ(1, c.launches);
  EXPECT_EQ(1, c.element_calls);
  EXPECT_EQ(1, c.event_records);
  EXPECT_EQ(2, c.synchronizations);  // one by to_vector
  EXPECT_EQ(1, c.device_to_host);
  EXPECT_EQ(1, c.pageable_copies);
  EXPECT_EQ(0, c.host_to_device + c.device_to_device + c.captured + c.graph_launches);
  EXPECT_THAT(c.recent, ElementsAre("map", "fill", "synchronize", "copy d2h", "synchronize"));
}

// ---- strict memory ----------------------------------------------------------------------------

TEST(StrictMemoryDeathTest, AHostAccessEndsTheProgramWithItsReason) {
  ::testing::GTEST_FLAG(death_test_style) = "threadsafe";
  Tensor x = values({1, 2, 3});
  EXPECT_EQ(1.0f, *x.data<float>());  // not strict: host memory like any other
  EXPECT_DEATH(
      {
        simt::set_strict(true);
        Tensor z = values({1, 2, 3});
        volatile float v = *z.data<float>();
        static_cast<void>(v);
      },
      "the host read or wrote memory of the emulated device outside a launch");
}

TEST(StrictMemory, LaunchesCopiesAndReplaysReachIt) {
  simt::set_strict(true);
  Tensor x = values({1, 2, 3}), y = Tensor::empty({3}, DType::f32, cuda(0));
  kernels::scale(x.stream(), 2.0, x, y);
  const OwnStream own;
  device().begin_capture(own.stream);
  kernels::scale(own.stream, 2.0, y, x);
  const Graph graph = device().end_capture(own.stream);
  device().launch(own.stream, graph);
  EXPECT_THAT(x.to_vector<float>(), ElementsAre(4, 8, 12));
  EXPECT_TRUE(simt::is_device_memory(x.raw()));
  simt::set_strict(false);
}

}  // namespace
}  // namespace bora
