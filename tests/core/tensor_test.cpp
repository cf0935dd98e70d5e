// SPDX-License-Identifier: Apache-2.0
#include "core/tensor.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "core/allocator.hpp"
#include "core/tape.hpp"
#include "tests/core/fake_backend.hpp"

namespace bora {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::ThrowsMessage;

Tensor iota(const Shape& shape) {
  std::vector<float> values(static_cast<size_t>(shape.numel()));
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
  return Tensor::from(shape, values);
}

TEST(Storage, TakesFromTheAllocatorAndGivesBack) {
  const int64_t before = caching_allocator(cpu()).stats().live;
  {
    const Storage s(1000, cpu());
    EXPECT_NE(s.data(), nullptr);
    EXPECT_EQ(s.bytes(), 1000);
    EXPECT_EQ(caching_allocator(cpu()).stats().live - before, 1024);
  }
  EXPECT_EQ(caching_allocator(cpu()).stats().live, before);
}

TEST(Storage, EmptyTakesNothing) {
  const int64_t before = caching_allocator(cpu()).stats().n_allocations;
  const Storage s(0, cpu());
  EXPECT_EQ(s.data(), nullptr);
  EXPECT_EQ(caching_allocator(cpu()).stats().n_allocations, before);
  EXPECT_THROW(Storage(-1, cpu()), Error);
  EXPECT_THROW(Storage(nullptr, 8, cpu(), {}), Error);
}

TEST(Tensor, DefaultIsUndefined) {
  const Tensor t;
  EXPECT_FALSE(t.defined());
  EXPECT_EQ(t.numel(), 0);
  EXPECT_EQ(t.bytes(), 0);
  EXPECT_FALSE(t.requires_grad());
  EXPECT_THROW(t.raw(), Error);
  EXPECT_THAT([&] { t.data<float>(); }, ThrowsMessage<Error>(HasSubstr("undefined tensor")));
  EXPECT_THROW(t.item(), Error);
  EXPECT_THROW(t.view(0, {}), Error);
  EXPECT_THROW(Tensor().copy_from(t), Error);
}

TEST(Tensor, MakersFillAndCount) {
  EXPECT_THAT(Tensor::zeros({3}, DType::f32).to_vector<float>(), ElementsAre(0, 0, 0));
  EXPECT_THAT(Tensor::full({2}, 7, DType::i64).to_vector<int64_t>(), ElementsAre(7, 7));
  EXPECT_EQ(Tensor::scalar<double>(2.5).item(), 2.5);
  EXPECT_EQ(Tensor::scalar<double>(2.5).rank(), 0);
  EXPECT_EQ(Tensor::full({1, 1}, 1.5, DType::bf16).item(), 1.5);
  const Tensor t = Tensor::empty({2, 3, 4}, DType::f16);
  EXPECT_EQ(t.numel(), 24);
  EXPECT_EQ(t.bytes(), 48);
  EXPECT_EQ(t.size(-1), 4);
}

TEST(Tensor, FromChecksTheCount) {
  EXPECT_THAT(
      [] {
        Tensor::from<float>({2, 2}, std::vector<float>{1, 2, 3});
      },
      ThrowsMessage<Error>(HasSubstr("3 values for shape (2, 2), which wants 4")));
}

TEST(Tensor, EmptyTensorsWork) {
  Tensor t = Tensor::zeros({0, 5}, DType::f32);
  EXPECT_TRUE(t.defined());
  EXPECT_EQ(t.numel(), 0);
  EXPECT_EQ(t.data<float>(), nullptr);
  EXPECT_THAT(t.to_vector<float>(), IsEmpty());
  EXPECT_THAT(t.clone().shape(), (Shape{0, 5}));
  EXPECT_EQ(t.to(DType::f64).dtype(), DType::f64);
  t.fill(1);
  t.copy_from(Tensor::zeros({0, 5}, DType::i32));
  EXPECT_EQ(t.reshape({5, 0, 2}).shape(), (Shape{5, 0, 2}));
  // A view of no elements has no data either, wherever it lies.
  EXPECT_EQ(iota({4}).rows(4, 4).data<float>(), nullptr);
  EXPECT_THROW(t.item(), Error);
}

TEST(Tensor, WrongTypeIsNamed) {
  Tensor t = iota({2, 3});
  EXPECT_THAT([&] { t.data<Half>(); },
              ThrowsMessage<Error>(HasSubstr("(2, 3) holds f32, f16 was asked for")));
  EXPECT_THAT([&] { t.to_vector<int64_t>(); }, ThrowsMessage<Error>(HasSubstr("i64 was asked")));
}

TEST(Tensor, CopiesShareTheBytes) {
  Tensor a = iota({4});
  EXPECT_TRUE(a.exclusive());
  Tensor b = a;
  EXPECT_FALSE(a.exclusive());
  b.data<float>()[0] = 9;
  EXPECT_EQ(a.data<float>()[0], 9);
  Tensor c = a.clone();
  c.data<float>()[1] = 8;
  EXPECT_EQ(a.data<float>()[1], 1);
  EXPECT_TRUE(c.exclusive());
}

TEST(Tensor, ViewsShareTheBytes) {
  Tensor a = iota({4, 3});
  Tensor rows = a.rows(1, 3);
  EXPECT_EQ(rows.shape(), (Shape{2, 3}));
  EXPECT_THAT(rows.to_vector<float>(), ElementsAre(3, 4, 5, 6, 7, 8));
  EXPECT_EQ(rows.storage_offset(), 12);
  Tensor part = rows.view(2, {2, 2});
  EXPECT_THAT(part.to_vector<float>(), ElementsAre(5, 6, 7, 8));
  part.fill(0);
  EXPECT_THAT(a.to_vector<float>(), ElementsAre(0, 1, 2, 3, 4, 0, 0, 0, 0, 9, 10, 11));
  EXPECT_EQ(a.reshape({2, 6}).raw(), a.raw());
  EXPECT_EQ(rows.clone().storage_offset(), 0);
}

TEST(Tensor, ViewsOutsideAreRefused) {
  const Tensor a = iota({4, 3});
  EXPECT_THAT(
      [&] { a.view(10, {3}); },
      ThrowsMessage<Error>(HasSubstr("elements [10, 13) of shape (4, 3) with 12 elements")));
  EXPECT_THROW(a.view(-1, {1}), Error);
  EXPECT_THAT([&] { a.rows(2, 5); }, ThrowsMessage<Error>(HasSubstr("[2, 5) of shape (4, 3)")));
  EXPECT_THROW(a.rows(3, 2), Error);
  EXPECT_THROW(a.rows(-1, 2), Error);
  EXPECT_THROW(Tensor::scalar(1.0f).rows(0, 0), Error);
  EXPECT_THAT(
      [&] {
        a.reshape({5, 3});
      },
      ThrowsMessage<Error>(HasSubstr("(4, 3) has 12 elements, (5, 3) wants 15")));
  // A view of a view is bounded by the view.
  EXPECT_THROW(a.rows(0, 1).view(0, {4}), Error);
}

TEST(Tensor, RecordedTensorsGiveNoUnrecordedViews) {
  const Tensor w = make_leaf(iota({4}), "w");
  EXPECT_THAT(
      [&] {
        w.reshape({2, 2});
      },
      ThrowsMessage<Error>(AllOf(HasSubstr("recorded on the tape"), HasSubstr("detach()"))));
  EXPECT_THROW(w.rows(0, 1), Error);
  EXPECT_EQ(w.detach().reshape({2, 2}).raw(), w.raw());
  EXPECT_FALSE(w.detach().requires_grad());
}

TEST(Tensor, WrapReleasesOnceWhenTheLastUserGoes) {
  float memory[4] = {1, 2, 3, 4};
  int released = 0;
  {
    Tensor view;
    {
      const Tensor t = Tensor::wrap(memory, {2, 2}, DType::f32, cpu(), [&] { ++released; });
      EXPECT_EQ(t.raw(), memory);
      view = t.rows(1, 2);
    }
    EXPECT_EQ(released, 0);
    EXPECT_THAT(view.to_vector<float>(), ElementsAre(3, 4));
  }
  EXPECT_EQ(released, 1);
  EXPECT_THROW(Tensor::wrap(nullptr, {1}, DType::f32), Error);
}

TEST(Tensor, CopyFromConvertsAndChecksShapes) {
  Tensor a = Tensor::zeros({3}, DType::f32);
  a.copy_from(Tensor::from<int64_t>({3}, std::vector<int64_t>{1, -2, 3}));
  EXPECT_THAT(a.to_vector<float>(), ElementsAre(1, -2, 3));
  Tensor h = Tensor::zeros({3}, DType::f16);
  h.copy_from(a);
  EXPECT_EQ(h.to(DType::f64).to_vector<double>(), (std::vector<double>{1, -2, 3}));
  EXPECT_THAT([&] { a.copy_from(iota({4})); },
              ThrowsMessage<Error>(HasSubstr("source is (4), destination is (3)")));
}

TEST(Tensor, SameTypeAndDeviceShareInsteadOfCopying) {
  const Tensor a = iota({3});
  EXPECT_EQ(a.to(DType::f32).raw(), a.raw());
  EXPECT_EQ(a.to(cpu()).raw(), a.raw());
  EXPECT_NE(a.to(DType::f64).raw(), a.raw());
}

TEST(Tensor, LastUserOnAnotherThreadFrees) {
  const int64_t before = caching_allocator(cpu()).stats().live;
  std::thread([t = iota({1000})] { EXPECT_EQ(t.numel(), 1000); }).join();
  EXPECT_EQ(caching_allocator(cpu()).stats().live, before);
}

// On a device whose work is asynchronous the host must wait before it reads, and before the
// caller's memory goes.
TEST(Tensor, CopiesToAndFromADeviceWaitWhereTheHostReads) {
  FakeBackend fake(DeviceType::cuda);
  {
    const Tensor a = iota({4}).to(cuda(0));
    EXPECT_EQ(a.device(), cuda(0));
    EXPECT_THAT(fake.calls, ElementsAre("copy cpu->cuda:0 16"));
    fake.calls.clear();
    EXPECT_THAT(a.to_vector<float>(), ElementsAre(0, 1, 2, 3));
    EXPECT_THAT(fake.calls, ElementsAre("copy cuda:0->cpu 16", "synchronize default"));
    fake.calls.clear();
    const Tensor back = a.to(cpu());
    EXPECT_THAT(fake.calls, ElementsAre("copy cuda:0->cpu 16", "synchronize default"));
    EXPECT_THAT(back.to_vector<float>(), ElementsAre(0, 1, 2, 3));
    fake.calls.clear();
    const Tensor b = Tensor::from({2}, std::vector<float>{5, 6}, cuda(0));
    EXPECT_THAT(fake.calls, ElementsAre("copy cpu->cuda:0 8", "synchronize default"));
    EXPECT_EQ(a.view(3, {}).item(), 3.0);
    // Another type on another device: converted at the source.
    Tensor half = Tensor::zeros({4}, DType::f16);
    half.copy_from(a);
    EXPECT_EQ(half.to(DType::f32).to_vector<float>(), (std::vector<float>{0, 1, 2, 3}));
  }
  caching_allocator(cuda(0)).release_cached();
  EXPECT_TRUE(fake.live.empty());
}

}  // namespace
}  // namespace bora
