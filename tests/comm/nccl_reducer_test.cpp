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

/// The texts of all-reductions, in the order of issue.
class Labels final : public NcclObserver {
 public:
  void issued(const NcclNote& note) override {
    if (note.operation == "all_reduce" && note.sequence > 0) labels.push_back(note.label);
  }
  void finished(const NcclNote&) override {}
  void failed(const std::string&) override {}
  std::vector<std::string> labels;
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
  NcclReducer() {
    options_.observer = labels_;
    nccl_ = make();
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

  std::shared_ptr<Labels> labels_ = std::make_shared<Labels>();
  std::unique_ptr<NcclCommunicator> nccl_;
  FlatBuffer gradients_;
  std::vector<Tensor> weights_;
  std::vector<Leaf*> leaves_;
};

// Row 21: sum / world equals the mean of the local gradients; buckets strictly in their order.
TEST_F(NcclReducer, GivesTheMeanInBucketOrder) {
  ReducerOptions options;
  options.buckets = {2048, 512, 1024};
  GradientReducer reducer(gradients_, leaves_, *nccl_, options);
  for (int window = 0; window < 3; ++window) {
    for (Leaf* leaf : leaves_) leaf->clear_gradient();
    labels_->labels.clear();
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
    ASSERT_EQ(reducer.buckets().size(), labels_->labels.size());
    for (size_t b = 0; b < labels_->labels.size(); ++b)
      EXPECT_EQ(detail::join("gradients, bucket ", b), labels_->labels[b]);
    EXPECT_TRUE(reducer.launches()[0].in_backward);
  }
  EXPECT_EQ(3, reducer.counters().windows);
}

// What is on the host by nature travels over the host group.
TEST_F(NcclReducer, ScalarsTextsAndAgreementsGoOverTheHostGroup) {
  Collective& ranks = *nccl_;
  EXPECT_EQ(size(), ranks.all_reduce(int64_t{1}, ReduceOp::sum, "count"));
  EXPECT_EQ("rank 0", ranks.broadcast_text("rank " + std::to_string(rank()), 0, "text"));
  EXPECT_EQ(static_cast<size_t>(size()), ranks.all_gather_text("x", "texts").size());
  EXPECT_THROW(ranks.agree("working", [&] { throw UsageError("not today"); }), UsageError);
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
              AllOf(HasSubstr("the gradients are on cpu"), HasSubstr("works on cuda:")));
}

}  // namespace
}  // namespace bora
