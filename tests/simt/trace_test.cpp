// SPDX-License-Identifier: Apache-2.0
// The trace of the emulated device: which work a device may run at once, which not.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/backend.hpp"
#include "core/tensor.hpp"
#include "kernels/pointwise.hpp"
#include "kernels/simt/emulator.hpp"
#include "kernels/simt/trace.hpp"
#include "tests/support/message_of.hpp"

namespace bora::simt {
namespace {

using bora::testing::message_of;
using ::testing::HasSubstr;

Backend& device() { return backend(DeviceType::cuda); }

/// Two streams, and work on them: a kernel each call.
class EmulatedTrace : public ::testing::Test {
 protected:
  Stream a = device().make_stream(cuda(0), false), b = device().make_stream(cuda(0), false);
  Tensor x = Tensor::full({3}, 1, DType::f32, cuda(0)), y = x.clone(), z = x.clone();
  bool is_tracing = true;

  void SetUp() override { begin_trace(); }
  void TearDown() override {
    if (is_tracing) end_trace();
    device().destroy_stream(a);
    device().destroy_stream(b);
  }
  void work(Stream s) { kernels::scale(s, 2.0, x, s.native == a.native ? y : z); }
  std::vector<TracedWork> end() {
    is_tracing = false;
    return end_trace();
  }
};

TEST_F(EmulatedTrace, AStreamOrdersItsWork) {
  work(a);
  work(a);
  const std::vector<TracedWork> t = end();
  ASSERT_EQ(t.size(), 2u);
  EXPECT_EQ(t[0].name, "map");
  EXPECT_EQ(t[0].stream, t[1].stream);
  EXPECT_TRUE(comes_before(t[0], t[1]));
  EXPECT_FALSE(comes_before(t[1], t[0]));
  EXPECT_FALSE(may_overlap(t[0], t[1]));
  EXPECT_FALSE(comes_before(t[0], t[0]));
}

TEST_F(EmulatedTrace, StreamsOverlapUntilOneWaits) {
  work(a);  // 0
  const Event after_first = a.record();
  work(a);  // 1
  work(b);  // 2
  b.wait(after_first);
  work(b);  // 3
  a.wait(b.record());
  work(a);  // 4
  const std::vector<TracedWork> t = end();
  ASSERT_EQ(t.size(), 5u);
  EXPECT_NE(t[0].stream, t[2].stream);
  EXPECT_TRUE(may_overlap(t[0], t[2]));
  EXPECT_TRUE(comes_before(t[0], t[3]));
  EXPECT_TRUE(may_overlap(t[1], t[3])) << "recorded before it";
  for (size_t i = 0; i < 4; ++i) EXPECT_TRUE(comes_before(t[i], t[4])) << i;
}

// What one stream waited for another one that waits for it has waited for, too.
TEST_F(EmulatedTrace, WaitsAreHandedOn) {
  work(a);
  b.wait(a.record());
  const Stream own = device().default_stream(cuda(0));
  own.wait(b.record());
  work(own);
  const std::vector<TracedWork> t = end();
  ASSERT_EQ(t.size(), 2u);
  EXPECT_TRUE(comes_before(t[0], t[1]));
  EXPECT_EQ(t[1].stream, 0);
}

TEST_F(EmulatedTrace, AWaitOfTheHostOrders) {
  work(a);  // 0
  const Event early = a.record();
  work(a);  // 1
  early.synchronize();
  work(b);  // 2
  a.synchronize();
  work(b);  // 3
  const std::vector<TracedWork> t = end();
  ASSERT_EQ(t.size(), 4u);
  EXPECT_TRUE(comes_before(t[0], t[2]));
  EXPECT_TRUE(may_overlap(t[1], t[2]));
  EXPECT_TRUE(comes_before(t[1], t[3]));
}

TEST_F(EmulatedTrace, APageableCopyHoldsTheHostUpAPinnedOneDoesNot) {
  auto* const pinned = static_cast<float*>(device().allocate_pinned(12));
  float pageable[3];
  work(a);                                                  // 0
  device().copy(a, pinned, cpu(), y.raw(), cuda(0), 12);    // 1
  work(b);                                                  // 2
  device().copy(a, pageable, cpu(), y.raw(), cuda(0), 12);  // 3
  work(b);                                                  // 4
  const std::vector<TracedWork> t = end();
  device().free_pinned(pinned, 12);
  ASSERT_EQ(t.size(), 5u);
  EXPECT_EQ(t[1].name, "copy d2h");
  EXPECT_EQ(t[1].from, y.raw());
  EXPECT_EQ(t[1].to, pinned);
  EXPECT_EQ(t[1].bytes, 12);
  EXPECT_FALSE(t[1].pageable);
  EXPECT_TRUE(t[3].pageable);
  EXPECT_TRUE(may_overlap(t[1], t[2]));
  EXPECT_TRUE(comes_before(t[3], t[4]));
}

// A graph is one piece of work where it is launched; its capture is none.
TEST_F(EmulatedTrace, AGraphIsItsLaunch) {
  device().begin_capture(a);
  work(a);
  const Graph graph = device().end_capture(a);
  work(b);
  device().launch(a, graph);
  device().launch(a, graph);
  const std::vector<TracedWork> t = end();
  ASSERT_EQ(t.size(), 3u);
  EXPECT_EQ(t[1].name, "graph");
  EXPECT_TRUE(may_overlap(t[0], t[1]));
  EXPECT_TRUE(comes_before(t[1], t[2]));
}

// An event of an earlier trace says nothing in this one, whose numbers begin anew.
TEST_F(EmulatedTrace, ATraceStandsAlone) {
  work(a);
  work(a);
  const Event old = a.record();
  EXPECT_THAT(message_of([] { begin_trace(); }), HasSubstr("traced already"));
  ASSERT_EQ(end().size(), 2u);
  EXPECT_THAT(message_of([] { end_trace(); }), HasSubstr("has not begun"));
  work(a);  // untraced
  begin_trace();
  is_tracing = true;
  work(a);
  b.wait(old);
  work(b);
  const std::vector<TracedWork> t = end();
  ASSERT_EQ(t.size(), 2u);
  EXPECT_EQ(t[0].number, 1);
  EXPECT_TRUE(may_overlap(t[0], t[1]));
}

}  // namespace
}  // namespace bora::simt
