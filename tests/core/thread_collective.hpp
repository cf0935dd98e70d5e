// SPDX-License-Identifier: Apache-2.0
// A Collective among threads of this process, for tests of what core builds on the interface.
#pragma once

#include <barrier>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "core/collective.hpp"

namespace bora {

class ThreadCollective final : public Collective {
 public:
  struct Group {
    explicit Group(int n) : barrier(n), input(static_cast<size_t>(n)) {}
    std::barrier<> barrier;
    std::vector<Tensor> input;
  };
  ThreadCollective(std::shared_ptr<Group> group, int rank)
      : group_(std::move(group)), rank_(rank) {}

  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(group_->input.size()); }
  DeviceType device_type() const override { return DeviceType::cpu; }

  Work all_reduce_async(Tensor x, ReduceOp op, std::string_view) override {
    x.copy_from(reduced(x, op));
    return {};
  }
  void broadcast(Tensor& x, int root, std::string_view) override {
    exchange(x,
             [&](const std::vector<Tensor>& all) { x.copy_from(all[static_cast<size_t>(root)]); });
  }
  void all_gather(const Tensor& x, Tensor& out, std::string_view) override {
    exchange(x, [&](const std::vector<Tensor>& all) { rows(all, out); });
  }
  void gather(const Tensor& x, Tensor& out, int root, std::string_view) override {
    exchange(x, [&](const std::vector<Tensor>& all) {
      if (rank_ == root) rows(all, out);
    });
  }
  void reduce(Tensor& x, int root, ReduceOp op, std::string_view) override {
    const Tensor y = reduced(x, op);
    if (rank_ == root) x.copy_from(y);
  }
  void reduce_scatter(const Tensor& x, Tensor& out, ReduceOp op, std::string_view) override {
    out.copy_from(reduced(x, op).rows(rank_, rank_ + 1).reshape(out.shape()));
  }
  void barrier(std::string_view) override { group_->barrier.arrive_and_wait(); }
  std::unique_ptr<Collective> split(int, int) override { BORA_FAIL("ThreadCollective: no split"); }

 private:
  // Each rank's tensor is copied, so that a rank may write its own while others still read.
  void exchange(const Tensor& x, const std::function<void(const std::vector<Tensor>&)>& use) {
    group_->input[static_cast<size_t>(rank_)] = x.clone();
    group_->barrier.arrive_and_wait();
    use(group_->input);
    group_->barrier.arrive_and_wait();
  }
  static void rows(const std::vector<Tensor>& all, Tensor& out) {
    for (size_t r = 0; r < all.size(); ++r) {
      const auto row = static_cast<int64_t>(r);
      out.rows(row, row + 1).reshape(all[r].shape()).copy_from(all[r]);
    }
  }
  Tensor reduced(const Tensor& x, ReduceOp op) {
    Tensor y = x.clone();
    exchange(x, [&](const std::vector<Tensor>& all) {
      dispatch_any(x.dtype(), [&]<class T>() {
        if constexpr (std::is_arithmetic_v<T>) {
          for (int64_t i = 0; i < x.numel(); ++i) {
            T sum = all[0].data<T>()[i];
            for (size_t r = 1; r < all.size(); ++r) {
              const T v = all[r].data<T>()[i];
              sum = op == ReduceOp::max   ? std::max(sum, v)
                    : op == ReduceOp::min ? std::min(sum, v)
                                          : static_cast<T>(sum + v);
            }
            if (op == ReduceOp::mean) sum = static_cast<T>(sum / static_cast<T>(all.size()));
            y.data<T>()[i] = sum;
          }
        }
      });
    });
    return y;
  }

  std::shared_ptr<Group> group_;
  int rank_;
};

/// Runs `body` on n ranks, each a thread.
inline void on_ranks(int n, const std::function<void(Collective&)>& body) {
  const auto group = std::make_shared<ThreadCollective::Group>(n);
  std::vector<std::thread> threads;
  for (int r = 0; r < n; ++r)
    threads.emplace_back([&, r] {
      ThreadCollective c(group, r);
      body(c);
    });
  for (auto& t : threads) t.join();
}

}  // namespace bora
