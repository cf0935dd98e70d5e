// SPDX-License-Identifier: Apache-2.0
// Progress: one live line on a terminal, plain lines at a sensible rate elsewhere.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace bora::apps {

/// How far a long work is, on stderr.  Rank 0 makes one with `enabled`; the others' do nothing.
///
/// On a terminal one line is redrawn in place, at most ten times a second, cut to the width that
/// the terminal has now; what is logged meanwhile appears above it.  Elsewhere (a file, a pipe,
/// TERM=dumb, NO_COLOR) lines are logged, each a tenth of the time passed after the last one, but
/// 10 s at least and 10 min at most: some dozens in an hour, and a sign of life at any time.
class Progress {
 public:
  using Clock = std::function<double()>;  ///< monotonic seconds
  explicit Progress(bool enabled, Clock clock = {});
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// Whether update() would write now: to spare the making of texts in a fast loop.
  bool due() const;
  /// `fraction` of the work that is done, in [0, 1]; it draws the bar, and its pace since the first
  /// call gives the time left.  `parts`: what else is told, the most important first, since a
  /// narrow terminal shows only the first ones.  Without parts those of the last call stand;
  /// before there are any nothing is written.
  void update(double fraction, const std::vector<std::string>& parts = {});
  /// What is told now; to put it back after something else was told for a while (a validation).
  const std::vector<std::string>& parts() const { return parts_; }
  void put_back(std::vector<std::string> parts) { parts_ = std::move(parts); }
  /// A line that stays (an epoch's result).
  void line(const std::string& text);
  /// Takes the live line away, until the next update.
  void clear();
  bool terminal() const { return terminal_; }

 private:
  bool enabled_, terminal_;
  Clock clock_;
  double begin_s_, last_s_ = -1e9;
  double first_s_ = -1, first_fraction_ = 0;  // of the first update: a resumed run begins inside
  std::vector<std::string> parts_;
};

/// Pure: what stands on a terminal of so many columns; at most columns - 1 characters, since a full
/// last column makes some terminals wrap.  A bar is drawn where there is room for it.
std::string live_line(double fraction, const std::vector<std::string>& parts, int columns);
/// Pure: seconds from one plain line to the next, when so many have passed since the first.
double plain_interval_s(double passed_s);
/// Columns of the terminal at stderr, now; 0 where it has no place for a live line
/// (log_can_have_footer).
int live_columns();

/// "1 d 02 h", "1 h 02 min", "3 min 05 s", "12 s"; "?" of a negative or infinite time.
std::string duration_text(double seconds);

}  // namespace bora::apps
