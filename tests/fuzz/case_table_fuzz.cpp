// SPDX-License-Identifier: Apache-2.0
// Any bytes as a list of cases and as a manifest: an Error, or rows that are as wide as the header
// and whose cells can be asked for; nothing else.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "data/case_table.hpp"
#include "tests/fuzz/named_error.hpp"

using bora::fuzz::try_to;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  for (const char* path : {"cases.csv", "cases.txt"}) {
    try_to(path, [&] {
      const bora::data::CaseTable table = bora::data::parse_case_table(text, path);
      if (table.rows.empty()) std::abort();
      int64_t line = 0;
      for (const bora::data::CaseRow& row : table.rows) {
        if (row.cells.size() != table.columns.size() || row.line <= line) std::abort();
        line = row.line;
        for (const auto& column : table.columns) {
          table.cell(row, column);
          table.file(row, column);
          try_to(path, [&] { table.number(row, column, 0); });
          try_to(path, [&] { table.whole_number(row, column, 0); });
        }
      }
      table.allow_columns({"case", "image", "label"});
    });
  }
  return 0;
}
