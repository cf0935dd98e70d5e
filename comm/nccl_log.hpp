// SPDX-License-Identifier: Apache-2.0
// Inner header of comm: what a rank has issued on a device communicator, and how ranks compare it.
#pragma once

#include "core/collective.hpp"
#include "core/fnv.hpp"

#include <array>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace bora {

/// The operations of a communicator as texts, numbered from 1: the last kKept of them, and a hash
/// of all.  NCCL itself does not notice when ranks issue different operations: it hangs, or worse.
/// Thread-safe, since the time-out is noticed by another thread than the one that issues.
class IssueLog {
 public:
  static constexpr uint64_t kKept = 256;

  /// Appends an operation; returns its number.
  uint64_t add(std::string text);
  uint64_t number() const;
  uint64_t hash() const;
  /// Forgets what was issued so far, but not how much: on all ranks together, after a difference
  /// that all have reported.
  void forget();
  /// The lines that compare_logs() understands: `head` (who this is), then "number text" each.
  std::string text(const std::string& head) const;

 private:
  mutable std::mutex mutex_;
  std::array<std::string, kKept> kept_;
  uint64_t number_ = 0, first_ = 1;  // the youngest; the oldest that is not forgotten
  uint64_t hash_ = kFnvOffset;
};

/// The first difference between the ranks' logs (IssueLog::text of each, in rank order; empty for a
/// rank that has not answered), in words: the number, and what each of two ranks issued as that
/// number; or the ranks that have issued fewer than others, and what those wait in; or that all
/// have issued the same.
std::string compare_logs(const std::vector<std::string>& logs);

/// Gathers a text from all ranks when something has gone wrong and nobody knows who still answers:
/// in a thread of its own, which is left behind when the time is over.
class NcclInquest {
 public:
  /// `group` is used for nothing else; if it is one over MPI its time limit becomes limit_s.
  NcclInquest(std::unique_ptr<Collective> group, double limit_s);
  /// compare_logs() of all ranks' texts, or who did not answer as far as the group's error names
  /// them.  Once; never throws.
  std::string hold(const std::string& mine) noexcept;

 private:
  struct Answer;
  std::shared_ptr<Answer> answer_;
  double limit_s_;
};

}  // namespace bora
