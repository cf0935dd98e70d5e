// SPDX-License-Identifier: Apache-2.0
// The backend of DeviceType::cuda on host memory.  Work runs when it is issued, so that events are
// always done; capture, counters and what a device refuses are as on a device.
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <mutex>
#include <set>

#include "core/backend.hpp"
#include "core/error.hpp"
#include "kernels/simt/capture.hpp"
#include "kernels/simt/memory.hpp"
#include "kernels/simt/scheduler.hpp"
#include "kernels/simt/trace.hpp"

namespace bora::simt {
namespace {

using detail::DeviceAccess;
using detail::EmulatedEvent;
using detail::EmulatedStream;
using detail::GraphWork;

class EmulatedBackend final : public Backend {
 public:
  void* allocate(int64_t bytes, Device device) override {
    check_device(device);
    detail::forbid_in_capture("memory was asked from the device");
    count(&Counters::allocations);
    return detail::device_allocate(bytes);
  }
  void free(void* data, int64_t bytes, Device) noexcept override {
    detail::device_free(data, bytes);
  }

  void copy(Stream stream, void* dst, Device dst_device, const void* src, Device src_device,
            int64_t bytes) override {
    const bool to_device = dst_device.type == DeviceType::cuda,
               from_device = src_device.type == DeviceType::cuda;
    const bool pageable = (!to_device && !is_pinned(dst)) || (!from_device && !is_pinned(src));
    EmulatedStream& s = resolve(stream);
    if (pageable && s.capture)
      detail::break_capture(*s.capture, "a copy from or to pageable host memory in a capture");
    if (pageable) count(&Counters::pageable_copies);
    TracedWork traced;
    traced.from = src;
    traced.to = dst;
    traced.bytes = bytes;
    traced.pageable = pageable;
    count(to_device && from_device ? &Counters::device_to_device
          : to_device              ? &Counters::host_to_device
                                   : &Counters::device_to_host);
    issue(
        s,
        to_device && from_device ? "copy d2d"
        : to_device              ? "copy h2d"
                                 : "copy d2h",
        [=] { std::memmove(dst, src, static_cast<size_t>(bytes)); }, traced);
  }

  void fill(Stream stream, void* dst, DType type, double value, int64_t n) override {
    count(&Counters::element_calls);
    issue(resolve(stream), "fill", [=, this] { host_.fill({}, dst, type, value, n); });
  }
  void cast(Stream stream, void* dst, DType dst_type, const void* src, DType src_type,
            int64_t n) override {
    count(&Counters::element_calls);
    issue(resolve(stream), "cast", [=, this] { host_.cast({}, dst, dst_type, src, src_type, n); });
  }
  void accumulate(Stream stream, void* dst, DType dst_type, const void* src, DType src_type,
                  int64_t n) override {
    count(&Counters::element_calls);
    issue(resolve(stream), "accumulate",
          [=, this] { host_.accumulate({}, dst, dst_type, src, src_type, n); });
  }

  Stream default_stream(Device device) override {
    check_device(device);
    return {device, &default_};
  }
  Stream make_stream(Device device, bool urgent) override {
    check_device(device);
    return {device, new EmulatedStream{device, urgent, nullptr, 0, {}, ++n_streams_}};
  }
  void destroy_stream(Stream stream) noexcept override {
    if (stream.native != nullptr && stream.native != &default_)
      delete static_cast<EmulatedStream*>(stream.native);
  }

  Event record(Stream stream) override {
    count(&Counters::event_records);
    EmulatedStream& s = resolve(stream);
    auto event = detail::record_event(s);
    if (!s.capture) event->traced = trace_.record(s.id);
    return Event(stream.device, std::move(event));
  }
  void wait(Stream stream, const Event& event) override {
    count(&Counters::event_waits);
    const auto* e = static_cast<const EmulatedEvent*>(event.native());
    if (e == nullptr) return;
    EmulatedStream& s = resolve(stream);
    detail::wait_event(s, *e);
    if (!e->captured) trace_.wait(s.id, e->traced);
  }
  bool done(const Event& event) override {
    count(&Counters::event_queries);
    forbid_captured(event, "an event of a capture was queried");
    host_knows(event);
    return true;
  }
  void synchronize(Stream stream) override {
    count(&Counters::synchronizations);
    note("synchronize");
    EmulatedStream& s = resolve(stream);
    if (s.capture) detail::break_capture(*s.capture, "the host waits for a captured stream");
    trace_.host_waits(s.id);
  }
  void synchronize(const Event& event) override {
    count(&Counters::synchronizations);
    note("synchronize");
    forbid_captured(event, "the host waits for an event of a capture");
    host_knows(event);
  }

  void* allocate_pinned(int64_t bytes) override {
    detail::forbid_in_capture("pinned memory was asked for");
    void* data = host_.allocate_pinned(bytes);
    const std::lock_guard lock(mutex_);
    pinned_[static_cast<char*>(data)] = bytes;
    return data;
  }
  void free_pinned(void* data, int64_t bytes) noexcept override {
    {
      const std::lock_guard lock(mutex_);
      pinned_.erase(static_cast<char*>(data));
    }
    host_.free_pinned(data, bytes);
  }

  bool has_graphs() const override { return true; }
  void begin_capture(Stream stream) override { detail::begin_capture(resolve(stream)); }
  Graph end_capture(Stream stream) override {
    return Graph(stream.device, detail::end_capture(resolve(stream)));
  }
  void launch(Stream stream, const Graph& graph) override {
    BORA_CHECK(graph.defined(), "emulated device: an undefined graph was launched");
    EmulatedStream& s = resolve(stream);
    if (s.capture) detail::break_capture(*s.capture, "a graph was launched into a capture");
    count(&Counters::graph_launches);
    note("graph");
    trace("graph", s);
    const DeviceAccess access;
    for (const auto& node : static_cast<const GraphWork*>(graph.native())->nodes) node.work();
  }

  /// Runs `work`, or writes it down where the stream is being captured.
  void issue(EmulatedStream& stream, const char* name, std::function<void()> work,
             TracedWork traced = {}) {
    note(name);
    if (stream.capture) {
      count(&Counters::captured);
      return detail::record_node(stream, name, std::move(work));
    }
    trace(name, stream, std::move(traced));
    const DeviceAccess access;
    work();
  }
  EmulatedStream& resolve(Stream stream) {
    check_device(stream.device);
    return stream.native ? *static_cast<EmulatedStream*>(stream.native) : default_;
  }

  detail::Trace& trace() { return trace_; }
  void count(int64_t Counters::*what) {
    const std::lock_guard lock(mutex_);
    ++(counters_.*what);
  }
  Counters counters() {
    const std::lock_guard lock(mutex_);
    Counters c = counters_;
    c.recent.assign(recent_.begin(), recent_.end());
    return c;
  }
  void reset_counters() {
    const std::lock_guard lock(mutex_);
    counters_ = {};
    recent_.clear();
  }

 private:
  static void check_device(Device device) {
    BORA_CHECK(device == cuda(0), "emulated device: ", device,
               " was asked for, there is cuda:0 only");
  }
  void forbid_captured(const Event& event, const char* what) {
    const auto* e = static_cast<const EmulatedEvent*>(event.native());
    if (e == nullptr || !e->captured) return;
    if (const auto capture = e->capture.lock()) detail::break_capture(*capture, what);
    BORA_FAIL("emulated device: ", what);
  }
  void trace(const char* name, const EmulatedStream& stream, TracedWork work = {}) {
    work.name = name;
    work.stream = stream.id;
    trace_.issue(std::move(work));
  }
  void host_knows(const Event& event) {
    if (const auto* e = static_cast<const EmulatedEvent*>(event.native()))
      trace_.host_waits(e->traced);
  }
  bool is_pinned(const void* p) {
    const std::lock_guard lock(mutex_);
    auto* const at = static_cast<char*>(const_cast<void*>(p));
    auto after = pinned_.upper_bound(at);
    if (after == pinned_.begin()) return false;
    --after;
    return at < after->first + after->second;
  }
  void note(const char* name) {
    const std::lock_guard lock(mutex_);
    recent_.emplace_back(name);
    if (recent_.size() > 1024) recent_.pop_front();
  }

  Backend& host_ = backend(DeviceType::cpu);
  EmulatedStream default_{cuda(0), false, nullptr, 0, {}, 0};
  std::atomic<int64_t> n_streams_{0};
  detail::Trace trace_;
  std::mutex mutex_;
  std::map<char*, int64_t> pinned_;
  Counters counters_;
  std::deque<std::string> recent_;
};

EmulatedBackend& emulated() {
  static auto* instance = new EmulatedBackend();  // never destroyed, as the CPU's
  return *instance;
}

}  // namespace

void install() {
  if (!has_backend(DeviceType::cuda)) set_backend(DeviceType::cuda, &emulated());
}

Counters counters() { return emulated().counters(); }
void reset_counters() { emulated().reset_counters(); }
void begin_trace() { emulated().trace().begin(); }
std::vector<TracedWork> end_trace() { return emulated().trace().end(); }

void issue_library_work(const char* what, Stream stream, std::function<void()> work) {
  emulated().count(&Counters::launches);
  emulated().issue(emulated().resolve(stream), what, std::move(work));
}

namespace detail {

void launch(const char* what, Stream stream, dim3 grid, dim3 block, size_t shared_bytes,
            const void* kernel, std::function<void()> thread_body) {
  const Launch launch{what, grid, block, shared_bytes, &StaticShared::of(kernel)};
  check_launch(launch);
  emulated().count(&Counters::launches);
  emulated().issue(emulated().resolve(stream), what,
                   [launch, body = std::move(thread_body)] { run_grid(launch, body, schedule()); });
}

}  // namespace detail

}  // namespace bora::simt
