// SPDX-License-Identifier: Apache-2.0
// The page of a run.  Feature rows 116, 147; tests/report/browser.sh looks at it in a browser.
#include "apps/train/report.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <limits>
#include <regex>

#include "apps/train/report_chart.hpp"
#include "data/image.hpp"
#include "tests/data/pipeline_support.hpp"

namespace bora::train {
namespace {

using data::JsonRecord;
using data::test::message_of;
using data::test::read_file;
using data::test::TempFolder;
using data::test::write_file;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

size_t count(const std::string& text, const std::string& what) {
  size_t n = 0;
  for (size_t at = text.find(what); at != text.npos; at = text.find(what, at + what.size())) ++n;
  return n;
}

/// Without the page in the message.
testing::AssertionResult has(const std::string& page, const std::string& text) {
  if (page.find(text) != std::string::npos)
    return testing::AssertionSuccess() << "the page has " << text;
  return testing::AssertionFailure() << "the page does not have " << text;
}

/// A log as the trainer writes it, of `updates` updates in two parts.
std::vector<JsonRecord> rows_of_a_run(int64_t updates) {
  std::vector<JsonRecord> rows;
  const auto start = [&](int64_t update) {
    rows.push_back({{"kind", "start"},
                    {"update", update},
                    {"epoch", update / 10},
                    {"time", "2026-01-02 03:04:05 UTC"},
                    {"build", "bora 9.9.9 (abcdef)"},
                    {"ranks", 4},
                    {"hosts", 2},
                    {"host_names", "n1, n2"},
                    {"threads", 8},
                    {"device", "cpu"},
                    {"updates", updates},
                    {"epochs", updates / 10},
                    {"validation_samples", 2},
                    {"description", "a network\nsome data"}});
  };
  start(0);
  for (int64_t u = 1; u <= updates; ++u) {
    if (u == updates / 2) start(u - 1);
    rows.push_back({{"kind", "train"},
                    {"update", u},
                    {"epoch", (u - 1) / 10},
                    {"lr", 1e-3},
                    {"gradient_norm", 0.5},
                    {"samples_per_s", 100.0},
                    {"data_wait_share", 0.25},
                    {"comm_wait_share", 0.01},
                    {"seconds", 0.5 * static_cast<double>(u)},
                    {"loss", 1.0 / static_cast<double>(u)},
                    {"smooth part", 0.1}});
    if (u % 10 != 0) continue;
    for (const char* name : {"easy", "hard"})
      rows.push_back({{"kind", "case"},
                      {"update", u},
                      {"epoch", u / 10},
                      {"case", name},
                      {"loss", name[0] == 'h' ? 0.9 : 0.125},
                      {"mae", 0.25}});
    rows.push_back({{"kind", "validation"},
                    {"update", u},
                    {"epoch", u / 10},
                    {"best", true},
                    {"loss", 1.5 / static_cast<double>(u)},
                    {"mae", 0.75}});
  }
  rows.push_back(
      {{"kind", "score"}, {"update", 0}, {"key", "mae"}, {"label", "MAE"}, {"unit", "m"}});
  return rows;
}

const ReportInput kInput{
    .name = "r1", .written = "now", .settings = "[model]\nbase = 4\n", .pictures = {}};

TEST(RunLog, FindsTheRowsAndThePartsOfARun) {
  const RunLog log(rows_of_a_run(40));
  EXPECT_EQ(log.of("train").size(), 40u);
  EXPECT_EQ(number_of(*log.last("validation"), "update"), 40);
  EXPECT_EQ(log.last("end"), nullptr);
  const auto sessions = log.sessions();
  ASSERT_EQ(sessions.size(), 2u);
  EXPECT_EQ(sessions[0].seconds, 9.5);
  EXPECT_EQ(number_of(*sessions[1].start, "update"), 19);
  const JsonRecord odd{{"a", "nan"}, {"b", "text"}, {"c", true}};
  EXPECT_TRUE(std::isnan(number_of(odd, "a").value()));
  EXPECT_FALSE(number_of(odd, "b"));
  EXPECT_EQ(number_of(odd, "c"), 1);
  EXPECT_FALSE(number_of(odd, "none"));
  EXPECT_EQ(text_of(odd, "c"), "");
  EXPECT_TRUE(RunLog(std::vector<JsonRecord>{}).sessions().empty());
}

TEST(Chart, DrawsPiecesBetweenGaps) {
  Chart chart{.title = "T <1>", .x_label = "x", .y_label = "y", .series = {}, .marks = {2.5}};
  EXPECT_EQ(chart_svg(chart), "");
  chart.series = {{"a", {{0, kNan}}, false}};
  EXPECT_EQ(chart_svg(chart), "") << "nothing that can be drawn";
  chart.series = {{"a", {{1, 1}, {2, 2}, {3, kNan}, {4, 4}, {5, 5}, {6, 6}}, false}};
  const std::string svg = chart_svg(chart);
  EXPECT_EQ(count(svg, "<path"), 2u);
  EXPECT_EQ(count(svg, "class=\"mark\""), 1u);
  EXPECT_THAT(svg, HasSubstr("T &lt;1&gt;"));
  EXPECT_THAT(svg, Not(HasSubstr("nan")));
  // The y axis is upside down: a value twice as high stands higher.  Line: (1,1) to (2,2).
  std::smatch m;
  ASSERT_TRUE(
      std::regex_search(svg, m, std::regex("d=\"M([0-9.]+),([0-9.]+)L([0-9.]+),([0-9.]+)\"")));
  EXPECT_LT(std::stod(m[1]), std::stod(m[3]));
  EXPECT_GT(std::stod(m[2]), std::stod(m[4]));
}

TEST(Chart, PlacesDecadesEvenlyOnALogAxis) {
  Chart chart{.title = "t", .x_label = "", .y_label = "", .log_y = true, .series = {}, .marks = {}};
  chart.series = {{"a", {{0, 1}, {1, 10}, {2, 100}, {3, 0}, {4, -5}}, true}};
  const std::string svg = chart_svg(chart);
  std::vector<double> heights;
  const std::regex dot("cy=\"([0-9.]+)\"");
  for (auto it = std::sregex_iterator(svg.begin(), svg.end(), dot); it != std::sregex_iterator();
       ++it)
    heights.push_back(std::stod((*it)[1]));
  ASSERT_EQ(heights.size(), 3u) << "what a log axis cannot show is left out";
  EXPECT_NEAR(heights[0] - heights[1], heights[1] - heights[2], 0.11);  // of two rounded to 0.1
  EXPECT_TRUE(wants_log({{"a", {{0, 1}, {1, 6}}, false}}));
  EXPECT_FALSE(wants_log({{"a", {{0, 1}, {1, 4}}, false}}));
  EXPECT_FALSE(wants_log({{"a", {{0, 1}, {1, 100}, {2, 0}}, false}}));
}

TEST(Chart, OnePointAndOneValueCanBeDrawn) {
  for (const bool log : {false, true}) {
    Chart chart{
        .title = "t", .x_label = "", .y_label = "", .log_y = log, .series = {}, .marks = {}};
    chart.series = {{"a", {{7, 3}}, false}};
    EXPECT_THAT(chart_svg(chart),
                AllOf(HasSubstr("<circle"), Not(HasSubstr("nan")), Not(HasSubstr("inf"))));
    chart.series = {{"a", {{1, 3}, {2, 3}}, false}};
    EXPECT_THAT(chart_svg(chart),
                AllOf(HasSubstr("<path"), Not(HasSubstr("nan")), Not(HasSubstr("inf"))));
  }
  Chart zero{.title = "t",
             .x_label = "",
             .y_label = "",
             .series = {{"a", {{0, 0}, {1, 0}}, false}},
             .marks = {}};
  EXPECT_THAT(chart_svg(zero), HasSubstr("<path"));
}

TEST(Chart, ALongSeriesIsThinnedToItsMeanAndItsRange) {
  Series series{.label = "a", .points = {}};
  for (int i = 0; i < 100000; ++i) series.points.emplace_back(i, i % 2 == 0 ? 1 : 3);
  const std::string svg =
      chart_svg({.title = "t", .x_label = "", .y_label = "", .series = {series}, .marks = {}});
  EXPECT_LT(svg.size(), 40000u);
  EXPECT_EQ(count(svg, "class=\"band"), 1u);
}

// Started once more when all was done: that start trained nothing, and needed little memory.
TEST(Report, SpeedAndMemoryAreThoseOfTheWholeRun) {
  std::vector<JsonRecord> rows = rows_of_a_run(20);
  const auto part = [&](int64_t samples, double wall_s, int64_t bytes) {
    rows.push_back({{"kind", "start"}, {"update", 20}});
    rows.push_back({{"kind", "end"},
                    {"update", 20},
                    {"reason", "finished"},
                    {"samples", samples},
                    {"wall_s", wall_s},
                    {"samples_per_s", static_cast<double>(samples) / wall_s},
                    {"peak_rank_bytes", bytes}});
  };
  part(100, 10, int64_t{2} << 30);
  part(60, 10, int64_t{3} << 30);
  part(0, 2, int64_t{1} << 30);
  const std::string html = report_html(RunLog(rows), kInput);
  EXPECT_THAT(html, HasSubstr("<dt>samples/s</dt><dd>8<"));
  EXPECT_THAT(html, HasSubstr("<dt>peak memory</dt><dd>3.00 GiB<"));
}

TEST(Report, HasEverySectionOfARun) {
  std::vector<JsonRecord> rows = rows_of_a_run(40);
  rows.push_back({{"kind", "warning"}, {"update", 3}, {"text", "the disk is slow"}});
  rows.push_back({{"kind", "checkpoint"}, {"update", 40}, {"file", "last.h5"}, {"save_s", 0.25}});
  rows.push_back(
      {{"kind", "epoch"}, {"update", 40}, {"epoch", 4}, {"compute_s", 3.0}, {"data_wait_s", 1.0}});
  rows.push_back({{"kind", "end"},
                  {"update", 40},
                  {"reason", "finished"},
                  {"samples", int64_t{640}},
                  {"wall_s", 10.0},
                  {"samples_per_s", 64.0},
                  {"peak_rank_bytes", int64_t{3} << 30},
                  {"peak_host_bytes", int64_t{6} << 30},
                  {"energy", "counted"},
                  {"energy_cpu_j", 7200.0},
                  {"energy_j_per_sample", 3.5}});
  const std::string html = report_html(RunLog(rows), kInput);
  for (const char* text : {"<title>Training run r1</title>",
                           "id=\"state\">finished<",
                           "a network</p>",
                           "best validation loss",
                           "40 of 40",
                           "<dt>samples/s</dt><dd>64<",
                           "<dt>peak memory</dt><dd>3.00 GiB<small>of a rank; 6.00 GiB of a host",
                           "7.2 kJ (2 Wh)",
                           "3.5 J a sample",
                           ">Loss</text>",
                           "> (log scale)</text>",
                           "aria-label=\"Learning rate\"",
                           "aria-label=\"Gradient norm, before clipping\"",
                           "aria-label=\"Throughput\"",
                           "aria-label=\"Waiting in a step\"",
                           "for other ranks",
                           "aria-label=\"Time of an epoch\"",
                           "aria-label=\"Validation: MAE\"",
                           "the disk is slow",
                           "bora 9.9.9 (abcdef)",
                           "n1, n2",
                           "1 saved; training waited 0.25 s",
                           "base = 4"})
    EXPECT_TRUE(has(html, text));
  // In every chart where the run went on; that of the only epoch begins later.
  EXPECT_EQ(count(html, "class=\"mark\""), count(html, "<svg") - 1);
  // Only the last validation's cases, the hardest first.
  EXPECT_EQ(count(html, "<td>hard</td>"), 1u);
  EXPECT_LT(html.find("<td>hard</td>"), html.find("<td>easy</td>"));
  EXPECT_TRUE(has(html, "<th scope=\"col\" class=\"n\">MAE (m)</th>"));
}

TEST(Report, NamesFromElsewhereDoNoHarm) {
  const std::string evil = "<b>&\"'</td></table><script>alert(1)</script>";
  std::vector<JsonRecord> rows = rows_of_a_run(40);
  rows.push_back({{"kind", "case"}, {"update", 50}, {"case", evil}, {"loss", 1.0}, {evil, 2.0}});
  rows.push_back({{"kind", "warning"}, {"update", 50}, {"text", evil}});
  rows.push_back({{"kind", "score"}, {"key", "mae"}, {"label", evil}, {"unit", evil}});
  rows.push_back({{"kind", "score"}, {"key", "other"}, {"label", evil}, {"unit", evil}});
  rows.push_back({{"kind", "start"},
                  {"update", 50},
                  {"host_names", evil},
                  {"device", evil},
                  {"description", evil}});
  rows.push_back({{"kind", "train"}, {"update", 51}, {"loss", 1.0}, {evil, 1.0}, {"x", 2.0}});
  rows.push_back({{"kind", "checkpoint"}, {"update", 51}, {"file", evil}});
  rows.push_back({{"kind", "end"}, {"update", 51}, {"reason", evil}});
  const ReportInput input{.name = evil,
                          .written = evil,
                          .settings = "a = \"" + evil + "\"\n</pre>",
                          .pictures = {{evil, "\x89PNG"}, {evil, ""}}};
  const std::string html = report_html(RunLog(rows), input);
  EXPECT_EQ(count(html, "<script>"), 1u);
  EXPECT_EQ(count(html, "<b>"), 0u);
  EXPECT_EQ(count(html, "alert(1)</script>"), 0u);
  EXPECT_GT(count(html, "&lt;b&gt;&amp;&quot;&#39;"), 9u);
}

TEST(Report, AsksNothingOfANetwork) {
  const std::string html = report_html(RunLog(rows_of_a_run(40)), kInput);
  EXPECT_TRUE(has(html, "default-src 'none'"));
  for (const char* text : {"http:", "https:", "//cdn", "@import", "url(", "<link rel=\"stylesheet"})
    EXPECT_FALSE(has(html, text));
}

TEST(Report, OfARunThatHasHardlyBegun) {
  const std::string nothing = report_html(RunLog(std::vector<JsonRecord>{}), kInput);
  EXPECT_TRUE(has(nothing, "nothing is logged yet"));
  std::vector<JsonRecord> rows = rows_of_a_run(1);
  const std::string html =
      report_html(RunLog(rows), {.name = "r", .written = "", .settings = "", .pictures = {}});
  EXPECT_TRUE(has(html, "no end in the log yet"));
  EXPECT_TRUE(has(html, "There is no config.toml"));
  EXPECT_FALSE(has(html, "id=\"cases\""));
  rows.push_back({{"kind", "end"}, {"update", 1}, {"reason", "failed: the loss is nan"}});
  EXPECT_THAT(report_html(RunLog(rows), kInput),
              HasSubstr("<p class=\"bad\"><strong id=\"state\">failed: the loss is nan"));
}

TEST(Report, ALongRunGivesASmallPage) {
  std::vector<JsonRecord> rows = rows_of_a_run(20000);
  for (int i = 0; i < 500; ++i)
    rows.push_back({{"kind", "case"},
                    {"update", 20001},
                    {"case", "case " + std::to_string(i)},
                    {"loss", 0.1},
                    {"mae", 0.2}});
  EXPECT_LT(report_html(RunLog(rows), kInput).size(), 400'000u);
}

class WriteReport : public testing::Test {
 protected:
  void log(const std::vector<JsonRecord>& rows) const {
    data::JsonlWriter writer(folder_.file("metrics.jsonl"), data::OpenMode::replace);
    for (const JsonRecord& row : rows) writer.write(row);
  }
  JsonRecord figure(const std::string& file, const std::string& title) const {
    return {{"kind", "figure"}, {"update", 1}, {"file", file}, {"title", title}};
  }
  void picture(const std::string& name, uint8_t shade) const {
    data::write_png(folder_.file(name), 2, 2, std::vector<uint8_t>(12, shade));
  }
  std::string page() const {
    write_report(folder_.path());
    return read_file(folder_.file(kReportFile));
  }
  TempFolder folder_;
};

TEST_F(WriteReport, FindsSettingsAndTheLatestPictures) {
  std::vector<JsonRecord> rows = rows_of_a_run(20);
  rows.push_back(figure("a.png", "outdated"));
  rows.push_back(figure("b.png", "other"));
  rows.push_back(figure("a.png", "latest"));
  log(rows);
  write_file(folder_.file("config.toml"), "[model]\nbase = 64\n");
  picture("a.png", 10);
  picture("b.png", 20);
  const std::string html = page();
  EXPECT_EQ(count(html, "src=\"data:image/png;base64,iVBORw0KGgo"), 2u);  // PNG's signature
  EXPECT_TRUE(has(html, "latest") && !has(html, "outdated") && has(html, "base = 64"));
  EXPECT_EQ(page().size(), html.size()) << "again, over the old one";
}

TEST_F(WriteReport, LeavesOutWhatIsMissingTooLargeOrElsewhere) {
  std::vector<JsonRecord> rows = rows_of_a_run(20);
  const TempFolder other;
  data::write_png(other.file("secret.png"), 2, 2, std::vector<uint8_t>(12, 1));
  for (const std::string& file :
       {std::string("gone.png"), std::string("large.png"), other.file("secret.png"),
        "../" + std::filesystem::path(other.path()).filename().string() + "/secret.png"})
    rows.push_back(figure(file, "title of " + file));
  log(rows);
  write_file(folder_.file("large.png"),
             read_file(other.file("secret.png")) + std::string(2'000'000, 'x'));
  const std::string html = page();
  EXPECT_EQ(count(html, "data:image/png"), 0u);
  EXPECT_EQ(count(html, "is too large"), 2u);
  EXPECT_FALSE(has(html, "secret"));
  EXPECT_LT(html.size(), 2'000'000u);
}

TEST_F(WriteReport, OfADeadRunReadsUpToTheCut) {
  log(rows_of_a_run(20));
  const std::string text = read_file(folder_.file("metrics.jsonl"));
  write_file(folder_.file("metrics.jsonl"), text + R"({"kind":"train","upda)");
  EXPECT_THAT(page(), HasSubstr("20 of 20"));
  write_file(folder_.file("metrics.jsonl"), text + "no json\n");
  EXPECT_THAT(message_of([&] { page(); }), HasSubstr("metrics.jsonl:"));
  EXPECT_THAT(message_of([] { write_report("/nonexistent"); }),
              HasSubstr("/nonexistent/metrics.jsonl"));
}

}  // namespace
}  // namespace bora::train
