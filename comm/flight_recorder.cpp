// SPDX-License-Identifier: Apache-2.0
// The ring itself.  How it is printed is in flight_record_text.cpp.
#include "comm/flight_recorder.hpp"

#include "comm/seqlock.hpp"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <exception>

namespace bora {
namespace {

template <size_t n>
void put(char (&to)[n], std::string_view text) {
  const size_t length = std::min(text.size(), n - 1);
  std::memcpy(to, text.data(), length);
  std::memset(to + length, 0, n - length);
}

int64_t wall_now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

}  // namespace

int64_t steady_now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

std::string_view name_of(FlightState state) {
  switch (state) {
    case FlightState::queued:
      return "queued";
    case FlightState::arrived:
      return "arrived";
    case FlightState::moving:
      return "moving";
    case FlightState::done:
      return "done";
    case FlightState::failed:
      return "failed";
  }
  return "?";
}

// What changes after the begin is not under the lock: an operation takes its steps one after the
// other. The time of a state is there before the state is, so a reader who looks at the state first
// finds it.
struct FlightRecorder::Slot {
  struct Fault {
    char text[sizeof(FlightEntry::fault)];
  };
  SeqLocked<FlightEntry> entry;  // with no fault in it
  SeqLocked<Fault> fault;
  std::atomic<uint64_t> id{0};
  std::atomic<FlightState> state{FlightState::done};
  std::atomic<int64_t> arrived_ns{0}, moving_ns{0}, ended_ns{0};

  bool under_way() const {
    const FlightState now = state.load(std::memory_order_acquire);
    return now != FlightState::done && now != FlightState::failed;
  }
  bool read(FlightEntry& e) const {
    return entry.read(e, [&] {
      e.state = state.load(std::memory_order_acquire);
      e.arrived_ns = arrived_ns.load(std::memory_order_acquire);
      e.moving_ns = moving_ns.load(std::memory_order_acquire);
      e.ended_ns = ended_ns.load(std::memory_order_acquire);
      Fault text{};
      if (e.state == FlightState::failed) fault.read(text);
      std::memcpy(e.fault, text.text, sizeof(e.fault));
      // Times that are ahead of the state.
      if (e.under_way()) e.ended_ns = 0;
      if (e.under_way() && e.state != FlightState::moving) e.moving_ns = 0;
      if (e.state == FlightState::queued) e.arrived_ns = 0;
    }) && e.id != 0;
  }
};

FlightRecorder::FlightRecorder()
    : slots_(std::make_unique<Slot[]>(kCapacity)),
      anchor_steady_ns_(steady_now_ns()),
      anchor_wall_ns_(wall_now_ns()) {
  if (const char* folder = std::getenv("BORA_FLIGHT_RECORD_DIR")) folder_ = folder;
}

FlightRecorder::~FlightRecorder() = default;

FlightRecorder& FlightRecorder::instance() {
  static auto* recorder = new FlightRecorder;  // never destroyed: threads may outlive main()
  return *recorder;
}

RecordToken FlightRecorder::begin(const FlightNote& note) {
  FlightEntry entry;
  entry.sequence = note.sequence;
  entry.count = note.count;
  entry.bytes = note.count > 0 ? note.count * size_of(note.type) : 0;
  entry.queued_ns = steady_now_ns();
  entry.limit_s = note.limit_s;
  entry.peer = note.peer;
  entry.type = note.type;
  put(entry.operation, note.operation);
  put(entry.group, note.group);
  put(entry.label, note.label);
  for (size_t tries = 0; tries < kCapacity; ++tries) {
    const auto at = static_cast<uint32_t>(next_ticket_++ % kCapacity);
    Slot& slot = slots_[at];
    uint64_t leave_with = 0;
    if (slot.under_way() || !slot.entry.try_lock(leave_with)) continue;
    if (slot.under_way()) {  // another thread was faster
      slot.entry.unlock(leave_with);
      continue;
    }
    entry.id = ++next_id_;
    slot.arrived_ns.store(note.arrived ? entry.queued_ns : 0, std::memory_order_release);
    slot.moving_ns.store(0, std::memory_order_release);
    slot.ended_ns.store(0, std::memory_order_release);
    slot.id.store(entry.id, std::memory_order_release);
    slot.state.store(note.arrived ? FlightState::arrived : FlightState::queued,
                     std::memory_order_release);
    static_assert(offsetof(FlightEntry, fault) % 8 == 0);
    slot.entry.store(entry, offsetof(FlightEntry, fault));
    slot.entry.unlock(leave_with);
    return RecordToken(this, at, entry.id);
  }
  ++n_dropped_;
  return {};
}

void FlightRecorder::step(uint32_t at, uint64_t id, FlightState state, std::string_view fault) {
  Slot& slot = slots_[at];
  if (slot.id.load(std::memory_order_acquire) != id || !slot.under_way()) return;
  if (state == FlightState::arrived && slot.state.load() == state) return;
  auto& time = state == FlightState::arrived  ? slot.arrived_ns
               : state == FlightState::moving ? slot.moving_ns
                                              : slot.ended_ns;
  time.store(steady_now_ns(), std::memory_order_release);
  if (state == FlightState::failed) {
    Slot::Fault text;
    put(text.text, fault);
    const uint64_t leave_with = slot.fault.lock();
    slot.fault.store(text);
    slot.fault.unlock(leave_with);
  }
  slot.state.store(state, std::memory_order_release);
}

void RecordToken::arrived() const {
  if (recorder_ != nullptr) recorder_->step(slot_, id_, FlightState::arrived, {});
}
void RecordToken::moving() const {
  if (recorder_ != nullptr) recorder_->step(slot_, id_, FlightState::moving, {});
}
void RecordToken::done() const {
  if (recorder_ != nullptr) recorder_->step(slot_, id_, FlightState::done, {});
}
void RecordToken::failed(std::string_view fault) const {
  if (recorder_ != nullptr) recorder_->step(slot_, id_, FlightState::failed, fault);
}

std::vector<FlightEntry> FlightRecorder::entries() const {
  std::vector<FlightEntry> all;
  FlightEntry entry;
  for (size_t i = 0; i < kCapacity; ++i)
    if (slots_[i].read(entry)) all.push_back(entry);
  std::sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.id < b.id; });
  return all;
}

std::optional<FlightEntry> FlightRecorder::latest() const {
  std::optional<FlightEntry> youngest;
  FlightEntry entry;
  for (size_t i = 0; i < kCapacity; ++i)
    if (slots_[i].read(entry) && entry.id > (youngest ? youngest->id : 0)) youngest = entry;
  return youngest;
}

WatchedCall::WatchedCall(std::string_view call, double limit_s, std::string_view label)
    : token_(FlightRecorder::instance().begin(
          {.operation = call, .group = "", .label = label, .limit_s = limit_s})),
      exceptions_(std::uncaught_exceptions()) {
  token_.arrived();
}

WatchedCall::~WatchedCall() {
  if (std::uncaught_exceptions() > exceptions_) {
    token_.failed("an exception");
  } else {
    token_.done();
  }
}

}  // namespace bora
