// SPDX-License-Identifier: Apache-2.0
#include "data/csv.hpp"

#include <charconv>
#include <cmath>
#include <set>

#include "core/error.hpp"
#include "data/atomic_file.hpp"

namespace bora::data {
namespace {

std::string quoted(const std::string& text) {
  // Spaces at the ends are kept by the standard, but many readers strip them unless quoted.
  const bool plain = text.find_first_of(",\"\r\n") == std::string::npos &&
                     (text.empty() || (text.front() != ' ' && text.back() != ' '));
  if (plain) return text;
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"') out += '"';
    out += c;
  }
  return out + '"';
}

std::string shortest(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  char buffer[32];  // 24 characters are the most that a double needs
  const auto end = std::to_chars(buffer, buffer + sizeof buffer, value).ptr;
  return {buffer, end};
}

}  // namespace

std::string CsvCell::text() const {
  if (const auto* text = std::get_if<std::string>(&value_)) return quoted(*text);
  if (const auto* number = std::get_if<int64_t>(&value_)) return std::to_string(*number);
  return shortest(std::get<double>(value_));
}

CsvWriter::CsvWriter(std::string path, std::vector<std::string> columns)
    : path_(std::move(path)), columns_(std::move(columns)) {
  BORA_CHECK(!columns_.empty(), "CsvWriter: ", path_, " wants at least one column");
  BORA_CHECK(std::set<std::string>(columns_.begin(), columns_.end()).size() == columns_.size(),
             "CsvWriter: ", path_, " has two columns of one name");
  row({columns_.begin(), columns_.end()});
  n_rows_ = 0;
}

void CsvWriter::row(const std::vector<CsvCell>& cells) {
  BORA_CHECK(cells.size() == columns_.size(), "CsvWriter: ", path_, " has ", columns_.size(),
             " columns, row ", n_rows_ + 1, " has ", cells.size(), " cells");
  for (size_t i = 0; i < cells.size(); ++i) text_.append(i ? "," : "").append(cells[i].text());
  text_ += '\n';
  ++n_rows_;
}

void CsvWriter::close() { write_file_atomic(path_, text_); }

}  // namespace bora::data
