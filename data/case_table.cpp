// SPDX-License-Identifier: Apache-2.0
#include "data/case_table.hpp"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>

#include "core/error.hpp"

namespace bora::data {
namespace {

namespace fs = std::filesystem;

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kSpace = " \t";
  const size_t first = text.find_first_not_of(kSpace);
  if (first == text.npos) return {};
  return text.substr(first, text.find_last_not_of(kSpace) - first + 1);
}

/// Letters of a cell for a message, so that a binary file does not fill the screen.
std::string brief(std::string_view text) {
  constexpr size_t kMost = 40;
  std::string out(text.substr(0, kMost));
  for (char& c : out)
    if (static_cast<unsigned char>(c) < 32) c = ' ';
  return text.size() > kMost ? out + "..." : out;
}

/// Goes through a text, counting lines.
class Reader {
 public:
  Reader(std::string_view text, const std::string& path) : text_(text), path_(path) {}

  bool done() const { return at_ >= text_.size(); }
  int64_t line() const { return line_; }

  template <class... Parts>
  [[noreturn]] void refuse(int64_t line, const Parts&... parts) const {
    throw UsageError(bora::detail::join("'", path_, "', line ", line, ": ", parts...));
  }

  /// The rest of the line, without its end.
  std::string_view take_line() {
    const size_t begin = at_;
    while (!done() && !at_line_end()) ++at_;
    const std::string_view out = text_.substr(begin, at_ - begin);
    take_line_end();
    return out;
  }

  /// One record of a CSV, its cells; a record may span lines.
  std::vector<std::string> take_record() {
    std::vector<std::string> cells;
    for (;;) {
      cells.push_back(take_cell());
      if (done() || at_line_end()) break;
      ++at_;  // a comma
    }
    take_line_end();
    return cells;
  }

  /// A line of spaces alone is skipped.
  bool skip_blank_line() {
    const size_t next = std::min(text_.find_first_not_of(" \t", at_), text_.size());
    if (next < text_.size() && text_[next] != '\r' && text_[next] != '\n') return false;
    at_ = next;
    take_line_end();
    return true;
  }

 private:
  bool at_line_end() const { return text_[at_] == '\n' || text_[at_] == '\r'; }

  void take_line_end() {
    if (done()) return;
    if (text_[at_] == '\r' && at_ + 1 < text_.size() && text_[at_ + 1] == '\n') ++at_;
    ++at_;
    ++line_;
  }

  std::string take_cell() {
    const size_t begin = at_;
    while (!done() && (text_[at_] == ' ' || text_[at_] == '\t')) ++at_;
    if (!done() && text_[at_] == '"') return take_quoted();
    while (!done() && text_[at_] != ',' && !at_line_end()) {
      if (text_[at_] == '"')
        refuse(line_, "a quote inside the cell '", brief(text_.substr(begin, at_ - begin)),
               "\"': a cell that holds quotes is quoted itself, and they are doubled");
      ++at_;
    }
    return std::string(trimmed(text_.substr(begin, at_ - begin)));
  }

  std::string take_quoted() {
    const int64_t first_line = line_;
    std::string out;
    for (++at_;; ++at_) {
      if (done())
        refuse(first_line, "the quote before '", brief(out), "' is not closed by the file's end");
      const char c = text_[at_];
      if (c == '"') {
        if (at_ + 1 >= text_.size() || text_[at_ + 1] != '"') break;
        ++at_;
      } else if (c == '\n' || (c == '\r' && !(at_ + 1 < text_.size() && text_[at_ + 1] == '\n'))) {
        ++line_;
      }
      out += c;
    }
    ++at_;
    while (!done() && (text_[at_] == ' ' || text_[at_] == '\t')) ++at_;
    if (!done() && text_[at_] != ',' && !at_line_end())
      refuse(line_, "text behind the closing quote of '", brief(out),
             "': wanted a comma or the line's end");
    return out;
  }

  std::string_view text_;
  const std::string& path_;
  size_t at_ = 0;
  int64_t line_ = 1;
};

/// Without the byte order mark; refuses what is no UTF-8 text.
std::string_view plain_text(std::string_view text, const std::string& path) {
  if (text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);
  if (text.starts_with("\xFF\xFE") || text.starts_with("\xFE\xFF"))
    throw UsageError("'" + path + "' is UTF-16 text: save it as UTF-8");
  const size_t zero = text.find('\0');
  if (zero != text.npos) {
    const auto line = 1 + std::count(text.begin(), text.begin() + static_cast<long>(zero), '\n');
    throw UsageError(bora::detail::join("'", path, "', line ", line,
                                        ": a zero byte: this is no text file of cases"));
  }
  return text;
}

void check_header(const Reader& in, int64_t line, const std::vector<std::string>& columns) {
  std::set<std::string_view> seen;
  for (size_t i = 0; i < columns.size(); ++i) {
    if (columns[i].empty())
      in.refuse(line, "column ", i + 1, " of ", columns.size(), " has no name");
    if (!seen.insert(columns[i]).second)
      in.refuse(line, "two columns are called '", brief(columns[i]), "'");
  }
  if (columns.size() == 1 && columns[0].find_first_of(";\t") != std::string::npos)
    in.refuse(line, "one column '", brief(columns[0]),
              "': separate the columns by commas, not by semicolons or tabs");
}

void parse_manifest(Reader& in, CaseTable& table) {
  while (!in.done() && in.skip_blank_line()) {
  }
  if (in.done()) throw UsageError("'" + table.path + "' is empty: wanted a header row and cases");
  const int64_t header_line = in.line();
  table.columns = in.take_record();
  check_header(in, header_line, table.columns);
  while (!in.done()) {
    if (in.skip_blank_line()) continue;
    CaseRow row{in.line(), in.take_record()};
    if (row.cells.size() != table.columns.size())
      in.refuse(row.line, row.cells.size() < table.columns.size() ? "too few" : "too many",
                " cells: ", row.cells.size(), ", the header has ", table.columns.size(),
                " columns");
    table.rows.push_back(std::move(row));
  }
  if (table.rows.empty())
    throw UsageError("'" + table.path + "' has a header row, but no case below it");
}

void parse_list(Reader& in, CaseTable& table) {
  table.columns = {"case"};
  while (!in.done()) {
    const int64_t line = in.line();
    const std::string_view entry = trimmed(in.take_line());
    if (!entry.empty() && entry.front() != '#') table.rows.push_back({line, {std::string(entry)}});
  }
  if (table.rows.empty())
    throw UsageError("'" + table.path + "' lists no case: wanted one path or name a line");
}

std::string lower(std::string text) {
  for (char& c : text)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return text;
}

std::string list_of(const auto& names) {
  std::string out;
  for (const auto& name : names) out.append(out.empty() ? "" : ", ").append(name);
  return out;
}

}  // namespace

bool CaseTable::has(std::string_view column) const {
  return std::find(columns.begin(), columns.end(), column) != columns.end();
}

std::string CaseTable::cell(const CaseRow& row, std::string_view column) const {
  const auto it = std::find(columns.begin(), columns.end(), column);
  if (it == columns.end()) return {};
  const size_t i = static_cast<size_t>(it - columns.begin());
  BORA_CHECK(i < row.cells.size(), "CaseTable: ", place(row), " is no row of this table");
  return row.cells[i];
}

double CaseTable::number(const CaseRow& row, std::string_view column, double missing) const {
  const std::string text = cell(row, column);
  if (text.empty()) return missing;
  double value = 0;
  const char* end = text.data() + text.size();
  const auto [last, code] = std::from_chars(text.data(), end, value);
  if (code != std::errc() || last != end || !std::isfinite(value))
    throw UsageError(bora::detail::join(place(row), ": column '", column, "' is '", brief(text),
                                        "', wanted a number"));
  return value;
}

int64_t CaseTable::whole_number(const CaseRow& row, std::string_view column,
                                int64_t missing) const {
  const std::string text = cell(row, column);
  if (text.empty()) return missing;
  int64_t value = 0;
  const char* end = text.data() + text.size();
  const auto [last, code] = std::from_chars(text.data(), end, value);
  if (code != std::errc() || last != end)
    throw UsageError(bora::detail::join(place(row), ": column '", column, "' is '", brief(text),
                                        "', wanted a whole number"));
  return value;
}

std::string CaseTable::file(const CaseRow& row, std::string_view column) const {
  const std::string text = cell(row, column);
  if (text.empty() || fs::path(text).is_absolute()) return text;
  return (fs::path(path).parent_path() / text).string();
}

std::string CaseTable::place(const CaseRow& row) const {
  return bora::detail::join("'", path, "', line ", row.line);
}

void CaseTable::allow_columns(std::initializer_list<std::string_view> known) const {
  for (const std::string& column : columns)
    if (std::find(known.begin(), known.end(), column) == known.end())
      throw UsageError("'" + path + "' has a column '" + brief(column) +
                       "' that means nothing here; there may be " + list_of(known));
}

void CaseTable::require_columns(std::initializer_list<std::string_view> needed) const {
  for (const std::string_view column : needed)
    if (!has(column))
      throw UsageError(bora::detail::join("'", path, "' has no column '", column, "'; it has ",
                                          list_of(columns)));
}

CaseTable parse_case_table(std::string_view text, const std::string& path) {
  CaseTable table;
  table.path = path;
  table.is_manifest = lower(fs::path(path).extension().string()) == ".csv";
  Reader in(plain_text(text, path), table.path);
  if (table.is_manifest)
    parse_manifest(in, table);
  else
    parse_list(in, table);
  return table;
}

CaseTable read_case_table(const std::string& path) {
  std::error_code ignored;
  BORA_CHECK(!fs::is_directory(path, ignored), "'", path,
             "' is a folder: wanted a list file or a manifest (.csv)");
  std::ifstream in(path, std::ios::binary);
  BORA_CHECK(in.is_open(), "cannot open '", path, "': ", std::strerror(errno));
  const std::string text{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  BORA_CHECK(!in.bad(), "cannot read '", path, "'");
  return parse_case_table(text, path);
}

}  // namespace bora::data
