// SPDX-License-Identifier: Apache-2.0
// CheckpointSaver: a run's checkpoints, written by a thread of its own while the run goes on.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "data/checkpoint.hpp"

namespace bora::data {

/// The checkpoints of one folder.  save() copies the state and returns; a thread then lays the file
/// out, computes checksums, writes, syncs and renames.  One save is under way and at most one
/// waits, so there are at most two copies of the state; memory for the second is taken when the
/// writer first falls behind.
///
/// A save that waits is replaced by a newer one that has all its names: nothing is lost but an
/// older last.h5.  Where it has other names (best.h5, update-...), save() waits for its turn.
///
/// What goes wrong in the thread is kept and thrown, once, by the next poll(), save() or finish():
/// an Error that names file and reason.  The files before remain; later saves are tried anew.
/// Functions are for one thread, but for failed() and behind().
class CheckpointSaver {
 public:
  /// A file that is whole and durable, or one that a newer save came before.
  struct Saved {
    std::string name;    ///< in the folder
    int64_t ticket;      ///< of its save()
    double write_s = 0;  ///< that the thread needed for it
    int64_t bytes = 0;
    bool replaced = false;
  };
  struct Options {
    std::string folder;
    /// Files update-<n>.h5 that stay, the newest; 0: none is written.
    int64_t keep = 0;
    /// finish() gives up when the disk took nothing for so long; the destructor after a tenth.
    double patience_s = 600;
    /// Called by the thread before each file; where it throws an Error the file is not written.
    std::function<void()> may_write = {};
    /// Asked while finish(), save() or the destructor waits: why no file can be written any more,
    /// however long one waits.  They give up then, with this text.  Empty: go on waiting.
    std::function<std::string()> hindered = {};
  };

  /// Removes what killed writers of the folder left half written.
  explicit CheckpointSaver(Options options);
  /// Finishes what is under way, waits and logs; what went wrong and nobody asked for is logged.
  ~CheckpointSaver();
  CheckpointSaver(const CheckpointSaver&) = delete;
  CheckpointSaver& operator=(const CheckpointSaver&) = delete;

  /// Copies what `state` visits and has it written under all `names`: kLastCheckpoint (the former
  /// one becomes kPreviousCheckpoint), kBestCheckpoint, update_checkpoint(n).  After update_...
  /// is durable, the oldest such files over options.keep go, and those of later updates, which the
  /// run has gone back behind.  Returns the save's ticket: 1, 2, ...
  int64_t save(const std::vector<std::string>& names, const StateFunction& state);

  /// Whether poll() would throw; for any thread.
  bool failed() const noexcept;
  /// Whether a save waits for the one under way; for any thread.
  bool behind() const;
  /// Files finished, and those replaced, since the last call; each kind in order.
  std::vector<Saved> poll();
  /// Waits until everything is written; then as poll().
  std::vector<Saved> finish();

 private:
  struct Shared;  // with the thread, which may outlive a saver whose disk hangs
  std::shared_ptr<Shared> shared_;
};

}  // namespace bora::data
