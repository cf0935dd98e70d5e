// SPDX-License-Identifier: Apache-2.0
// GradientReducer over the NCCL communicator: unchanged, with gradients on a "device".
#include "comm/gradient_reducer.hpp"

#include "core/op.hpp"
#include "tests/comm/nccl_fixture.hpp"

namespace bora {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::message_of;
using testing::NcclTest;

/// Sends what is on the host over the host group, what is on a device over NCCL: the reducer
/// compares its layout by a small host tensor.
class ByDevice final : public Collective {
 public:
  ByDevice(Collective& host, Collective& device) : host_(host), device_(device) {}
  int rank() const override { return host_.rank(); }
  int size() const override { return host_.size(); }
  DeviceType device_type() const override { return device_.device_type(); }
  Work all_reduce_async(Tensor x, ReduceOp op, std::string_view label) override {
    if (x.device() != cpu()) labels.emplace_back(label);
    return of(x).all_reduce_async(x, op, label);
  }
  void broadcast(Tensor& x, int root, std::string_view label) override {
    of(x).broadcast(x, root, label);
  }
  void all_gather(const Tensor& x, Tensor& out, std::string_view label) override {
    of(x).all_gather(x, out, label);
  }
  void gather(const Tensor& x, Tensor& out, int root, std::string_view label) override {
    of(x).gather(x, out, root, label);
  }
  void reduce(Tensor& x, int root, ReduceOp op, std::string_view label) override {
    of(x).reduce(x, root, op, label);
  }
  void reduce_scatter(const Tensor& x, Tensor& out, ReduceOp op, std::string_view label) override {
    of(x).reduce_scatter(x, out, op, label);
  }
  void barrier(std::string_view label) override { device_.barrier(label); }
  std::unique_ptr<Collective> split(int, int) override { BORA_FAIL("not split here"); }

  std::vector<std::string> labels;

 private:
  Collective& of(const Tensor& x) { return x.device() == cpu() ? host_ : device_; }
  Collective& host_;
  Collective& device_;
};

/// y = total; the gradient for w is c.
struct Step {
  static constexpr OpInfo info{"step", Precision::full};
  Tensor c;
  Tensor forward(OpContext&, const Tensor& total, const Tensor&) { return total.clone(); }
  std::array<Tensor, 2> backward(OpContext&, const Tensor& dy) { return {dy, c.clone()}; }
};

const std::vector<int64_t> kCounts = {1, 200, 64, 1000, 3, 5000, 65, 128};

class NcclReducer : public NcclTest {
 protected:
  NcclReducer() : nccl_(make()), both_(*host_, *nccl_) {
    const Device device = cuda(nccl_->device());
    FlatLayout layout;
    for (size_t i = 0; i < kCounts.size(); ++i) layout.add(detail::join("w", i), {kCounts[i]});
    gradients_ = FlatBuffer(layout, DType::f32, device);
    for (size_t i = 0; i < kCounts.size(); ++i) {
      weights_.push_back(make_leaf(Tensor::zeros({kCounts[i]}, DType::f32, device),
                                   layout.range(static_cast<int>(i)).name));
      leaves_.push_back(&leaf_of(weights_.back()));
      leaves_.back()->set_gradient_buffer(gradients_.part(static_cast<int>(i)));
    }
  }
  // Small integers: every order of summation gives the same.
  static float coefficient(int rank, size_t i, int window) {
    return static_cast<float>((rank + 1) * (static_cast<int>(i) + 2) + window);
  }
  void run_backward(int window) {
    Tensor total = Tensor::zeros({}, DType::f32, gradients_.all().device());
    for (size_t k = kCounts.size(); k-- > 0;) {
      Step step;
      step.c = Tensor::full({kCounts[k]}, coefficient(rank(), k, window), DType::f32,
                            gradients_.all().device());
      total = apply(step, total, weights_[k]);
    }
    backward(total);
  }

  std::unique_ptr<NcclCommunicator> nccl_;
  ByDevice both_;
  FlatBuffer gradients_;
  std::vector<Tensor> weights_;
  std::vector<Leaf*> leaves_;
};

// Row 21: sum / world equals the mean of the local gradients; buckets strictly in their order.
TEST_F(NcclReducer, GivesTheMeanInBucketOrder) {
  ReducerOptions options;
  options.buckets = {2048, 512, 1024};
  GradientReducer reducer(gradients_, leaves_, both_, options);
  for (int window = 0; window < 3; ++window) {
    for (Leaf* leaf : leaves_) leaf->clear_gradient();
    both_.labels.clear();
    run_backward(window);
    reducer.finish();
    for (size_t i = 0; i < kCounts.size(); ++i) {
      double mean = 0;
      for (int r = 0; r < size(); ++r) mean += coefficient(r, i, window);
      mean /= size();
      // 1/size is rounded where it is no power of two, and the products are; see nccl_test.cpp.
      for (float v : gradients_.part(static_cast<int>(i)).to_vector<float>())
        ASSERT_NEAR(mean, v, (size() + 1) * 0x1p-23 * mean);
    }
    ASSERT_EQ(reducer.buckets().size(), both_.labels.size());
    for (size_t b = 0; b < both_.labels.size(); ++b)
      EXPECT_EQ(detail::join("gradients, bucket ", b), both_.labels[b]);
    EXPECT_TRUE(reducer.launches()[0].in_backward);
  }
  EXPECT_EQ(3, reducer.counters().windows);
}

// Row 46: the gradients of a model on the host.
TEST_F(NcclReducer, AModelOnTheHostIsRefused) {
  FlatLayout layout;
  layout.add("w", {5});
  FlatBuffer on_host(layout, DType::f32, cpu());
  const Tensor weight = make_leaf(Tensor::zeros({5}, DType::f32), "w");
  Leaf& leaf = leaf_of(weight);
  leaf.set_gradient_buffer(on_host.part(0));
  EXPECT_THAT(message_of([&] { GradientReducer(on_host, {&leaf}, *nccl_); }),
              AllOf(HasSubstr("the tensor is on cpu"), HasSubstr("works on cuda tensors")));
}

}  // namespace
}  // namespace bora
