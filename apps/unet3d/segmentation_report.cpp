// SPDX-License-Identifier: Apache-2.0
// The tables of a segmentation's evaluation.
#include <algorithm>
#include <cmath>
#include <iomanip>
#include <limits>
#include <sstream>

#include "apps/common/text.hpp"
#include "apps/unet3d/segmentation_evaluation.hpp"
#include "data/atomic_file.hpp"
#include "data/csv.hpp"

namespace bora::unet3d {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

/// Without a policy of their own: NaN where there is nothing to divide by.
double precision_of(const ClassCounts& c, EmptyClass) { return precision(c); }
double recall_of(const ClassCounts& c, EmptyClass) { return recall(c); }

using Formula = double (*)(const ClassCounts&, EmptyClass);
struct Column {
  const char* name;
  Formula value;
};
constexpr Column kScores[] = {
    {"dice", dice}, {"iou", iou}, {"precision", precision_of}, {"recall", recall_of}};

/// One line of the table; cells below 0 are not told.
struct Row {
  std::string of, number, name;  // case, class, its name
  int64_t truth = -1, predicted = -1;
  std::vector<double> scores{};
  double mm3 = kNaN, predicted_mm3 = kNaN;
};

Row row_of(const SegmentationScores& s, const ScoredVolume& scored, size_t k) {
  const ClassCounts& c = scored.counts.at(k);
  Row row{.of = scored.name,
          .number = std::to_string(k),
          .name = s.classes[k],
          .truth = c.truth,
          .predicted = c.predicted,
          .scores = {},
          .mm3 = static_cast<double>(c.truth) * scored.cell_mm3,
          .predicted_mm3 = static_cast<double>(c.predicted) * scored.cell_mm3};
  for (const Column& column : kScores) row.scores.push_back(column.value(c, s.empty));
  return row;
}

std::vector<Row> rows_of(const SegmentationScores& s) {
  std::vector<Row> rows;
  for (const ScoredVolume& scored : s.cases)
    for (size_t k = 0; k < s.classes.size(); ++k) rows.push_back(row_of(s, scored, k));
  for (size_t k = 0; k < s.classes.size(); ++k) {
    Row row{.of = "pooled", .number = std::to_string(k), .name = s.classes[k]};
    const ClassCounts all = s.pooled(k);
    row.truth = all.truth;
    row.predicted = all.predicted;
    row.mm3 = row.predicted_mm3 = 0;
    for (const ScoredVolume& scored : s.cases) {
      row.mm3 += static_cast<double>(scored.counts[k].truth) * scored.cell_mm3;
      row.predicted_mm3 += static_cast<double>(scored.counts[k].predicted) * scored.cell_mm3;
    }
    for (const Column& column : kScores) row.scores.push_back(column.value(all, s.empty));
    rows.push_back(std::move(row));
  }
  for (size_t k = 0; k < s.classes.size(); ++k) {
    rows.push_back({.of = "mean", .number = std::to_string(k), .name = s.classes[k]});
    for (const Column& column : kScores) rows.back().scores.push_back(s.mean(k, column.value));
  }
  rows.push_back({.of = "pooled", .number = "foreground", .name = ""});
  for (const Column& column : kScores)
    rows.back().scores.push_back(s.foreground_pooled(column.value));
  rows.push_back({.of = "mean", .number = "foreground", .name = ""});
  for (const Column& column : kScores)
    rows.back().scores.push_back(s.foreground_mean(column.value));
  return rows;
}

std::string shown(double value, int digits) {
  return std::isnan(value) ? "-" : apps::fixed(value, digits);
}

}  // namespace

void write_class_scores(const std::string& path, const SegmentationScores& scores) {
  std::vector<std::string> columns{"case", "class", "name", "voxels", "voxels_predicted"};
  for (const Column& c : kScores) columns.emplace_back(c.name);
  columns.insert(columns.end(), {"volume_mm3", "volume_predicted_mm3"});
  data::CsvWriter csv(path, columns);
  for (const Row& row : rows_of(scores)) {
    const auto count = [](int64_t n) { return n < 0 ? data::CsvCell("") : data::CsvCell(n); };
    std::vector<data::CsvCell> cells{row.of, row.number, row.name, count(row.truth),
                                     count(row.predicted)};
    for (const double s : row.scores) cells.emplace_back(s);
    cells.emplace_back(row.mm3);
    cells.emplace_back(row.predicted_mm3);
    csv.row(cells);
  }
  csv.close();
}

void write_class_scores_json(const std::string& path, const data::JsonRecord& settings,
                             const SegmentationScores& scores) {
  data::JsonRecord units{{"voxels", "1"}, {"voxels_predicted", "1"}}, wall;
  for (const Column& c : kScores) units.emplace_back(c.name, "1");
  units.emplace_back("volume_mm3", "mm^3");
  units.emplace_back("volume_predicted_mm3", "mm^3");
  std::string text = "{\n\"settings\": " + data::json_line(settings) +
                     ",\n\"units\": " + data::json_line(units) + ",\n\"scores\": [\n";
  const std::vector<Row> rows = rows_of(scores);
  for (size_t i = 0; i < rows.size(); ++i) {
    const Row& r = rows[i];
    data::JsonRecord record{{"case", r.of}, {"class", r.number}, {"name", r.name}};
    if (r.truth >= 0) {
      record.emplace_back("voxels", r.truth);
      record.emplace_back("voxels_predicted", r.predicted);
    }
    for (size_t c = 0; c < r.scores.size(); ++c) record.emplace_back(kScores[c].name, r.scores[c]);
    record.emplace_back("volume_mm3", r.mm3);
    record.emplace_back("volume_predicted_mm3", r.predicted_mm3);
    text += data::json_line(record) + (i + 1 < rows.size() ? ",\n" : "\n");
  }
  for (const ScoredVolume& c : scores.cases) wall.emplace_back(c.name, c.seconds);
  data::write_file_atomic(path, text + "],\n\"wall_s\": " + data::json_line(wall) + "\n}\n");
}

std::string class_table(const SegmentationScores& s) {
  size_t width = 12;
  for (const std::string& name : s.classes) width = std::max(width, name.size() + 6);
  std::ostringstream out;
  out << std::left << std::setw(static_cast<int>(width)) << "class" << std::right << std::setw(10)
      << "mean Dice" << std::setw(13) << "pooled Dice" << std::setw(9) << "IoU" << std::setw(11)
      << "precision" << std::setw(9) << "recall" << std::setw(13) << "cm3 truth" << std::setw(11)
      << "predicted" << '\n';
  const auto line = [&](const std::string& name, double mean, const std::vector<double>& pooled,
                        double mm3, double predicted_mm3) {
    out << std::left << std::setw(static_cast<int>(width)) << name << std::right << std::setw(10)
        << shown(mean, 4) << std::setw(13) << shown(pooled[0], 4) << std::setw(9)
        << shown(pooled[1], 4) << std::setw(11) << shown(pooled[2], 4) << std::setw(9)
        << shown(pooled[3], 4) << std::setw(13) << shown(mm3 / 1000, 2) << std::setw(11)
        << shown(predicted_mm3 / 1000, 2) << '\n';
  };
  for (const Row& row : rows_of(s)) {
    if (row.of != "pooled" || row.number == "0") continue;
    const bool all = row.number == "foreground";
    if (all && s.classes.size() == 2) continue;
    line(all ? "foreground" : row.number + " " + row.name,
         all ? s.foreground_mean(dice) : s.mean(std::stoul(row.number), dice), row.scores, row.mm3,
         row.predicted_mm3);
  }
  return out.str();
}

}  // namespace bora::unet3d
