// SPDX-License-Identifier: Apache-2.0
#include "data/wind_list.hpp"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <map>

#include "core/error.hpp"
#include "data/case_table.hpp"

namespace bora::data {

namespace {

namespace fs = std::filesystem;

/// The configured column if the table has it, else an empty name.
std::string column_of(const CaseTable& table, const std::string& name, const std::string& standard,
                      const char* key) {
  if (name.empty() || table.has(name)) return name;
  if (name == standard) return {};
  std::string columns;
  for (const std::string& column : table.columns) columns += (columns.empty() ? "" : ", ") + column;
  throw UsageError("'" + table.path + "' has no column '" + name + "' (data.files.columns." + key +
                   "); it has " + columns);
}

bool is_file(const std::string& path) {
  std::error_code ignored;
  return fs::is_regular_file(path, ignored);
}

bool has_no_control(const std::string& text) {
  return std::none_of(text.begin(), text.end(), [](unsigned char letter) { return letter < 32; });
}

/// One row after the other, with the columns that there are.
class ListReader {
 public:
  ListReader(const WindConfig& config, const CaseTable& table) : config_(config), table_(table) {
    const WindColumnsConfig& c = config.files.columns;
    const WindColumnsConfig standard;
    name_ = column_of(table, c.name, standard.name, "case");
    if (!table.is_manifest) name_ = "case";
    wind_ = column_of(table, c.wind, standard.wind, "wind");
    mask_ = column_of(table, c.mask, standard.mask, "mask");
    group_ = column_of(table, c.group, standard.group, "group");
    angle_ = column_of(table, c.angle, standard.angle, "angle");
    part_ = column_of(table, c.part, standard.part, "part");
    if (name_.empty() && mask_.empty())
      table.require_columns({c.name.empty() ? std::string_view(standard.name) : c.name});
  }

  /// Throws Error for what is a problem of this row alone.
  WindCase read(const CaseRow& row) const {
    const WindFilesConfig& f = config_.files;
    WindCase c;
    c.name = name_.empty() ? std::string() : table_.cell(row, name_);
    c.mask_path = mask_.empty() ? std::string() : table_.file(row, mask_);
    // A line of a list may be a path.
    if (!table_.is_manifest &&
        (c.name.find('/') != std::string::npos || c.name.ends_with(f.mask_suffix))) {
      c.mask_path = table_.file(row, "case");
      c.name.clear();
    }
    if (c.name.empty() && !c.mask_path.empty()) c.name = wind_case_name(config_, c.mask_path);
    BORA_CHECK(!c.name.empty(), "the case has no name");
    BORA_CHECK(c.name.find('/') == std::string::npos && has_no_control(c.name), "'", c.name,
               "' cannot be the name of a case (it holds '/' or a control character)");
    const auto standing = [&](const std::string& folder, const std::string& suffix) {
      return (fs::path(config_.root) / folder / (c.name + suffix)).string();
    };
    if (c.mask_path.empty()) c.mask_path = standing(f.mask_folder, f.mask_suffix);
    c.wind_path = wind_.empty() ? std::string() : table_.file(row, wind_);
    if (c.wind_path.empty()) c.wind_path = standing(f.wind_folder, f.wind_suffix);
    for (const auto& [what, path] : {std::pair{"mask", &c.mask_path}, {"wind", &c.wind_path}})
      BORA_CHECK(is_file(*path), "case '", c.name, "': there is no ", what, " file '", *path, "'");
    if (!group_.empty()) {
      c.listed_group = table_.cell(row, group_);
      BORA_CHECK(
          !c.listed_group->empty(), "case '", c.name, "': column '", group_,
          "' is empty, wanted the name of the geometry (data.files.columns.group = \"\" takes it "
          "from the name of the case)");
      BORA_CHECK(has_no_control(*c.listed_group), "case '", c.name, "': column '", group_,
                 "' holds a control character");
    }
    if (!angle_.empty()) {
      const double angle = table_.number(row, angle_, std::numeric_limits<double>::quiet_NaN());
      BORA_CHECK(
          !std::isnan(angle), "case '", c.name, "': column '", angle_,
          "' is empty, wanted degrees (data.files.columns.angle = \"\" takes them from the name of "
          "the case)");
      c.listed_angle_deg = angle;
    }
    if (!part_.empty()) {
      c.part = table_.cell(row, part_);
      BORA_CHECK(is_part(c.part), "case '", c.name, "': column '", part_, "' is '", c.part,
                 "', wanted training, validation, test or nothing (data.files.columns.part = \"\" "
                 "leaves the column alone)");
    }
    return c;
  }

 private:
  const WindConfig& config_;
  const CaseTable& table_;
  std::string name_, wind_, mask_, group_, angle_, part_;
};

}  // namespace

void read_wind_list(const WindConfig& config, WindFiles& out) {
  const CaseTable table = read_case_table((fs::path(config.root) / config.files.list).string());
  const ListReader reader(config, table);
  std::map<std::string, int64_t> line_of;
  for (const CaseRow& row : table.rows) {
    try {
      WindCase c = reader.read(row);
      const auto [known, is_new] = line_of.try_emplace(c.name, row.line);
      BORA_CHECK(is_new, "case '", c.name, "' is listed twice, first in line ", known->second);
      out.cases.push_back(std::move(c));
    } catch (const UsageError&) {
      throw;
    } catch (const Error& e) {
      out.problems.push_back(table.place(row) + ": " + e.what());
    }
  }
  std::sort(out.cases.begin(), out.cases.end(),
            [](const WindCase& a, const WindCase& b) { return a.name < b.name; });
}

}  // namespace bora::data
