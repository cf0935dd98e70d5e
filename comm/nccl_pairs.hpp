// SPDX-License-Identifier: Apache-2.0
// Inner header of comm: sends and receives over NCCL, issued as groups.
#pragma once

#include "comm/nccl_engine.hpp"

namespace bora {

/// Collects sends and receives until one is needed, then issues all of them as one NCCL group:
/// alone, two ranks that both send first would block their streams for ever.
class NcclPairs : public std::enable_shared_from_this<NcclPairs> {
 public:
  /// Announces what is sent over `host` if check_pairs.
  NcclPairs(std::shared_ptr<NcclEngine> engine, Collective& host, const NcclOptions& options);
  /// `limit_s` as for NcclEngine::issue.
  Work send(Tensor x, int to, std::string_view label, double limit_s);
  Work receive(Tensor x, int from, std::string_view label, double limit_s);
  /// Issues what has been collected.  Throws, after which the communicator is given up, when what
  /// is received differs from what the other rank sends.
  void flush();
  /// Forgets what has not been issued: the communicator goes.
  void close();

 private:
  class Transfer;
  Work add(std::shared_ptr<Transfer> transfer);
  void compare_announcements();

  std::shared_ptr<NcclEngine> engine_;
  Collective* host_;
  bool announced_;
  std::vector<std::shared_ptr<Transfer>> waiting_;
  std::vector<Work> notes_;  // announcements under way
};

}  // namespace bora
