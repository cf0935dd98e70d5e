// SPDX-License-Identifier: Apache-2.0
// A Collective that hands everything on to another and writes down what it was asked for.
#pragma once

#include <map>
#include <mutex>
#include <string>

#include "core/collective.hpp"

namespace bora::testing {

class CountingCollective final : public Collective {
 public:
  explicit CountingCollective(Collective& ranks) : ranks_(ranks) {}

  /// Operations by label, since the start or clear().
  std::map<std::string, int> counts() const {
    const std::lock_guard lock(mutex_);
    return counts_;
  }
  int total() const {
    int n = 0;
    for (const auto& [label, count] : counts()) n += count;
    return n;
  }
  void clear() {
    const std::lock_guard lock(mutex_);
    counts_.clear();
  }

  int rank() const override { return ranks_.rank(); }
  int size() const override { return ranks_.size(); }
  DeviceType device_type() const override { return ranks_.device_type(); }
  bool sums_in_tree_order() const override { return ranks_.sums_in_tree_order(); }
  Work all_reduce_async(Tensor x, ReduceOp op, std::string_view label) override {
    count(label);
    return ranks_.all_reduce_async(std::move(x), op, label);
  }
  void all_reduce(Tensor& x, ReduceOp op, std::string_view label) override {
    count(label);
    ranks_.all_reduce(x, op, label);
  }
  void broadcast(Tensor& x, int root, std::string_view label) override {
    count(label);
    ranks_.broadcast(x, root, label);
  }
  void all_gather(const Tensor& x, Tensor& out, std::string_view label) override {
    count(label);
    ranks_.all_gather(x, out, label);
  }
  void gather(const Tensor& x, Tensor& out, int root, std::string_view label) override {
    count(label);
    ranks_.gather(x, out, root, label);
  }
  void reduce(Tensor& x, int root, ReduceOp op, std::string_view label) override {
    count(label);
    ranks_.reduce(x, root, op, label);
  }
  void reduce_scatter(const Tensor& x, Tensor& out, ReduceOp op, std::string_view label) override {
    count(label);
    ranks_.reduce_scatter(x, out, op, label);
  }
  void barrier(std::string_view label) override {
    count("barrier " + std::string(label));
    ranks_.barrier(label);
  }
  std::unique_ptr<Collective> split(int color, int key) override {
    count("split");
    return ranks_.split(color, key);
  }

 private:
  void count(std::string_view label) {
    const std::lock_guard lock(mutex_);
    ++counts_[std::string(label)];
  }

  Collective& ranks_;
  mutable std::mutex mutex_;
  std::map<std::string, int> counts_;
};

}  // namespace bora::testing
