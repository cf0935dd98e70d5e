// SPDX-License-Identifier: Apache-2.0
#include "comm/nccl_flight.hpp"

#include "comm/flight_recorder.hpp"
#include "comm/watchdog.hpp"

#include <map>
#include <mutex>
#include <utility>

namespace bora {
namespace {

class FlightObserver final : public NcclObserver {
 public:
  void issued(const NcclNote& note) override {
    const std::lock_guard lock(mutex_);
    // The limit is the communicator's own business; see NcclEngine::poll.
    const RecordToken token = FlightRecorder::instance().begin({.operation = note.operation,
                                                                .group = note.group,
                                                                .label = note.label,
                                                                .sequence = note.sequence,
                                                                .count = note.count,
                                                                .type = note.type,
                                                                .peer = note.root});
    token.arrived();
    under_way_[{note.group, note.id}] = token;
  }
  void finished(const NcclNote& note) override {
    const std::lock_guard lock(mutex_);
    const auto found = under_way_.find({note.group, note.id});
    if (found == under_way_.end()) return;
    found->second.done();
    under_way_.erase(found);
  }
  void failed(const std::string& reason) override {
    {
      const std::lock_guard lock(mutex_);
      for (const auto& [operation, token] : std::exchange(under_way_, {})) token.failed(reason);
    }
    Watchdog::instance().operation_failed(reason, /*for_good=*/true);
  }

 private:
  std::mutex mutex_;
  // By communicator and number: groups split off have the same observer.
  std::map<std::pair<std::string, uint64_t>, RecordToken> under_way_;
};

}  // namespace

std::shared_ptr<NcclObserver> make_flight_observer() { return std::make_shared<FlightObserver>(); }

}  // namespace bora
