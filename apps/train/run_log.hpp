// SPDX-License-Identifier: Apache-2.0
// RunLog: what metrics.jsonl of a run's folder tells, in the order of the run.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "data/jsonl.hpp"

namespace bora::train {

/// The rows of a log (docs/watching-a-run.md lists their kinds and keys).
class RunLog {
 public:
  /// Throws Error naming the file and line if one is no JSON object.  A last line that was never
  /// finished is left out.
  static RunLog read(const std::string& path);
  explicit RunLog(std::vector<data::JsonRecord> rows) : rows_(std::move(rows)) {}

  const std::vector<data::JsonRecord>& rows() const { return rows_; }
  /// Those with {"kind": kind}.
  std::vector<const data::JsonRecord*> of(std::string_view kind) const;
  const data::JsonRecord* last(std::string_view kind) const;

  /// One process of the run: it began, or went on after a stop or a crash.
  struct Session {
    const data::JsonRecord* start = nullptr;  ///< nullptr: it was logged by an older version
    const data::JsonRecord* end = nullptr;    ///< nullptr: it runs, or died
    double seconds = 0;                       ///< to its last row
  };
  std::vector<Session> sessions() const;

 private:
  std::vector<data::JsonRecord> rows_;
};

/// The value under a key as a number (the texts "nan", "inf" and "-inf" are some; so are true and
/// false); nothing if it is missing or no number.
std::optional<double> number_of(const data::JsonRecord& row, std::string_view key);
/// The value as a text; empty if it is missing or no text.
std::string text_of(const data::JsonRecord& row, std::string_view key);

}  // namespace bora::train
