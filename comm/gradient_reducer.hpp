// SPDX-License-Identifier: Apache-2.0
// GradientReducer: averages gradients over the ranks while backward is still going on.
#pragma once

#include "comm/bucket_plan.hpp"
#include "comm/gradient_exchange.hpp"
#include "comm/half_staging.hpp"

#include <chrono>
#include <optional>
#include <vector>

namespace bora {

struct ReducerOptions {
  BucketSizes buckets{};
  /// mean, or sum where the loss is weighted by the caller (divide it by the global weight).
  ReduceOp op = ReduceOp::mean;
  /// A parameter that got no gradient counts as zero instead of being an error.
  bool unused_as_zero = false;
  /// What gradients travel in: their own type (f32 or f64), or f16 or bf16 for f32 gradients on the
  /// host (comm/half_staging.hpp says what that costs).
  std::optional<DType> travel{};
  /// Memory for a copy in another type; empty: ordinary memory.
  MemorySource staging_memory{};
};

/// Reduces a buffer of gradients bucket by bucket, always in the order 0, 1, 2, ... on every rank,
/// whatever the order in which gradients become ready: a bucket is started as soon as its
/// gradients, and those of all buckets before it, are complete.  No copies, unless they travel in
/// another type: a bucket is a part of the buffer.
///
/// A window in its own words: for each micro-batch set_enabled(it is the last one), backward(...);
/// then finish().  While disabled, gradients only add up locally and nothing is sent.
class GradientReducer final : public GradientExchange {
 public:
  /// leaves[i] writes to range i of `gradients` (its gradient buffer is that part), ranges in the
  /// order in which backward completes them.  Collective: compares the layout over all ranks and
  /// throws on all of them, naming the first difference.  Takes the leaves' ready hooks.
  GradientReducer(FlatBuffer& gradients, std::vector<Leaf*> leaves, Collective& collective,
                  const ReducerOptions& options = {});
  /// Gives the hooks back.  Does not wait.
  ~GradientReducer() override;
  GradientReducer(const GradientReducer&) = delete;
  GradientReducer& operator=(const GradientReducer&) = delete;

  void set_enabled(bool enabled);
  bool enabled() const { return enabled_; }
  void begin_micro_step(bool last) override { set_enabled(last); }
  void end_micro_step() override {}

  /// Ends the window: starts what has not been started, waits for all of it.  Throws Error naming
  /// the parameters that got no gradient in this window (unless unused_as_zero), or what went wrong
  /// in a reduction; after an error the reducer can only be destroyed.
  void finish() override;
  void abandon() override;

  const std::vector<Bucket>& buckets() const { return buckets_; }

  using Clock = std::chrono::steady_clock;
  /// Start times of the buckets of the latest window, in order; started inside backward or by
  /// finish().
  struct Launch {
    Clock::time_point at;
    bool in_backward = false;
  };
  const std::vector<Launch>& launches() const { return launches_; }
  /// Whether bucket i of the window under way is reduced already (false before its start).
  bool reduced(int i) const;

 private:
  void on_ready(int leaf);
  void mark_ready(int leaf);
  void launch_complete(bool in_backward);
  void wait_for_all();

  FlatBuffer& gradients_;
  std::vector<Leaf*> leaves_;
  Collective& collective_;
  ReducerOptions options_;
  std::vector<Bucket> buckets_;
  std::vector<int> bucket_of_;  // by leaf
  std::optional<HalfStaging> half_;
  bool enabled_ = true;

  // The window under way.
  std::vector<char> ready_;   // by leaf
  std::vector<int> missing_;  // by bucket: leaves not ready
  std::vector<Work> works_;   // by bucket, as far as started
  std::vector<Launch> launches_;
};

}  // namespace bora
