// SPDX-License-Identifier: Apache-2.0
// CaseTable: the cases of a data set as a user lists them: a list file or a manifest CSV.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

namespace bora::data {

/// A row of the file.
struct CaseRow {
  int64_t line = 0;                ///< where it begins, the first is 1
  std::vector<std::string> cells;  ///< one for each column
};

/// A text file of cases.  `<name>.csv` is a manifest: RFC 4180, a header row, columns by name.  Any
/// other file is a list: one path or name a line; it reads as a table of the one column "case".
struct CaseTable {
  std::string path;
  bool is_manifest = false;
  std::vector<std::string> columns;
  std::vector<CaseRow> rows;

  bool has(std::string_view column) const;
  /// The cell's text; empty where the table has no such column.
  std::string cell(const CaseRow& row, std::string_view column) const;
  /// The cell as a number; `missing` where it is empty or there is no such column.  Throw
  /// UsageError with file and line for anything else, NaN and infinity included.
  double number(const CaseRow& row, std::string_view column, double missing) const;
  int64_t whole_number(const CaseRow& row, std::string_view column, int64_t missing) const;
  /// The cell as a path: one that is not absolute is below the folder of the table; empty stays.
  std::string file(const CaseRow& row, std::string_view column) const;
  /// "'cases.csv', line 3", for messages.
  std::string place(const CaseRow& row) const;
  /// Throws UsageError for a column that is not among these (a misspelt one would be ignored),
  /// naming those that may be.
  void allow_columns(std::initializer_list<std::string_view> known) const;
  /// Throws UsageError for a column that is missing.
  void require_columns(std::initializer_list<std::string_view> needed) const;
};

/// Both forms: UTF-8 with or without a byte order mark, lines that end in LF, CRLF or CR.
/// List: blank lines and lines that begin with # are left out, spaces around an entry, too.
/// Manifest: blank lines are left out; spaces around a cell that is not quoted, too; a quoted cell
/// may hold commas, line ends and, doubled, quotes.
/// Throws Error naming the file for one that cannot be read; UsageError with file and line for: no
/// rows, an empty or double column name, too few or too many cells, a quote that is not closed or
/// stands inside a cell, text behind a closing quote, a zero byte, another encoding (UTF-16).
CaseTable read_case_table(const std::string& path);

/// The same of a text in memory; `path` for messages, for the form and for relative paths.
CaseTable parse_case_table(std::string_view text, const std::string& path);

}  // namespace bora::data
