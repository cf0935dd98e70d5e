// SPDX-License-Identifier: Apache-2.0
#include "comm/gradient_reducer.hpp"

#include "comm/fnv.hpp"

#include <algorithm>
#include <sstream>

namespace bora {

GradientReducer::GradientReducer(FlatBuffer& gradients, std::vector<Leaf*> leaves,
                                 Collective& collective, const ReducerOptions& options)
    : gradients_(gradients),
      leaves_(std::move(leaves)),
      collective_(collective),
      options_(options) {
  const auto& ranges = gradients_.layout().ranges();
  BORA_CHECK(options_.op == ReduceOp::mean || options_.op == ReduceOp::sum,
             "GradientReducer: wants mean or sum, got ", name_of(options_.op));
  BORA_CHECK(leaves_.size() == ranges.size(), "GradientReducer: ", leaves_.size(),
             " leaves for a buffer of ", ranges.size(), " ranges");
  BORA_CHECK(ranges.empty() || is_float(gradients_.all().dtype()),
             "GradientReducer: gradients of type ", gradients_.all().dtype());
  for (size_t i = 0; i < leaves_.size(); ++i) {
    const Tensor part = gradients_.part(static_cast<int>(i));
    BORA_CHECK(leaves_[i] != nullptr && leaves_[i]->gradient().defined() &&
                   leaves_[i]->gradient().shape() == part.shape() &&
                   leaves_[i]->gradient().dtype() == part.dtype() &&
                   leaves_[i]->gradient().raw() == part.raw(),
               "GradientReducer: the gradient of leaf ", i, " does not lie in range ", i, " ('",
               ranges[i].name, "') of the buffer");
  }
  check_same_layout();
  buckets_ = plan_buckets(gradients_.layout(), gradients_.all().dtype(), options_.buckets);
  bucket_of_.resize(leaves_.size());
  for (size_t b = 0; b < buckets_.size(); ++b) {
    missing_.push_back(buckets_[b].last_range - buckets_[b].first_range);
    for (int i = buckets_[b].first_range; i < buckets_[b].last_range; ++i)
      bucket_of_[static_cast<size_t>(i)] = static_cast<int>(b);
  }
  ready_.assign(leaves_.size(), 0);
  for (size_t i = 0; i < leaves_.size(); ++i)
    leaves_[i]->set_ready_hook([this, i](Leaf&) { on_ready(static_cast<int>(i)); });
}

GradientReducer::~GradientReducer() {
  for (Leaf* leaf : leaves_) leaf->set_ready_hook({});
}

void GradientReducer::set_enabled(bool enabled) {
  BORA_CHECK(works_.empty() && std::find(ready_.begin(), ready_.end(), 1) == ready_.end(),
             "GradientReducer::set_enabled: a reduced backward pass has run in this window; call "
             "finish() first");
  enabled_ = enabled;
}

bool GradientReducer::reduced(int i) const {
  const auto b = static_cast<size_t>(i);
  return b < works_.size() && works_[b].done();
}

void GradientReducer::on_ready(int leaf) {
  if (!enabled_) return;
  // Passed by without a gradient (nothing flowed): finish() decides what that means.
  if (!leaves_[static_cast<size_t>(leaf)]->has_gradient()) return;
  mark_ready(leaf);
  launch_complete(/*in_backward=*/true);
}

void GradientReducer::mark_ready(int leaf) {
  const auto i = static_cast<size_t>(leaf);
  BORA_CHECK(!ready_[i], "GradientReducer: the gradient of '", gradients_.layout().range(leaf).name,
             "' became ready twice in one window: two backward passes without finish() between "
             "them (for accumulation call set_enabled(false) on all but the last)");
  ready_[i] = 1;
  --missing_[static_cast<size_t>(bucket_of_[i])];
}

void GradientReducer::launch_complete(bool in_backward) {
  while (works_.size() < buckets_.size() && missing_[works_.size()] == 0) {
    const Bucket& bucket = buckets_[works_.size()];
    const Tensor part = gradients_.slice(bucket.begin, bucket.end);
    if (works_.empty()) launches_.clear();
    launches_.push_back({Clock::now(), in_backward});
    works_.push_back(collective_.all_reduce_async(
        part, options_.op, detail::join("gradients, bucket ", works_.size())));
    ++counters_.reductions;
    counters_.bytes += part.bytes();
  }
}

void GradientReducer::finish() {
  const auto start = Clock::now();
  BORA_CHECK(enabled_,
             "GradientReducer::finish: disabled; the last backward pass of a window must run "
             "enabled");
  std::string unused;
  for (size_t i = 0; i < leaves_.size(); ++i) {
    if (ready_[i]) continue;
    // Filled by an earlier micro-batch of the window only: complete, just never announced.
    const int leaf = static_cast<int>(i);
    if (!leaves_[i]->has_gradient()) {
      if (!options_.unused_as_zero) {
        unused +=
            detail::join(unused.empty() ? "'" : ", '", gradients_.layout().range(leaf).name, "'");
        continue;
      }
      zero(leaf);
    }
    mark_ready(leaf);
  }
  BORA_CHECK(unused.empty(), "GradientReducer: no gradient for ", unused,
             ": the loss does not depend on them, or no backward pass has run; remove them from "
             "the model or let unused parameters count as zero (unused_as_zero)");
  launch_complete(/*in_backward=*/false);
  for (const Work& work : works_) work.wait();
  works_.clear();
  std::fill(ready_.begin(), ready_.end(), 0);
  for (size_t b = 0; b < buckets_.size(); ++b)
    missing_[b] = buckets_[b].last_range - buckets_[b].first_range;
  ++counters_.windows;
  counters_.wait_s += std::chrono::duration<double>(Clock::now() - start).count();
}

// What an earlier window left there must not be taken for a gradient.
void GradientReducer::zero(int leaf) {
  Tensor part = gradients_.part(leaf);
  part.fill(0.0);
}

void GradientReducer::check_same_layout() const {
  std::string mine = detail::join(
      gradients_.all().defined() ? gradients_.all().dtype() : DType::f32, " buckets of ",
      options_.buckets.first, "/", options_.buckets.target, "/", options_.buckets.last, " bytes\n");
  for (const Range& r : gradients_.layout().ranges())
    mine += detail::join("'", r.name, "' ", r.shape, "\n");
  // The usual case costs one small exchange; the texts travel only to find the difference.
  const auto hash = static_cast<int64_t>(fnv1a(mine));
  Tensor most = Tensor::from<int64_t>({2}, std::vector<int64_t>{hash, ~hash});
  collective_.all_reduce(most, ReduceOp::max, "layout of the gradients");
  if (most.data<int64_t>()[0] == hash && most.data<int64_t>()[1] == ~hash) {
    // Equal to the largest and to the smallest: equal everywhere.
    return;
  }
  const auto all = collective_.all_gather_text(mine, "layout of the gradients");
  for (size_t r = 1; r < all.size(); ++r) {
    if (all[r] == all[0]) continue;
    std::istringstream a(all[0]), b(all[r]);
    std::string line_a, line_b;
    do {
      if (!std::getline(a, line_a)) line_a = "nothing";
      if (!std::getline(b, line_b)) line_b = "nothing";
    } while (line_a == line_b);
    BORA_FAIL("GradientReducer: the gradients differ between ranks: rank 0 has ", line_a, ", rank ",
              r, " has ", line_b);
  }
}

}  // namespace bora
