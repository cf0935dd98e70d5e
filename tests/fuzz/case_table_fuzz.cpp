// SPDX-License-Identifier: Apache-2.0
// Any bytes as a list of cases and as a manifest: an Error, or rows that are as wide as the header
// and whose cells can be asked for; nothing else.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "core/error.hpp"
#include "data/case_table.hpp"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  for (const char* path : {"cases.csv", "cases.txt"}) {
    try {
      const bora::data::CaseTable table = bora::data::parse_case_table(text, path);
      if (table.rows.empty()) std::abort();
      int64_t line = 0;
      for (const bora::data::CaseRow& row : table.rows) {
        if (row.cells.size() != table.columns.size() || row.line <= line) std::abort();
        line = row.line;
        for (const auto& column : table.columns) {
          table.cell(row, column);
          table.file(row, column);
          try {
            table.number(row, column, 0);
            table.whole_number(row, column, 0);
          } catch (const bora::Error&) {
          }
        }
      }
      table.allow_columns({"case", "image", "label"});
    } catch (const bora::Error&) {
    }
  }
  return 0;
}
