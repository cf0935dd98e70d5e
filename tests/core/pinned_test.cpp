// SPDX-License-Identifier: Apache-2.0
// Pinned blocks and values on their way to the host.
#include "core/pinned.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <set>
#include <vector>

#include "core/readback.hpp"
#include "tests/support/deferred_backend.hpp"

namespace bora {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

class PinnedTest : public testing::Test {
 protected:
  test::DeferredBackend device_;
  PinnedPool pool_{cuda(0), 1 << 16};
};

TEST_F(PinnedTest, FewSlabsServeManyBlocks) {
  std::vector<Tensor> blocks;
  std::set<const void*> places;
  for (int i = 0; i < 200; ++i) {
    blocks.push_back(pool_.tensor({i % 60 + 1}, DType::f32));
    EXPECT_EQ(reinterpret_cast<uintptr_t>(blocks.back().raw()) % 256, 0u);
    EXPECT_EQ(blocks.back().device(), cpu());
    EXPECT_TRUE(places.insert(blocks.back().raw()).second) << "handed out twice";
    blocks.back().fill(i);
  }
  for (int i = 0; i < 200; ++i)
    EXPECT_EQ(blocks[static_cast<size_t>(i)].data<float>()[0], static_cast<float>(i));
  EXPECT_EQ(device_.n.pinned_allocations, 1);
  EXPECT_EQ(pool_.stats().live, 200 * 256);
  blocks.clear();
  EXPECT_EQ(pool_.stats().live, 0);
  // The same sizes again, and one larger than a slab.
  for (int i = 0; i < 200; ++i) blocks.push_back(pool_.tensor({7}, DType::f32));
  EXPECT_EQ(device_.n.pinned_allocations, 1);
  EXPECT_EQ(pool_.tensor({1 << 20}, DType::u8).numel(), 1 << 20);
  EXPECT_EQ(pool_.stats().slabs, 2);
  EXPECT_EQ(pool_.tensor({0, 4}, DType::f32).numel(), 0);
}

TEST_F(PinnedTest, AGuardedBlockRestsUntilItsEventIsDone) {
  const Stream stream = current_stream(cuda(0));
  const void* place = nullptr;
  {
    const Tensor block = pool_.tensor({64}, DType::f32);
    place = block.raw();
    device_.enqueue(stream, [] {});
    pool_.guard(block, stream.record());
  }
  EXPECT_EQ(pool_.stats().guarded, 256);
  EXPECT_NE(pool_.tensor({64}, DType::f32).raw(), place);
  device_.run_all();
  EXPECT_EQ(pool_.stats().guarded, 0);
  const Tensor again = pool_.tensor({64}, DType::f32), other = pool_.tensor({64}, DType::f32);
  EXPECT_TRUE(again.raw() == place || other.raw() == place);
  EXPECT_THAT([&] { pool_.guard(Tensor::zeros({3}, DType::f32), {}); },
              ThrowsMessage<Error>(HasSubstr("does not lie in a block of this pool")));
}

TEST_F(PinnedTest, RefusesWhereNoneIsLeft) {
  device_.pinned_limit = 1000;
  EXPECT_THAT([&] { pool_.tensor({4}, DType::f32); },
              ThrowsMessage<Error>(HasSubstr("no pinned memory")));
}

TEST(PinnedOnTheCpu, IsOrdinaryMemory) {
  PinnedPool pool(cpu(), 4096);
  Tensor t = pool.tensor({100}, DType::f64);
  t.fill(2.5);
  EXPECT_EQ(t.to_vector<double>(), std::vector<double>(100, 2.5));
}

// No host wait, values in order, each as it was when it was pushed.
TEST_F(PinnedTest, ReadbackGivesWhatWasPushedInOrder) {
  DeviceReadback readback(cuda(0), pool_);
  Tensor loss = Tensor::empty({}, DType::f32, cuda(0));
  for (int i = 1; i <= 3; ++i) {
    loss.fill(i);
    EXPECT_EQ(readback.push(loss), i);
  }
  loss.fill(99);
  EXPECT_EQ(readback.pending(), 3);
  EXPECT_FALSE(readback.pop()) << "nothing has run yet";
  EXPECT_EQ(device_.n.synchronizes + device_.n.blocking_copies, 0);
  device_.run_all();
  for (int i = 1; i <= 3; ++i) {
    const auto item = readback.pop();
    ASSERT_TRUE(item);
    EXPECT_EQ(item->ticket, i);
    EXPECT_EQ(item->values.item(), i);
  }
  EXPECT_FALSE(readback.pop());
  EXPECT_EQ(device_.n.synchronizes + device_.n.blocking_copies, 0);
  EXPECT_THROW(readback.wait(), Error);
  EXPECT_THROW(readback.push(Tensor::zeros({1}, DType::f32)), Error);
}

TEST_F(PinnedTest, ReadbackWaitsWhenAskedTo) {
  DeviceReadback readback(cuda(0), pool_);
  Tensor norms = Tensor::empty({3}, DType::f64, cuda(0));
  norms.fill(4);
  readback.push(norms);
  norms.fill(5);
  readback.push(norms);
  EXPECT_EQ(readback.wait().values.to_vector<double>(), std::vector<double>(3, 4));
  EXPECT_EQ(device_.n.synchronizes, 1);
  EXPECT_EQ(readback.wait().values.to_vector<double>(), std::vector<double>(3, 5));
}

// A reader that goes away leaves its copies under way their memory.
TEST_F(PinnedTest, ReadbackMayGoWhileCopiesAreUnderWay) {
  Tensor loss = Tensor::empty({}, DType::f32, cuda(0));
  loss.fill(3);
  { DeviceReadback(cuda(0), pool_).push(loss); }
  EXPECT_EQ(pool_.stats().guarded, 256);
  device_.run_all();
  EXPECT_EQ(pool_.stats().guarded, 0);
}

TEST(ReadbackOnTheCpu, IsThereAtOnce) {
  DeviceReadback readback(cpu());
  readback.push(Tensor::scalar<float>(1.5f));
  EXPECT_EQ(readback.pop()->values.item(), 1.5);
}

}  // namespace
}  // namespace bora
