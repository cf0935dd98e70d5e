// SPDX-License-Identifier: Apache-2.0
// The page: what stands in report.html, from the rows of the log.
#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <sstream>

#include "apps/common/progress.hpp"
#include "apps/common/text.hpp"
#include "apps/common/usage.hpp"
#include "apps/train/report.hpp"
#include "apps/train/report_chart.hpp"
#include "apps/train/report_style.hpp"

namespace bora::train {
namespace {

using apps::brief;
using bora::detail::join;
using Row = data::JsonRecord;
using Rows = std::vector<const Row*>;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr size_t kMostSeries = 6, kMostWarnings = 100;

double value(const Row* row, std::string_view key) {
  return row == nullptr ? kNan : number_of(*row, key).value_or(kNan);
}

std::string shown(double number) {
  if (std::isfinite(number) && number == std::round(number) && std::abs(number) < 1e15)
    return apps::fixed(number, 0);
  return brief(number);
}

/// A score's name in the log, and what people call it.
struct Label {
  std::string key, label, unit;
  std::string text() const { return unit.empty() ? label : label + " (" + unit + ")"; }
};

std::vector<Label> score_labels(const RunLog& log) {
  std::vector<Label> labels;
  for (const Row* row : log.of("score")) {
    const Label label{text_of(*row, "key"), text_of(*row, "label"), text_of(*row, "unit")};
    const auto same = [&](const Label& l) { return l.key == label.key; };
    if (std::none_of(labels.begin(), labels.end(), same)) labels.push_back(label);
  }
  return labels;
}

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

std::string tile(const std::string& name, const std::string& figure, const std::string& more = {}) {
  return "<div><dt>" + html_text(name) + "</dt><dd>" + html_text(figure) +
         (more.empty() ? "" : "<small>" + html_text(more) + "</small>") + "</dd></div>\n";
}

class Page {
 public:
  Page(const RunLog& log, const ReportInput& input)
      : log_(log),
        input_(input),
        sessions_(log.sessions()),
        train_(log.of("train")),
        validations_(log.of("validation")),
        scores_(score_labels(log)) {}

  std::string html() {
    const std::string title = html_text("Training run " + input_.name);
    out_ << "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
         << "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; "
         << "img-src data:; style-src 'unsafe-inline'; script-src 'unsafe-inline'\">\n"
         << "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
         << "<link rel=\"icon\" href=\"data:,\">\n<title>" << title << "</title>\n<style>"
         << kReportStyle << "</style>\n</head>\n<body>\n<h1>" << title << "</h1>\n";
    head();
    tiles();
    curves();
    pictures();
    cases();
    warnings();
    machine();
    checkpoints();
    settings();
    out_ << "<script>" << kReportScript << "</script>\n</body>\n</html>\n";
    return out_.str();
  }

 private:
  void section(const std::string& id, const std::string& name) {
    out_ << "<h2 id=\"" << id << "\">" << html_text(name) << "</h2>\n";
  }

  double total_seconds() const {
    double sum = 0;
    for (const RunLog::Session& s : sessions_) sum += s.seconds;
    return sum;
  }

  const Row* start() const { return log_.last("start"); }

  void head() {
    std::string state;
    bool bad = false;
    const Row* end = sessions_.empty() ? nullptr : sessions_.back().end;
    if (end != nullptr) {
      state = text_of(*end, "reason");
      bad = state.starts_with("failed");
    } else if (log_.rows().empty()) {
      state = "nothing is logged yet";
    } else {
      state = "no end in the log yet: the run goes on, or it was killed";
    }
    out_ << "<p" << (bad ? " class=\"bad\"" : "") << "><strong id=\"state\">" << html_text(state)
         << "</strong></p>\n";
    if (start() != nullptr && !text_of(*start(), "description").empty()) {
      std::istringstream lines(text_of(*start(), "description"));
      for (std::string line; std::getline(lines, line);)
        out_ << "<p>" << html_text(line) << "</p>\n";
    }
    out_ << "<p class=\"soft\">Page written " << html_text(input_.written) << "</p>\n";
  }

  void tiles() {
    out_ << "<dl class=\"tiles\">\n";
    const Row* best = nullptr;
    for (const Row* row : validations_)
      if (value(row, "best") == 1) best = row;
    if (best != nullptr) {
      const std::string when = "after epoch " + shown(value(best, "epoch"));
      out_ << tile("best validation loss", brief(value(best, "loss")), when);
      for (const Label& s : scores_)
        if (number_of(*best, s.key))
          out_ << tile(s.label + " on validation cases",
                       brief(value(best, s.key)) + (s.unit.empty() ? "" : " " + s.unit), when);
    }
    if (!train_.empty()) {
      const Row* last = train_.back();
      out_ << tile("last training loss", brief(value(last, "loss")),
                   "update " + shown(value(last, "update")));
      const double all = value(start(), "updates");
      if (std::isfinite(all))
        out_ << tile("updates", shown(value(last, "update")) + " of " + shown(all),
                     "epochs begun: " + shown(value(last, "epoch") + 1) + " of " +
                         shown(value(start(), "epochs")));
    }
    if (!log_.rows().empty())
      out_ << tile("time", apps::duration_text(total_seconds()),
                   sessions_.size() > 1 ? join("in ", sessions_.size(), " parts") : std::string());
    const Row* end = log_.last("end");
    if (end != nullptr && number_of(*end, "samples_per_s"))
      out_ << tile("throughput", brief(value(end, "samples_per_s")) + " samples/s",
                   "start to end, of the last part");
    else if (!train_.empty())
      out_ << tile("throughput", brief(value(train_.back(), "samples_per_s")) + " samples/s",
                   "training steps, lately");
    if (end != nullptr && number_of(*end, "peak_rank_bytes")) {
      const double device = value(end, "peak_device_bytes");
      out_ << tile(
          "peak memory",
          apps::bytes_text(static_cast<int64_t>(value(end, "peak_rank_bytes"))) + " a rank",
          apps::bytes_text(static_cast<int64_t>(value(end, "peak_host_bytes"))) + " a host" +
              (device > 0 ? ", " + apps::bytes_text(static_cast<int64_t>(device)) + " on the device"
                          : ""));
    }
    energy_tile();
    out_ << "</dl>\n";
  }

  void energy_tile() {
    double joules = 0;
    bool any = false, all = true;
    for (const RunLog::Session& s : sessions_) {
      if (s.end == nullptr) {
        all = false;
        continue;
      }
      for (const char* key : {"energy_cpu_j", "energy_gpu_j"})
        if (const std::optional<double> j = number_of(*s.end, key)) joules += *j, any = true;
      all = all && text_of(*s.end, "energy") == "counted";
    }
    if (!any) return;
    const double a_sample = value(log_.last("end"), "energy_j_per_sample");
    out_ << tile("energy", apps::energy_text(joules),
                 std::string(all ? "" : "of what was counted; ") +
                     (std::isfinite(a_sample) ? brief(a_sample) + " J a sample" : ""));
  }

  void chart(const std::string& title, const std::string& y_label, std::vector<Series> series,
             bool log_y = false, bool from_zero = false) {
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

  void curves() {
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
    chart("Throughput", "samples/s", {series_of(train_, "samples_per_s", "samples/s")}, false,
          true);
    std::vector<Series> waits{series_of(train_, "data_wait_share", "for samples", 100)};
    if (value(start(), "ranks") > 1)
      waits.push_back(series_of(train_, "comm_wait_share", "for other ranks", 100));
    chart("Waiting in a step", "% of its time", waits, false, true);
    epochs();
    out_ << "</div>\n";
  }

  void epochs() {
    const Rows rows = log_.of("epoch");
    if (rows.empty()) return;
    std::vector<Series> series{series_of(rows, "compute_s", "computing"),
                               series_of(rows, "data_wait_s", "waiting for samples"),
                               series_of(rows, "validation_s", "validation")};
    for (Series& s : series) s.dots = true;
    chart("Time of an epoch", "s", series, false, true);
  }

  void pictures() {
    if (input_.pictures.empty()) return;
    section("pictures", "Pictures");
    for (const ReportPicture& p : input_.pictures) {
      out_ << "<figure><figcaption>" << html_text(p.title) << "</figcaption>";
      if (p.png.empty())
        out_ << "<p class=\"soft\">The picture is not in the run's folder, or is too large.</p>";
      else
        out_ << "<img alt=\"" << html_text(p.title) << "\" src=\"data:image/png;base64,"
             << base64(p.png) << "\">";
      out_ << "</figure>\n";
    }
  }

  void cases() {
    Rows rows = log_.of("case");
    if (rows.empty()) return;
    const double update = value(rows.back(), "update");
    std::erase_if(rows, [&](const Row* row) { return value(row, "update") != update; });
    std::stable_sort(rows.begin(), rows.end(), [](const Row* a, const Row* b) {
      return value(a, "loss") > value(b, "loss");
    });
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
      out_ << "<th scope=\"col\" class=\"n\">" << html_text(c.text()) << "</th>";
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

  static std::string shown_score(double v) {
    if (!std::isfinite(v)) return brief(v);
    return std::abs(v) >= 1e-3 && std::abs(v) < 1e4 ? apps::fixed(v, 4) : brief(v);
  }

  void warnings() {
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

  void machine() {
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
    if (end != nullptr && text_of(*end, "energy") == "not readable")
      out_ << "<p class=\"soft\">The platform counts energy, but not for this user.</p>\n";
  }

  void checkpoints() {
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
    if (total_seconds() > 0)
      out_ << " (" << brief(100 * sum / total_seconds()) << " % of the time)";
    out_ << ", " << brief(longest)
         << " s at most. The last: " << html_text(text_of(*rows.back(), "file")) << " at update "
         << shown(value(rows.back(), "update")) << ".</p>\n";
  }

  void settings() {
    section("settings", "Settings");
    if (input_.settings.empty()) {
      out_ << "<p class=\"soft\">There is no config.toml in the run's folder.</p>\n";
      return;
    }
    out_ << "<p class=\"soft\">config.toml of the run: <code>--config config.toml</code> makes the "
         << "same run again.</p>\n<div class=\"blocks\">\n";
    std::string block;
    const auto flush = [&] {
      while (block.ends_with('\n')) block.pop_back();
      if (!block.empty()) out_ << "<pre>" << html_text(block) << "</pre>\n";
      block.clear();
    };
    std::istringstream lines(input_.settings);
    for (std::string line; std::getline(lines, line);) {
      if (line.starts_with('[')) flush();
      block += line + '\n';
    }
    flush();
    out_ << "</div>\n";
  }

  static std::string base64(const std::string& bytes);

  const RunLog& log_;
  const ReportInput& input_;
  std::vector<RunLog::Session> sessions_;
  Rows train_, validations_;
  std::vector<Label> scores_;
  std::ostringstream out_;
};

std::string Page::base64(const std::string& bytes) {
  constexpr const char* kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  out.reserve((bytes.size() + 2) / 3 * 4);
  for (size_t i = 0; i < bytes.size(); i += 3) {
    const size_t n = std::min<size_t>(3, bytes.size() - i);
    uint32_t group = 0;
    for (size_t k = 0; k < 3; ++k)
      group = group << 8 | (k < n ? static_cast<uint8_t>(bytes[i + k]) : 0u);
    for (size_t k = 0; k < 4; ++k) out += k <= n ? kDigits[group >> (18 - 6 * k) & 63] : '=';
  }
  return out;
}

}  // namespace

std::string report_html(const RunLog& log, const ReportInput& input) {
  return Page(log, input).html();
}

}  // namespace bora::train
