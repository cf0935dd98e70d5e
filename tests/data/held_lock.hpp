// SPDX-License-Identifier: Apache-2.0
// Files that do not answer, without a file system that hangs: a thread that keeps the lock of HDF5.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <future>
#include <iterator>
#include <thread>

#include "data/hdf5.hpp"

namespace bora::data::test {

/// Whoever wants to read an HDF5 file waits, while this lives.
class HeldLock {
 public:
  HeldLock() {
    std::promise<void> taken;
    std::future<void> is_taken = taken.get_future();
    holder_ = std::thread([this, taken = std::move(taken)]() mutable {
      const hdf5::Lock lock;
      taken.set_value();
      end_.get_future().wait();
    });
    is_taken.wait();
    // Without the holder, but with a sanitizer's thread, which starts with the first other one.
    n_threads_ = threads() - 1;
  }
  /// Lets those who wait go on, and returns at once.
  void release() {
    end_.set_value();
    holder_.join();
  }
  /// Without release(), returns when the threads that waited have ended: nothing of HDF5 runs when
  /// the test ends.
  ~HeldLock() {
    if (!holder_.joinable()) return;
    release();
    const auto begin = std::chrono::steady_clock::now();
    while (threads() > n_threads_) {
      if (std::chrono::steady_clock::now() - begin > std::chrono::minutes(1)) {
        ADD_FAILURE() << threads() - n_threads_ << " threads that waited for the lock go on";
        return;
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }
  HeldLock(const HeldLock&) = delete;
  HeldLock& operator=(const HeldLock&) = delete;

 private:
  static std::ptrdiff_t threads() {
    return std::distance(std::filesystem::directory_iterator("/proc/self/task"), {});
  }
  std::ptrdiff_t n_threads_ = 0;
  std::promise<void> end_;
  std::thread holder_;
};

}  // namespace bora::data::test
