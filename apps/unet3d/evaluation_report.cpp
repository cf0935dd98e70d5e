// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <iomanip>
#include <sstream>

#include "apps/unet3d/evaluation.hpp"
#include "apps/unet3d/regions.hpp"
#include "data/atomic_file.hpp"
#include "data/csv.hpp"

namespace bora::unet3d {
namespace {

/// A number of a score: its column, its unit, its value.
struct Column {
  const char* name;
  const char* unit;
  double (*value)(const Score&);
};
constexpr Column kColumns[] = {
    {"mae", "m/s", [](const Score& s) { return s.sums.mae(); }},
    {"rmse", "m/s", [](const Score& s) { return s.sums.rmse(); }},
    {"relative_l2", "1", [](const Score& s) { return s.sums.relative_l2(); }},
    {"mre", "1", [](const Score& s) { return s.sums.mre(); }},
    {"nrmse", "1", [](const Score& s) { return s.sums.nrmse(); }},
    {"hit_rate", "1", [](const Score& s) { return s.sums.hit_rate(); }},
    {"r2", "1", [](const Score& s) { return s.sums.r2(); }},
    {"max_error", "m/s", [](const Score& s) { return s.sums.max_abs; }},
    {"mae_normalised", "sigma", [](const Score& s) { return s.mae_normalised(); }},
    {"rmse_normalised", "sigma", [](const Score& s) { return s.rmse_normalised(); }},
    {"max_error_normalised", "sigma", [](const Score& s) { return s.max_normalised; }}};

}  // namespace

void write_scores(const std::string& path, const std::vector<Score>& scores) {
  std::vector<std::string> columns{"case", "predictor", "region", "cells"};
  for (const Column& c : kColumns) columns.emplace_back(c.name);
  data::CsvWriter csv(path, columns);
  for (const Score& s : scores) {
    std::vector<data::CsvCell> row{s.case_name, s.predictor, s.region,
                                   static_cast<int64_t>(s.sums.count)};
    for (const Column& c : kColumns) row.emplace_back(c.value(s));
    csv.row(row);
  }
  csv.close();
}

void write_scores_json(const std::string& path, const data::JsonRecord& settings,
                       const Evaluation& evaluation) {
  data::JsonRecord units{{"cells", "1"}}, wall;
  for (const Column& c : kColumns) units.emplace_back(c.name, c.unit);
  std::string text = "{\n\"settings\": " + data::json_line(settings) +
                     ",\n\"units\": " + data::json_line(units) + ",\n\"scores\": [\n";
  for (size_t i = 0; i < evaluation.scores.size(); ++i) {
    const Score& s = evaluation.scores[i];
    data::JsonRecord row{{"case", s.case_name},
                         {"predictor", s.predictor},
                         {"region", s.region},
                         {"cells", static_cast<int64_t>(s.sums.count)}};
    for (const Column& c : kColumns) row.emplace_back(c.name, c.value(s));
    text += data::json_line(row) + (i + 1 < evaluation.scores.size() ? ",\n" : "\n");
  }
  for (size_t i = 0; i < evaluation.names.size(); ++i)
    wall.emplace_back(evaluation.names[i], evaluation.seconds[i]);
  text += "],\n\"wall_s\": " + data::json_line(wall) + "\n}\n";
  data::write_file_atomic(path, text);
}

std::string score_table(const std::vector<Score>& scores) {
  std::ostringstream out;
  out << std::left << std::setw(14) << "predictor" << std::setw(10) << "region" << std::right
      << std::setw(13) << "relative L2" << std::setw(12) << "RMSE m/s" << std::setw(12) << "MAE m/s"
      << std::setw(9) << "R^2" << '\n';
  for (const char* region : kRegionNames)
    for (const Score& s : scores) {
      if (s.case_name != "pooled" || s.region != region) continue;
      out << std::left << std::setw(14) << s.predictor << std::setw(10) << s.region << std::right
          << std::fixed << std::setprecision(4) << std::setw(13) << s.sums.relative_l2()
          << std::setw(12) << s.sums.rmse() << std::setw(12) << s.sums.mae() << std::setprecision(3)
          << std::setw(9) << s.sums.r2() << '\n';
    }
  return out.str();
}

std::vector<std::pair<std::string, int64_t>> telling_cases(const Evaluation& evaluation) {
  std::vector<std::pair<double, int64_t>> errors;  // of the cases that have one
  for (size_t i = 0; i < evaluation.names.size(); ++i)
    for (const Score& s : evaluation.scores)
      if (s.case_name == evaluation.names[i] && s.predictor == "unet3d" &&
          s.region == kRegionNames[0] && std::isfinite(s.sums.relative_l2()))
        errors.emplace_back(s.sums.relative_l2(), static_cast<int64_t>(i));
  std::sort(errors.begin(), errors.end());
  std::vector<std::pair<std::string, int64_t>> out;
  if (!errors.empty()) out.emplace_back("best", errors.front().second);
  if (errors.size() > 2) out.emplace_back("median", errors[errors.size() / 2].second);
  if (errors.size() > 1) out.emplace_back("worst", errors.back().second);
  return out;
}

}  // namespace bora::unet3d
