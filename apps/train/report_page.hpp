// SPDX-License-Identifier: Apache-2.0
// The sections of report.html.  Inside the report; programs use report.hpp.
#pragma once

#include <limits>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "apps/train/report.hpp"
#include "apps/train/report_chart.hpp"

namespace bora::train {

class ReportPage {
 public:
  ReportPage(const RunLog& log, const ReportInput& input);
  std::string html();

 private:
  using Rows = std::vector<const data::JsonRecord*>;
  /// A score's key in the log, and what people call it.
  struct Label {
    std::string key, label, unit;
  };

  // Each writes one section.
  void head();
  void tiles();
  void curves();
  void pictures();
  void cases();
  void warnings();
  void machine();
  void checkpoints();
  void settings();

  void section(const std::string& id, const std::string& name);
  void tile(const std::string& name, const std::string& figure, const std::string& more = {});
  void energy_tile();
  void chart(const std::string& title, const std::string& y_label, std::vector<Series> series,
             bool log_y = false, bool from_zero = false);
  void epochs();
  double total_seconds() const;
  const data::JsonRecord* start() const { return log_.last("start"); }

  const RunLog& log_;
  const ReportInput& input_;
  std::vector<RunLog::Session> sessions_;
  Rows train_, validations_;
  std::vector<Label> scores_;
  std::ostringstream out_;
};

namespace report {

/// Of a row that may be missing; NaN where there is no number.
double value(const data::JsonRecord* row, std::string_view key);
/// Whole numbers whole, others with four digits.
std::string shown(double number);
std::string base64(const std::string& bytes);

}  // namespace report
}  // namespace bora::train
