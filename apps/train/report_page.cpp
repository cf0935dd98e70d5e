// SPDX-License-Identifier: Apache-2.0
// The frame of the page, its head, and what stands there as it is: pictures, settings.
#include "apps/train/report_page.hpp"

#include <algorithm>
#include <cmath>

#include "apps/common/progress.hpp"
#include "apps/common/text.hpp"
#include "apps/common/usage.hpp"
#include "apps/train/report_style.hpp"
#include "core/error.hpp"

namespace bora::train {

using apps::brief;
using bora::detail::join;
using report::shown;
using report::value;
using Row = data::JsonRecord;

double report::value(const Row* row, std::string_view key) {
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  return row == nullptr ? kNan : number_of(*row, key).value_or(kNan);
}

std::string report::shown(double number) {
  if (std::isfinite(number) && number == std::round(number) && std::abs(number) < 1e15)
    return apps::fixed(number, 0);
  return brief(number);
}

std::string report::base64(const std::string& bytes) {
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

ReportPage::ReportPage(const RunLog& log, const ReportInput& input)
    : log_(log),
      input_(input),
      sessions_(log.sessions()),
      train_(log.of("train")),
      validations_(log.of("validation")) {
  for (const Row* row : log.of("score")) {
    const Label label{text_of(*row, "key"), text_of(*row, "label"), text_of(*row, "unit")};
    const auto same = [&](const Label& l) { return l.key == label.key; };
    if (std::none_of(scores_.begin(), scores_.end(), same)) scores_.push_back(label);
  }
}

std::string ReportPage::html() {
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

void ReportPage::section(const std::string& id, const std::string& name) {
  out_ << "<h2 id=\"" << id << "\">" << html_text(name) << "</h2>\n";
}

double ReportPage::total_seconds() const {
  double sum = 0;
  for (const RunLog::Session& s : sessions_) sum += s.seconds;
  return sum;
}

void ReportPage::head() {
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
    for (std::string line; std::getline(lines, line);) out_ << "<p>" << html_text(line) << "</p>\n";
  }
  out_ << "<p class=\"soft\">Page written " << html_text(input_.written) << "</p>\n";
}

void ReportPage::tile(const std::string& name, const std::string& figure, const std::string& more) {
  out_ << "<div><dt>" << html_text(name) << "</dt><dd>" << html_text(figure)
       << (more.empty() ? "" : "<small>" + html_text(more) + "</small>") << "</dd></div>\n";
}

void ReportPage::tiles() {
  out_ << "<dl class=\"tiles\">\n";
  const Row* best = nullptr;
  double least = HUGE_VAL;
  for (const Row* row : validations_) {
    if (value(row, "best") == 1) best = row;
    least = std::fmin(least, value(row, "loss"));
  }
  if (best != nullptr) {
    const std::string when = "after epoch " + shown(value(best, "epoch"));
    // A task may judge by a score (Task::judge): then it need not be the smallest.
    tile(value(best, "loss") > least ? "validation loss of best.h5" : "best validation loss",
         brief(value(best, "loss")), when);
    for (const Label& s : scores_)
      if (number_of(*best, s.key))
        tile("validation " + s.label,
             brief(value(best, s.key)) + (s.unit.empty() ? "" : " " + s.unit), when);
  }
  if (!train_.empty()) {
    const Row* last = train_.back();
    tile("last training loss", brief(value(last, "loss")),
         "update " + shown(value(last, "update")));
    const double all = value(start(), "updates");
    if (std::isfinite(all))
      tile("updates", shown(value(last, "update")) + " of " + shown(all),
           "epochs begun: " + shown(value(last, "epoch") + 1) + " of " +
               shown(value(start(), "epochs")));
  }
  if (!log_.rows().empty())
    tile("time", apps::duration_text(total_seconds()),
         sessions_.size() > 1 ? join("in ", sessions_.size(), " parts") : std::string());
  // Of all parts that have an end: the last one may have had nothing left to do.
  double samples = 0, seconds = 0, rank = 0, host = 0, device = 0;
  for (const RunLog::Session& s : sessions_) {
    if (s.end == nullptr) continue;
    const auto of = [&](const char* key) { return number_of(*s.end, key).value_or(0); };
    if (of("samples") > 0) samples += of("samples"), seconds += of("wall_s");
    rank = std::max(rank, of("peak_rank_bytes"));
    host = std::max(host, of("peak_host_bytes"));
    device = std::max(device, of("peak_device_bytes"));
  }
  if (seconds > 0)
    tile("samples/s", brief(samples / seconds), "start to end, validation and saving included");
  else if (!train_.empty())
    tile("samples/s", brief(value(train_.back(), "samples_per_s")), "training steps, lately");
  const auto bytes = [](double n) { return apps::bytes_text(static_cast<int64_t>(n)); };
  if (rank > 0)
    tile("peak memory", bytes(rank),
         "of a rank; " + bytes(host) + " of a host" +
             (device > 0 ? "; " + bytes(device) + " on the device" : ""));
  energy_tile();
  out_ << "</dl>\n";
}

void ReportPage::energy_tile() {
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
  tile("energy", apps::energy_text(joules),
       std::string(all ? "" : "of what was counted; ") +
           (std::isfinite(a_sample) ? brief(a_sample) + " J a sample" : ""));
}

void ReportPage::pictures() {
  if (input_.pictures.empty()) return;
  section("pictures", "Pictures");
  for (const ReportPicture& p : input_.pictures) {
    out_ << "<figure><figcaption>" << html_text(p.title) << "</figcaption>";
    if (p.png.empty())
      out_ << "<p class=\"soft\">The picture is not in the run's folder, or is too large.</p>";
    else
      out_ << "<img alt=\"" << html_text(p.title) << "\" src=\"data:image/png;base64,"
           << report::base64(p.png) << "\">";
    out_ << "</figure>\n";
  }
}

void ReportPage::settings() {
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

std::string report_html(const RunLog& log, const ReportInput& input) {
  return ReportPage(log, input).html();
}

}  // namespace bora::train
