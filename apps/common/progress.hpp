// SPDX-License-Identifier: Apache-2.0
// Progress: one live line on a terminal, plain lines at a sensible rate elsewhere.
#pragma once

#include <string>

namespace bora::apps {

/// Rank 0 makes one with `enabled`; the others' do nothing.  Writes to stderr.
class Progress {
 public:
  /// plain_every_s: on a batch log, the shortest time between two plain lines.
  explicit Progress(bool enabled, double plain_every_s = 10.0);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// What stands on the live line now.  On a terminal it is redrawn at most 10 times a second; on a
  /// log a line is written when the last one is old enough.  `fraction` in [0, 1] draws the bar and
  /// gives the time left.
  void update(double fraction, const std::string& text);
  /// A line that stays (an epoch's result); the live line is wiped first.
  void line(const std::string& text);
  bool terminal() const { return terminal_; }

 private:
  void wipe();
  bool enabled_, terminal_;
  double plain_every_s_, start_s_, last_s_ = -1e9;
  bool drawn_ = false;
};

/// "1 h 02 min", "3 min 05 s", "12 s".
std::string duration_text(double seconds);

}  // namespace bora::apps
