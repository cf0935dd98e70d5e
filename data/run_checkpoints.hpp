// SPDX-License-Identifier: Apache-2.0
// The checkpoints in a run's folder: their names, which stay, which one a run goes on from.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "data/checkpoint.hpp"

namespace bora::data {

inline constexpr std::string_view kLastCheckpoint = "last.h5";
inline constexpr std::string_view kPreviousCheckpoint = "last.prev.h5";
inline constexpr std::string_view kBestCheckpoint = "best.h5";
/// "update-00001234.h5"; more digits above 99999999.
std::string update_checkpoint(int64_t update);
/// The number in such a name; nothing for other names.
std::optional<int64_t> update_of(std::string_view name);

/// Names of all checkpoints in a folder (which may be missing): the three, then update-... from the
/// newest on.
std::vector<std::string> checkpoints_in(const std::string& folder);

/// Saves to last.h5 in `folder`; the former last.h5 becomes last.prev.h5 if it is whole.
void save_last_checkpoint(const std::string& folder, const StateFunction& state);

/// The path of the checkpoint to go on from: last.h5 if it is whole, else last.prev.h5, else the
/// newest whole update-<n>.h5, else best.h5 (which may be from long before the end), with a warning
/// that says what is wrong with those before it; nothing when none exists.  Throws Error with all
/// reasons if there are files and none is usable.
std::optional<std::string> latest_valid(const std::string& folder);

/// Writes the checkpoints of one folder; for one thread.
class RunCheckpoints {
 public:
  /// `keep`: files update-<n>.h5 that stay; 0: none may be written.
  RunCheckpoints(std::string folder, int64_t keep);

  /// Throws Error unless write() takes the name.
  void check_name(const std::string& name) const;
  /// Puts what the writer holds in the place of last.h5 (the former one becomes last.prev.h5 if it
  /// is whole), best.h5 or update-<n>.h5.  After the latter is durable, older ones than the newest
  /// `keep` are removed, and those of later updates, which the run has gone back behind.
  void write(CheckpointWriter& writer, const std::string& name);
  /// Removes unfinished files of writers that were killed.
  void remove_rubbish() const;

 private:
  std::string path(std::string_view name) const;
  bool last_is_whole() const;
  void retire(int64_t newest) const;

  std::string folder_;
  int64_t keep_;
  /// Of the last.h5 that write() made: unchanged, it needs no check before it becomes the previous
  /// one.
  struct Identity {
    uint64_t device = 0, file = 0;
    int64_t bytes = -1, changed_s = 0, changed_ns = 0;
    bool operator==(const Identity&) const = default;
  };
  static Identity identity(const std::string& path);
  Identity own_last_;
};

}  // namespace bora::data
