// SPDX-License-Identifier: Apache-2.0
#include "core/stream.hpp"

#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

#include "tests/core/fake_backend.hpp"

namespace bora {
namespace {

TEST(Stream, CpuCallsAreCountedByKind) {
  const StreamCounters before = cpu_stream_counters();
  const Stream s = current_stream(cpu());
  const Event e = s.record();
  s.wait(e);
  s.wait(e);
  s.synchronize();
  e.synchronize();
  EXPECT_TRUE(e.done());
  const StreamCounters after = cpu_stream_counters();
  EXPECT_EQ(after.records - before.records, 1);
  EXPECT_EQ(after.waits - before.waits, 2);
  EXPECT_EQ(after.synchronizes - before.synchronizes, 2);
}

TEST(Stream, DefaultEventIsDone) { EXPECT_TRUE(Event().done()); }

TEST(Stream, CallsReachTheBackendOfTheDevice) {
  FakeBackend fake(DeviceType::cuda);
  const Stream s = current_stream(cuda(0));
  const Event e = s.record();
  s.wait(e);
  s.synchronize();
  e.synchronize();
  EXPECT_EQ(fake.calls, (std::vector<std::string>{"record default", "wait default",
                                                  "synchronize default", "synchronize event"}));
  EXPECT_FALSE(e.done());
  EXPECT_EQ(e.device(), cuda(0));
}

TEST(StreamScope, NestsAndRestores) {
  FakeBackend fake(DeviceType::cuda);
  int a = 0, b = 0;
  void* const base = current_stream(cuda(0)).native;
  {
    const StreamScope outer({cuda(0), &a});
    EXPECT_EQ(current_stream(cuda(0)).native, &a);
    {
      const StreamScope inner({cuda(0), &b});
      EXPECT_EQ(current_stream(cuda(0)).native, &b);
    }
    EXPECT_EQ(current_stream(cuda(0)).native, &a);
    EXPECT_EQ(current_stream(cpu()).device, cpu());
  }
  EXPECT_EQ(current_stream(cuda(0)).native, base);
}

TEST(StreamScope, DevicesDoNotDisturbEachOther) {
  FakeBackend fake(DeviceType::cuda);
  int a = 0, b = 0;
  const StreamScope first({cuda(0), &a});
  {
    const StreamScope second({cuda(1), &b});
    EXPECT_EQ(current_stream(cuda(0)).native, &a);
    EXPECT_EQ(current_stream(cuda(1)).native, &b);
  }
  EXPECT_EQ(current_stream(cuda(0)).native, &a);
  EXPECT_EQ(fake.name(current_stream(cuda(1))), "default");
}

TEST(StreamScope, LeavesNothingBehindWhenTheBackendGoes) {
  int a = 0;
  {
    FakeBackend fake(DeviceType::cuda);
    const StreamScope scope({cuda(0), &a});
  }
  FakeBackend other(DeviceType::cuda);
  EXPECT_EQ(other.name(current_stream(cuda(0))), "default");
}

TEST(StreamScope, IsPerThread) {
  FakeBackend fake(DeviceType::cuda);
  int a = 0;
  const StreamScope scope({cuda(0), &a});
  std::string seen;
  std::thread([&] { seen = fake.name(current_stream(cuda(0))); }).join();
  EXPECT_EQ(seen, "default");
}

}  // namespace
}  // namespace bora
