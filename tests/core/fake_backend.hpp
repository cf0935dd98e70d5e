// SPDX-License-Identifier: Apache-2.0
// A backend for tests: host memory, counted, made to fail on demand, and streams that write down
// their calls.
#pragma once

#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "core/backend.hpp"

namespace bora {

class FakeBackend final : public Backend {
 public:
  /// Puts itself in place of the backend for `type` while it lives.
  explicit FakeBackend(DeviceType type) : type_(type), host_(backend(DeviceType::cpu)) {
    set_backend(type_, this);
  }
  ~FakeBackend() override { set_backend(type_, nullptr); }

  std::map<void*, int64_t> live;  ///< what is allocated now
  int n_allocations = 0;
  int n_frees = 0;
  int64_t limit = INT64_MAX;       ///< bytes; beyond it allocate throws
  std::vector<std::string> calls;  ///< stream and copy calls, in order

  void* allocate(int64_t bytes, Device device) override {
    const std::lock_guard lock(mutex_);
    int64_t total = bytes;
    for (const auto& [data, n] : live) total += n;
    BORA_CHECK(total <= limit, "fake: out of memory: ", bytes, " bytes were asked for");
    ++n_allocations;
    void* data = host_.allocate(bytes, device);
    live[data] = bytes;
    return data;
  }
  void free(void* data, int64_t bytes, Device device) noexcept override {
    const std::lock_guard lock(mutex_);
    ++n_frees;
    const auto it = live.find(data);
    if (it == live.end() || it->second != bytes) {
      calls.emplace_back("bad free");
      return;
    }
    live.erase(it);
    host_.free(data, bytes, device);
  }
  void copy(Stream s, void* dst, Device dst_device, const void* src, Device src_device,
            int64_t bytes) override {
    log("copy ", src_device, "->", dst_device, " ", bytes);
    host_.copy(s, dst, dst_device, src, src_device, bytes);
  }
  void fill(Stream s, void* dst, DType type, double value, int64_t n) override {
    host_.fill(s, dst, type, value, n);
  }
  void cast(Stream s, void* dst, DType dst_type, const void* src, DType src_type,
            int64_t n) override {
    log("cast ", src_type, "->", dst_type);
    host_.cast(s, dst, dst_type, src, src_type, n);
  }
  void accumulate(Stream s, void* dst, DType dst_type, const void* src, DType src_type,
                  int64_t n) override {
    host_.accumulate(s, dst, dst_type, src, src_type, n);
  }
  Stream default_stream(Device device) override { return {device, &default_}; }
  Event record(Stream s) override {
    log("record ", name(s));
    return Event(s.device, std::make_shared<int>(0));
  }
  void wait(Stream s, const Event&) override { log("wait ", name(s)); }
  bool done(const Event&) override { return false; }
  void synchronize(Stream s) override { log("synchronize ", name(s)); }
  void synchronize(const Event&) override { log("synchronize event"); }

  std::string name(Stream s) const {
    return s.native == &default_ ? "default" : s.native == nullptr ? "null" : "other";
  }

 private:
  template <class... Parts>
  void log(const Parts&... parts) {
    const std::lock_guard lock(mutex_);
    calls.push_back(detail::join(parts...));
  }

  DeviceType type_;
  Backend& host_;
  int default_ = 0;
  std::mutex mutex_;
};

}  // namespace bora
