// SPDX-License-Identifier: Apache-2.0
// A device for tests whose work happens late: host memory, streams that are queues, events that are
// done when their queue has come to them.  Nothing runs until a test says so or the host waits, so
// a missing wait, a value read too early or memory reused too soon shows each time.
#pragma once

#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/allocator.hpp"
#include "core/backend.hpp"

namespace bora::test {

class DeferredBackend final : public Backend {
 public:
  /// The backend for DeviceType::cuda while it lives.
  explicit DeferredBackend(bool graphs = true) : graphs_(graphs), host_(backend(DeviceType::cpu)) {
    set_backend(DeviceType::cuda, this);
  }
  ~DeferredBackend() override {
    run_all();
    caching_allocator(cuda(0)).release_cached();
    set_backend(DeviceType::cuda, nullptr);
  }

  struct Counters {
    int allocations = 0, pinned_allocations = 0;
    int synchronizes = 0;     ///< the host waited
    int blocking_copies = 0;  ///< from or to pageable memory
    int copies = 0, records = 0, waits = 0, tasks = 0, launches = 0;
  } n;
  int64_t limit = INT64_MAX;  ///< bytes; beyond it allocate throws
  int64_t pinned_limit = INT64_MAX;
  std::vector<std::string> calls;  ///< stream, copy and graph calls, in order

  /// Does all that is queued on a stream, and on others as far as it waits for them.
  void run(Stream stream) {
    Queue& q = queue(stream);
    while (!q.tasks.empty()) {
      const auto task = q.tasks.front();
      q.tasks.pop_front();
      task();
    }
  }
  void run_all() {
    for (auto& [key, q] : queues_) run({cuda(0), const_cast<void*>(key)});
  }
  /// Queues host code as if it were a kernel.
  void enqueue(Stream stream, std::function<void()> task) {
    ++n.tasks;
    Queue& q = queue(stream);
    if (q.capture) {
      q.capture->tasks.push_back(std::move(task));
    } else {
      q.tasks.push_back(std::move(task));
    }
  }

  void* allocate(int64_t bytes, Device) override {
    refuse("memory is taken");
    BORA_CHECK(allocated_ + bytes <= limit, "deferred: out of memory: ", bytes, " were asked for");
    allocated_ += bytes;
    ++n.allocations;
    return host_.allocate(bytes, cpu());
  }
  void free(void* data, int64_t bytes, Device) noexcept override {
    run_all();  // as cudaFree: it waits for all work
    allocated_ -= bytes;
    host_.free(data, bytes, cpu());
  }
  void* allocate_pinned(int64_t bytes) override {
    refuse("pinned memory is taken");
    BORA_CHECK(bytes <= pinned_limit, "deferred: no pinned memory: ", bytes, " were asked for");
    ++n.pinned_allocations;
    void* data = host_.allocate(bytes, cpu());
    pinned_[static_cast<char*>(data)] = bytes;
    return data;
  }
  void free_pinned(void* data, int64_t bytes) noexcept override {
    pinned_.erase(static_cast<char*>(data));
    host_.free(data, bytes, cpu());
  }
  void copy(Stream s, void* dst, Device to, const void* src, Device from, int64_t bytes) override {
    calls.push_back(detail::join("copy ", from, "->", to, " ", bytes, " on ", name(s)));
    const auto size = static_cast<size_t>(bytes);
    const void* host = to == cpu() ? dst : from == cpu() ? src : nullptr;
    if (host == nullptr || is_pinned(host)) {
      ++n.copies;
      return enqueue(s, [=] { std::memmove(dst, src, size); });
    }
    refuse("a copy from or to pageable memory");
    ++n.blocking_copies;
    if (to == cpu()) {
      run(s);
      std::memmove(dst, src, size);
    } else {
      auto bytes_now = std::make_shared<std::vector<char>>(size);
      std::memcpy(bytes_now->data(), src, size);
      enqueue(s, [=] { std::memcpy(dst, bytes_now->data(), size); });
    }
  }
  void fill(Stream s, void* dst, DType type, double value, int64_t count) override {
    enqueue(s, [=, this] { host_.fill({}, dst, type, value, count); });
  }
  void cast(Stream s, void* dst, DType to, const void* src, DType from, int64_t count) override {
    enqueue(s, [=, this] { host_.cast({}, dst, to, src, from, count); });
  }
  void accumulate(Stream s, void* dst, DType to, const void* src, DType from,
                  int64_t count) override {
    enqueue(s, [=, this] { host_.accumulate({}, dst, to, src, from, count); });
  }

  Stream default_stream(Device device) override { return {device, &default_}; }
  Stream make_stream(Device device, bool) override {
    made_.push_back(std::make_unique<int>(0));
    return {device, made_.back().get()};
  }
  void destroy_stream(Stream s) noexcept override { run(s); }
  Event record(Stream s) override {
    calls.push_back("record " + name(s));
    ++n.records;
    auto mark = std::make_shared<Mark>();
    mark->stream = s;
    mark->capture = queue(s).capture;
    if (!mark->capture) enqueue(s, [mark] { mark->reached = true; });
    return Event(s.device, mark);
  }
  void wait(Stream s, const Event& event) override {
    calls.push_back("wait " + name(s));
    ++n.waits;
    if (event.native() == nullptr) return;
    const auto* mark = static_cast<const Mark*>(event.native());
    if (mark->capture) {
      queue(s).capture = mark->capture;  // one order for all streams of a capture
      return;
    }
    if (queue(s).capture) refuse("a captured stream waits for work issued before the capture");
    const Event held = event;  // keeps the mark
    enqueue(s, [this, held] {
      const auto* m = static_cast<const Mark*>(held.native());
      while (!m->reached) step(m->stream);
    });
  }
  bool done(const Event& event) override {
    if (event.native() == nullptr) return true;
    const auto* m = static_cast<const Mark*>(event.native());
    return m->capture ? !m->capture->open : m->reached;
  }
  void synchronize(Stream s) override {
    calls.push_back("synchronize " + name(s));
    refuse("the host waits for a stream");
    ++n.synchronizes;
    run(s);
  }
  void synchronize(const Event& event) override {
    calls.emplace_back("synchronize event");
    refuse("the host waits for an event");
    ++n.synchronizes;
    const auto* m = static_cast<const Mark*>(event.native());
    while (m != nullptr && !m->reached) step(m->stream);
  }

  bool has_graphs() const override { return graphs_; }
  void begin_capture(Stream s) override {
    BORA_CHECK(!capture_, "deferred: captures already");
    calls.push_back("begin_capture " + name(s));
    capture_ = std::make_shared<Capture>();
    queue(s).capture = capture_;
  }
  Graph end_capture(Stream s) override {
    calls.push_back("end_capture " + name(s));
    const auto ended = std::exchange(capture_, nullptr);
    ended->open = false;
    for (auto& [key, q] : queues_) q.capture = nullptr;
    BORA_CHECK(ended->broken.empty(), "deferred: cannot be captured: ", ended->broken);
    return Graph(s.device, ended);
  }
  void launch(Stream s, const Graph& graph) override {
    calls.push_back("launch " + name(s));
    ++n.launches;
    const Graph held = graph;
    enqueue(s, [held] {
      for (const auto& task : static_cast<Capture*>(held.native())->tasks) task();
    });
  }

 private:
  struct Capture {
    std::vector<std::function<void()>> tasks;
    std::string broken;
    bool open = true;
  };
  struct Mark {
    Stream stream;
    bool reached = false;
    std::shared_ptr<Capture> capture;
  };
  struct Queue {
    std::deque<std::function<void()>> tasks;
    std::shared_ptr<Capture> capture;
  };
  Queue& queue(Stream s) { return queues_[s.native]; }
  void step(Stream s) {
    Queue& q = queue(s);
    BORA_CHECK(!q.tasks.empty(), "deferred: waits for an event that nothing reaches");
    const auto task = q.tasks.front();
    q.tasks.pop_front();
    task();
  }
  void refuse(const char* what) {
    if (!capture_) return;
    if (capture_->broken.empty()) capture_->broken = what;
    BORA_FAIL("deferred: cannot be captured: ", what);
  }
  bool is_pinned(const void* p) const {
    const auto after = pinned_.upper_bound(static_cast<char*>(const_cast<void*>(p)));
    return after != pinned_.begin() &&
           static_cast<const char*>(p) < std::prev(after)->first + std::prev(after)->second;
  }
  std::string name(Stream s) const {
    if (s.native == &default_) return "compute";
    for (size_t i = 0; i < made_.size(); ++i)
      if (made_[i].get() == s.native) return "stream " + std::to_string(i);
    return "?";
  }

  bool graphs_;
  Backend& host_;
  int default_ = 0;
  int64_t allocated_ = 0;
  std::vector<std::unique_ptr<int>> made_;
  std::map<char*, int64_t> pinned_;
  std::map<const void*, Queue> queues_;
  std::shared_ptr<Capture> capture_;
};

}  // namespace bora::test
