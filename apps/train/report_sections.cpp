// SPDX-License-Identifier: Apache-2.0
// The sections that the log fills: curves and tables.
#include <algorithm>
#include <array>
#include <cmath>
#include <map>

#include "apps/common/progress.hpp"
#include "apps/common/text.hpp"
#include "apps/train/report_page.hpp"
#include "core/error.hpp"

namespace bora::train {

using apps::brief;
using bora::detail::join;
using report::shown;
using report::value;
using Row = data::JsonRecord;

namespace {

using Rows = std::vector<const Row*>;

constexpr size_t kMostSeries = 6, kMostWarnings = 100;

/// Parts of the loss: what training rows hold beside what every training has.
std::vector<std::string> part_names(const Rows& train) {
  static constexpr std::array kCommon{
      "kind",          "update",         "epoch",           "lr",
      "gradient_norm", "clip_factor",    "loss_scale",      "skipped",
      "samples_per_s", "step_s",         "data_wait_share", "comm_wait_share",
      "slowest_rank",  "slowest_rank_s", "median_rank_s",   "seconds",
      "loss"};
  std::vector<std::string> names;
  if (train.empty()) return names;
  for (const auto& [key, unused] : *train.back())
    if (std::find(kCommon.begin(), kCommon.end(), key) == kCommon.end() &&
        number_of(*train.back(), key))
      names.push_back(key);
  return names;
}

Series series_of(const Rows& rows, const std::string& key, const std::string& label,
                 double factor = 1) {
  Series series{.label = label, .points = {}, .dots = false};
  for (const Row* row : rows)
    if (const std::optional<double> y = number_of(*row, key))
      series.points.emplace_back(value(row, "update"), factor * *y);
  return series;
}

std::string shown_score(double v) {
  if (!std::isfinite(v)) return brief(v);
  return std::abs(v) >= 1e-3 && std::abs(v) < 1e4 ? apps::fixed(v, 4) : brief(v);
}

}  // namespace

void ReportPage::chart(const std::string& title, const std::string& y_label,
                       std::vector<Series> series, bool log_y, bool from_zero) {
  std::erase_if(series, [](const Series& s) { return s.points.empty(); });
  if (series.size() > kMostSeries) series.resize(kMostSeries);
  Chart c{.title = title,
          .x_label = "update",
          .y_label = y_label,
          .log_y = log_y,
          .from_zero = from_zero,
          .series = std::move(series),
          .marks = {}};
  for (size_t i = 1; i < sessions_.size(); ++i)
    if (sessions_[i].start != nullptr) c.marks.push_back(value(sessions_[i].start, "update"));
  const std::string svg = chart_svg(c);
  if (!svg.empty()) out_ << "<div>" << svg << "</div>\n";
}

void ReportPage::curves() {
  section("curves", "Curves");
  if (train_.empty() && validations_.empty()) {
    out_ << "<p class=\"soft\">No update is logged yet.</p>\n";
    return;
  }
  out_ << "<div class=\"charts\">\n";
  Series validation = series_of(validations_, "loss", "validation");
  validation.dots = true;
  const std::vector<Series> losses{series_of(train_, "loss", "training"), validation};
  chart("Loss", "", losses, wants_log(losses));
  const std::vector<std::string> parts = part_names(train_);
  if (parts.size() > 1) {
    std::vector<Series> series;
    for (const std::string& name : parts) series.push_back(series_of(train_, name, name));
    chart("Parts of the training loss", "", series, wants_log(series));
  }
  std::map<std::string, std::vector<Series>> by_unit;
  for (const Label& s : scores_) {
    by_unit[s.unit].push_back(series_of(validations_, s.key, s.label));
    by_unit[s.unit].back().dots = true;
  }
  for (const auto& [unit, series] : by_unit) {
    std::string names;
    for (const Series& s : series) names += (names.empty() ? "" : ", ") + s.label;
    chart("Validation: " + names, unit, series, wants_log(series), true);
  }
  chart("Learning rate", "", {series_of(train_, "lr", "lr")}, false, true);
  const std::vector<Series> norm{series_of(train_, "gradient_norm", "norm")};
  chart("Gradient norm, before clipping", "", norm, wants_log(norm), true);
  chart("Throughput", "samples/s", {series_of(train_, "samples_per_s", "samples/s")}, false, true);
  std::vector<Series> waits{series_of(train_, "data_wait_share", "for samples", 100)};
  if (value(start(), "ranks") > 1)
    waits.push_back(series_of(train_, "comm_wait_share", "for other ranks", 100));
  chart("Waiting in a step", "% of its time", waits, false, true);
  epochs();
  out_ << "</div>\n";
}

void ReportPage::epochs() {
  const Rows rows = log_.of("epoch");
  if (rows.empty()) return;
  std::vector<Series> series{series_of(rows, "compute_s", "computing"),
                             series_of(rows, "data_wait_s", "waiting for samples"),
                             series_of(rows, "validation_s", "validation")};
  for (Series& s : series) s.dots = true;
  chart("Time of an epoch", "s", series, false, true);
}

void ReportPage::cases() {
  Rows rows = log_.of("case");
  if (rows.empty()) return;
  const double update = value(rows.back(), "update");
  std::erase_if(rows, [&](const Row* row) { return value(row, "update") != update; });
  std::stable_sort(rows.begin(), rows.end(),
                   [](const Row* a, const Row* b) { return value(a, "loss") > value(b, "loss"); });
  std::vector<Label> columns{{"loss", "loss", ""}};
  columns.insert(columns.end(), scores_.begin(), scores_.end());
  section("cases", "Validation cases");
  out_ << "<p>After epoch " << shown(value(rows.back(), "epoch")) << " (update " << shown(update)
       << "), the hardest first";
  const double all = value(start(), "validation_samples");
  if (all > static_cast<double>(rows.size()))
    out_ << "; the " << rows.size() << " hardest of " << shown(all);
  out_ << ". A click on a column's name sorts by it.</p>\n<div class=\"tall\"><table "
       << "class=\"sortable\"><thead><tr><th scope=\"col\">case</th>";
  for (const Label& c : columns)
    out_ << "<th scope=\"col\" class=\"n\">"
         << html_text((c.unit.empty() ? c.label : c.label + " (" + c.unit + ")")) << "</th>";
  out_ << "</tr></thead><tbody>\n";
  for (const Row* row : rows) {
    out_ << "<tr><td>" << html_text(text_of(*row, "case")) << "</td>";
    for (const Label& c : columns) {
      const double v = value(row, c.key);
      out_ << "<td class=\"n\" data-v=\"" << join(v) << "\">" << shown_score(v) << "</td>";
    }
    out_ << "</tr>\n";
  }
  out_ << "</tbody></table></div>\n";
}

void ReportPage::warnings() {
  const Rows rows = log_.of("warning");
  const Rows skipped = log_.of("skipped");
  section("warnings", "Warnings");
  if (rows.empty() && skipped.empty()) out_ << "<p>None.</p>\n";
  if (!skipped.empty())
    out_ << "<p>" << skipped.size() << (skipped.size() == 1 ? " update was" : " updates were")
         << " skipped, since gradients overflowed in 16 bits.</p>\n";
  if (rows.empty()) return;
  out_ << "<ul class=\"warnings\">\n";
  for (size_t i = rows.size() - std::min(rows.size(), kMostWarnings); i < rows.size(); ++i)
    out_ << "<li>" << html_text(text_of(*rows[i], "text")) << " <span class=\"soft\">(update "
         << shown(value(rows[i], "update")) << ")</span></li>\n";
  out_ << "</ul>\n";
  if (rows.size() > kMostWarnings)
    out_ << "<p class=\"soft\">The last " << kMostWarnings << " of " << rows.size() << ".</p>\n";
}

void ReportPage::machine() {
  if (start() == nullptr) return;
  section("machine", "Where and when it ran");
  out_ << "<div class=\"wide\"><table><thead><tr>";
  for (const char* name :
       {"began", "from update", "took", "ranks", "hosts", "device", "build", "ended"})
    out_ << "<th scope=\"col\">" << name << "</th>";
  out_ << "</tr></thead><tbody>\n";
  for (const RunLog::Session& s : sessions_) {
    if (s.start == nullptr) continue;
    const Row& row = *s.start;
    const std::string cells[] = {
        text_of(row, "time"),
        shown(value(s.start, "update")),
        apps::duration_text(s.seconds),
        shown(value(s.start, "ranks")) + " x " + shown(value(s.start, "threads")) + " threads",
        shown(value(s.start, "hosts")) + ": " + text_of(row, "host_names"),
        text_of(row, "device"),
        text_of(row, "build"),
        s.end == nullptr ? "not in the log" : text_of(*s.end, "reason")};
    out_ << "<tr>";
    for (const std::string& cell : cells) out_ << "<td>" << html_text(cell) << "</td>";
    out_ << "</tr>\n";
  }
  out_ << "</tbody></table></div>\n";
  const Row* end = log_.last("end");
  if (end != nullptr && number_of(*end, "watch_s"))
    out_ << "<p class=\"soft\">Of the last part's time logging took "
         << brief(100 * value(end, "watch_s") / value(end, "wall_s"))
         << " %, the pictures' predictions "
         << brief(100 * value(end, "pictures_s") / value(end, "wall_s")) << " %.</p>\n";
  if (end != nullptr && text_of(*end, "energy") == "not readable")
    out_ << "<p class=\"soft\">The platform counts energy, but not for this user.</p>\n";
}

void ReportPage::checkpoints() {
  const Rows rows = log_.of("checkpoint");
  if (rows.empty()) return;
  double sum = 0, longest = 0;
  for (const Row* row : rows) {
    const double s = number_of(*row, "save_s").value_or(0);
    sum += s;
    longest = std::max(longest, s);
  }
  section("checkpoints", "Checkpoints");
  out_ << "<p>" << rows.size() << " saved; training waited " << brief(sum) << " s for them";
  if (total_seconds() > 0) out_ << " (" << brief(100 * sum / total_seconds()) << " % of the time)";
  out_ << ", " << brief(longest)
       << " s at most. The last: " << html_text(text_of(*rows.back(), "file")) << " at update "
       << shown(value(rows.back(), "update")) << ".</p>\n";
}

}  // namespace bora::train
