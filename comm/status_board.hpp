// SPDX-License-Identifier: Apache-2.0
// Inner header of comm: what the ranks of a host are doing, in memory that they share.
#pragma once

#include "comm/seqlock.hpp"

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace bora {

/// What a rank's watchdog writes down about it twice a second.  Times are steady_now_ns.
struct RankStatus {
  int64_t written_ns = 0;  ///< 0: never
  int64_t process = 0;
  int64_t process_born = 0;                          ///< as /proc/<process>/stat says
  int64_t since_ns = 0;                              ///< when the operation came into its state
  int64_t section_begin_ns = 0, section_end_ns = 0;  ///< of the long section; end 0: in none
  int32_t under_way = 0;                             ///< the operation is
  int32_t ended = 0;                                 ///< has left the communicator in good order
  char section[48] = {};
  char operation[144] = {};  ///< the latest one, FlightEntry::describe()
};

/// One place for each rank of a host.  Each rank writes its own place and reads the others'.
class StatusBoard {
 public:
  /// Bytes of a place.
  static constexpr int64_t kBytes = 512;

  /// `place(i)` is rank i's, zero at first; it must outlive the board.  `world_ranks` by i; this
  /// rank is `index`.
  StatusBoard(std::function<char*(int)> place, std::vector<int> world_ranks, int index);

  void write(const RankStatus& status);
  /// Of another rank; false if it has written none, or is not of this host.
  bool read(int world_rank, RankStatus& status) const;
  const std::vector<int>& world_ranks() const { return world_ranks_; }

  /// Asks every other rank for its flight record.
  void ask_for_records();
  /// Whether anybody has asked since the last call.
  bool was_asked();

  /// Whether another rank is in an announced section whose time is not over.
  bool others_are_busy(std::string* who = nullptr) const;
  /// Checks the next rank's process.  Its world rank if it has died, else -1.  Says nothing where
  /// that rank's process cannot be seen, as from another container.
  int dead_neighbour();
  /// What is known about a rank, "process 123: ..."; empty if nothing is.
  std::string describe(int world_rank) const;

 private:
  struct Place;
  Place& place(int i) const;

  std::function<char*(int)> place_;
  std::vector<int> world_ranks_;
  int index_;
  uint64_t asked_ = 0;
  bool neighbour_seen_ = false;
};

}  // namespace bora
