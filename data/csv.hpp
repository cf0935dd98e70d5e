// SPDX-License-Identifier: Apache-2.0
// CsvWriter: tables as comma-separated values (RFC 4180).
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace bora::data {

/// A cell; numbers in the shortest form that reads back as the same value, NaN as "nan".
class CsvCell {
 public:
  CsvCell(std::string text) : value_(std::move(text)) {}         // NOLINT: cells read as values
  CsvCell(std::string_view text) : value_(std::string(text)) {}  // NOLINT
  CsvCell(const char* text) : value_(std::string(text)) {}       // NOLINT
  CsvCell(int value) : value_(int64_t{value}) {}                 // NOLINT
  CsvCell(int64_t value) : value_(value) {}                      // NOLINT
  CsvCell(double value) : value_(value) {}                       // NOLINT
  /// As it stands in the file: quoted where it contains a comma, a quote or a line's end.
  std::string text() const;

 private:
  std::variant<std::string, int64_t, double> value_;
};

/// Collects rows and writes the file as a whole in close(), atomically: there is no half table.
/// Without close() nothing is written.
class CsvWriter {
 public:
  /// Throws Error if there are no columns or two of one name.
  CsvWriter(std::string path, std::vector<std::string> columns);
  /// Throws Error unless there is one cell for each column.
  void row(const std::vector<CsvCell>& cells);
  void row(std::initializer_list<CsvCell> cells) { row(std::vector<CsvCell>(cells)); }
  /// Throws Error naming the path and the reason.
  void close();
  int64_t n_rows() const { return n_rows_; }

 private:
  std::string path_;
  std::vector<std::string> columns_;
  std::string text_;
  int64_t n_rows_ = 0;
};

}  // namespace bora::data
