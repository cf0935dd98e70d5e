// SPDX-License-Identifier: Apache-2.0
// Inner header of comm: one rank sends, one receives, the others know nothing of it.
#pragma once

#include "comm/flight_recorder.hpp"
#include "comm/rank_group.hpp"
#include "comm/transport.hpp"
#include "core/collective.hpp"

#include <atomic>
#include <vector>

namespace bora {

/// Starts sends and receives at once, in the calling thread; they do not wait for collectives or
/// for each other.  Each message is preceded by a header that says what it is.
class PointToPoint {
 public:
  /// On the transport of another, with tags of its own (above 15).
  PointToPoint(std::shared_ptr<Transport> transport, std::string host, int64_t message_bytes,
               std::shared_ptr<const RankGroup> group);
  /// What has not been waited for and is not done is left under way, and the run cannot end well.
  ~PointToPoint();

  Work send(Tensor x, int to, std::string_view label, double limit_s);
  Work receive(Tensor x, int from, std::string_view label, double limit_s);

 private:
  class Transfer;
  struct Header {
    static constexpr int kLabel = 44;
    int64_t count = 0;
    uint64_t label_hash = 0;
    DType type = DType::f32;
    char label[kLabel] = {};
  };
  Work start(std::shared_ptr<Transfer> transfer);

  std::shared_ptr<Transport> transport_;
  std::string host_;
  int64_t message_bytes_;
  std::shared_ptr<const RankGroup> group_;
  std::vector<uint64_t> sent_, received_;  // messages so far, by peer
  std::vector<std::shared_ptr<Transfer>> under_way_;
};

}  // namespace bora
