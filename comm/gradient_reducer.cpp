// SPDX-License-Identifier: Apache-2.0
#include "comm/gradient_reducer.hpp"

#include <algorithm>
#include <string>

namespace bora {

GradientReducer::GradientReducer(FlatBuffer& gradients, std::vector<Leaf*> leaves,
                                 Collective& collective, const ReducerOptions& options)
    : gradients_(gradients),
      leaves_(std::move(leaves)),
      collective_(collective),
      options_(options) {
  BORA_CHECK(options_.op == ReduceOp::mean || options_.op == ReduceOp::sum,
             "GradientReducer: wants mean or sum, got ", name_of(options_.op));
  check_gradient_ranges("GradientReducer", gradients_, leaves_, collective_);
  const DType own = gradients_.all().defined() ? gradients_.all().dtype() : DType::f32;
  const DType travel = options_.travel.value_or(own);
  BORA_CHECK(travel == own || (own == DType::f32 && gradients_.all().device() == cpu() &&
                               (travel == DType::f16 || travel == DType::bf16)),
             "GradientReducer: ", own, " gradients on ", gradients_.all().device(),
             " cannot travel as ", travel, "; f32 gradients on the host can as f16 or bf16");
  check_same_layout(
      "GradientReducer", gradients_.layout(),
      detail::join(own, " travelling as ", travel, " in buckets of ", options_.buckets.first, "/",
                   options_.buckets.target, "/", options_.buckets.last, " bytes"),
      collective_);
  // One rank sends nothing, so that nothing need be rounded.
  if (travel != own && collective_.size() > 1)
    half_.emplace(gradients_.layout(), travel, collective_.size(), options_.staging_memory);
  buckets_ = plan_buckets(gradients_.layout(), travel, options_.buckets);
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
    Tensor part = gradients_.slice(bucket.begin, bucket.end);
    if (half_) part = half_->pack(part, bucket.begin, bucket.end);
    if (works_.empty()) launches_.clear();
    launches_.push_back({Clock::now(), in_backward});
    works_.push_back(
        collective_.all_reduce_async(part, half_ ? ReduceOp::sum : options_.op,
                                     detail::join("gradients, bucket ", works_.size())));
    ++counters_.reductions;
    counters_.bytes += part.bytes();
  }
}

void GradientReducer::finish() {
  const auto start = Clock::now();
  BORA_CHECK(enabled_,
             "GradientReducer::finish: disabled; the last backward pass of a window must run "
             "enabled");
  std::vector<std::string> unused;
  for (size_t i = 0; i < leaves_.size(); ++i) {
    if (ready_[i]) continue;
    // Filled by an earlier micro-batch of the window only: complete, just never announced.
    const int leaf = static_cast<int>(i);
    if (!leaves_[i]->has_gradient()) {
      if (!options_.unused_as_zero) {
        unused.push_back(gradients_.layout().range(leaf).name);
        continue;
      }
      gradients_.part(leaf).fill(0.0);  // what an earlier window left there is no gradient
    }
    mark_ready(leaf);
  }
  refuse_unused("GradientReducer", unused);
  launch_complete(/*in_backward=*/false);
  wait_for_all();
  ++counters_.windows;
  counters_.wait_s += std::chrono::duration<double>(Clock::now() - start).count();
}

void GradientReducer::wait_for_all() {
  for (size_t b = 0; b < works_.size(); ++b) {
    works_[b].wait();
    if (!half_) continue;
    Tensor part = gradients_.slice(buckets_[b].begin, buckets_[b].end);
    half_->unpack(part, buckets_[b].begin, buckets_[b].end, options_.op);
  }
  abandon();
}

void GradientReducer::abandon() {
  works_.clear();
  std::fill(ready_.begin(), ready_.end(), 0);
  for (size_t b = 0; b < buckets_.size(); ++b)
    missing_[b] = buckets_[b].last_range - buckets_[b].first_range;
}

}  // namespace bora
