// SPDX-License-Identifier: Apache-2.0
// RunLock: one run at a time writes into a folder.
#pragma once

#include <string>

namespace bora::train {

/// The file run.lock of a run's folder: host, process, when that began and when its host did.
///
/// While the process lives on this host nobody else gets the lock.  That of a process that was
/// killed is taken without a word.  Whether one of another host lives cannot be known, and a job
/// that is queued again must not wait for a dead node: the lock is taken, with a warning, and the
/// other run, should it live, learns it at its next save and writes no more (require()).  So two
/// runs never write checkpoints in turn.  Made of plain files: locks of the system are off, or
/// hang, on many clusters' file systems.
class RunLock {
 public:
  /// Takes the lock of a folder that exists.  Throws UsageError naming the process if that of
  /// another one lives, Error if the file cannot be written.
  explicit RunLock(const std::string& folder);
  /// Gives it back.
  ~RunLock();
  RunLock(const RunLock&) = delete;
  RunLock& operator=(const RunLock&) = delete;

  /// Throws Error if another run has taken the lock since.  A file that somebody removed is written
  /// anew.  For any thread.
  void require() const;

 private:
  void write() const;

  std::string folder_, path_, mine_;
  bool from_elsewhere_ = false;  // the run it was taken from may live
};

}  // namespace bora::train
