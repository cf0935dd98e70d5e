// SPDX-License-Identifier: Apache-2.0
// scaling_report: tables, a plot and a prediction out of the lines that bench_scaling leaves.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <map>

#include "apps/bench/scaling.hpp"
#include "core/config.hpp"
#include "core/log.hpp"
#include "data/csv.hpp"
#include "data/figure.hpp"
#include "data/output_place.hpp"

namespace bora::bench {
namespace {

struct ReportConfig {
  std::string study;
  std::string output;
  std::vector<int64_t> predict = {8, 16, 32, 64, 128, 256, 512, 1024};
  double latency_us = 0, gbyte_s = 0;
  static constexpr auto fields() {
    using C = ReportConfig;
    return std::tuple{
        field("study", &C::study, "the lines of bench_scaling (JSON lines)"),
        field("output", &C::output, "folder for scaling.csv, scaling.json and scaling.png"),
        field("predict", &C::predict, "numbers of ranks to predict", positive),
        field("latency_us", &C::latency_us,
              "of the network to predict for, microseconds; 0: as measured with --link",
              at_least(0)),
        field("gbyte_s", &C::gbyte_s,
              "bandwidth of it for each rank, GB/s; 0: as measured with --link", at_least(0))};
  }
};

void print_table(const std::vector<StudyRow>& rows) {
  std::string setting;
  for (const StudyRow& r : rows) {
    if (r.job.setting() != setting) {
      setting = r.job.setting();
      std::printf("\n%s\n%6s %5s %4s %11s %21s %11s %10s %9s %10s %9s\n", setting.c_str(), "ranks",
                  "hosts", "jobs", "step ms", "(range)", "samples/s", "efficiency", "exposed",
                  "data wait", "MiB/rank");
    }
    char range[40], efficiency[16] = "-";
    std::snprintf(range, sizeof range, "%.1f - %.1f", r.low_ms, r.high_ms);
    if (r.efficiency > 0) std::snprintf(efficiency, sizeof efficiency, "%.3f", r.efficiency);
    std::printf("%6d %5d %4d %11.1f %21s %11.3f %10s %8.1f%% %9.1f%% %9.0f\n", r.job.ranks,
                r.job.hosts, r.repeats, r.step_ms, range, r.samples_per_s, efficiency,
                100 * r.exposed_share, 100 * r.job.data_wait_ms / r.step_ms, r.job.peak_mib);
  }
}

const std::vector<std::string> kColumns = {
    "setting",     "mode",         "ranks",        "hosts",      "threads",
    "batch",       "precision",    "data",         "jobs",       "step_ms",
    "step_ms_low", "step_ms_high", "samples_s",    "efficiency", "compute_ms",
    "comm_ms",     "exposed_ms",   "data_wait_ms", "peak_mib",   "predicted_ms"};

void write_tables(const std::vector<StudyRow>& rows, const std::string& folder) {
  data::CsvWriter csv(folder + "/scaling.csv", kColumns);
  data::JsonlWriter json(folder + "/scaling.json", data::OpenMode::replace);
  for (const StudyRow& r : rows) {
    const ScalingRow& j = r.job;
    csv.row({j.setting(),
             j.mode,
             j.ranks,
             j.hosts,
             j.threads,
             j.batch,
             j.precision,
             j.data ? "yes" : "no",
             r.repeats,
             r.step_ms,
             r.low_ms,
             r.high_ms,
             r.samples_per_s,
             r.efficiency,
             j.compute_ms,
             j.comm_ms,
             r.exposed_share * r.step_ms,
             j.data_wait_ms,
             j.peak_mib,
             j.predicted_ms});
    json.write({{"setting", j.setting()},
                {"ranks", j.ranks},
                {"hosts", j.hosts},
                {"step_ms", r.step_ms},
                {"step_ms_low", r.low_ms},
                {"step_ms_high", r.high_ms},
                {"samples_per_s", r.samples_per_s},
                {"efficiency", r.efficiency},
                {"exposed_share", r.exposed_share},
                {"data_wait_ms", j.data_wait_ms},
                {"peak_mib", j.peak_mib},
                {"predicted_ms", j.predicted_ms}});
  }
  csv.close();
}

void plot(const std::vector<StudyRow>& rows, const std::string& path) {
  data::CurveFigure figure{
      .title = "Throughput over ranks", .x_label = "ranks", .y_label = "samples/s"};
  std::map<std::string, size_t> index;
  for (const StudyRow& r : rows) {
    const auto [at, is_new] = index.emplace(r.job.setting(), figure.curves.size());
    if (is_new) figure.curves.push_back({.label = at->first, .x = {}, .y = {}});
    figure.curves[at->second].x.push_back(r.job.ranks);
    figure.curves[at->second].y.push_back(r.samples_per_s);
  }
  const auto ideal =
      std::find_if(rows.begin(), rows.end(), [](const StudyRow& r) { return r.job.ranks == 1; });
  if (ideal != rows.end()) {
    data::Curve line{.label = "ideal, from one rank", .x = {}, .y = {}};
    for (const StudyRow& r : rows)
      if (r.job.setting() == ideal->job.setting()) {
        line.x.push_back(r.job.ranks);
        line.y.push_back(ideal->samples_per_s * r.job.ranks);
      }
    figure.curves.push_back(line);
  }
  data::draw_curves(path, figure);
}

/// For each weak setting with a measured timeline: what the model says for larger jobs.
void print_predictions(const std::vector<StudyRow>& rows, const ReportConfig& c) {
  std::string done;
  for (const StudyRow& r : rows) {
    const ScalingRow& j = r.job;
    Link link = j.link;
    if (c.latency_us > 0) link.latency_s = 1e-6 * c.latency_us;
    if (c.gbyte_s > 0) link.bytes_per_s = 1e9 * c.gbyte_s;
    if (j.mode != "weak" || j.setting() == done || link.bytes_per_s <= 0) continue;
    done = j.setting();
    std::printf(
        "\nPREDICTION, not measured: %s, one rank a host, latency %.1f us, %.3f GB/s a "
        "rank\n%6s %11s %11s %10s %11s\n",
        done.c_str(), 1e6 * link.latency_s, 1e-9 * link.bytes_per_s, "ranks", "step ms",
        "exposed ms", "efficiency", "samples/s");
    if (j.predicted_ms > 0 && std::abs(j.median_ms() / j.predicted_ms - 1) > 0.15)
      std::printf(
          "  (its own step is %.2f times what this model says: repeat it on a quieter "
          "machine)\n",
          j.median_ms() / j.predicted_ms);
    if (j.hosts == 1 && (c.latency_us == 0 || c.gbyte_s == 0))
      std::printf(
          "  (the link was measured inside one host: give --latency_us and --gbyte_s of the "
          "network in question)\n");
    for (const int64_t n : c.predict) {
      const StepPrediction p = predict_step(j.timeline, static_cast<int>(n), link);
      std::printf("%6ld %11.1f %11.1f %10.3f %11.2f\n", static_cast<long>(n), 1e3 * p.step_s,
                  1e3 * p.exposed_s, p.efficiency,
                  static_cast<double>(n * j.batch * j.accumulate) / p.step_s);
    }
  }
}

int run(int argc, char** argv) {
  ReportConfig c;
  const ConfigArgs given = config_parse_args(
      c, "scaling_report", std::vector<std::string>(argv + 1, argv + argc),
      {.about = "Tables, plot and prediction of a scaling study.", .positionals = {}});
  if (!given.help.empty()) return std::fputs(given.help.c_str(), stdout), 0;
  if (c.study.empty()) throw UsageError("scaling_report: --study=FILE is missing");
  std::vector<ScalingRow> jobs;
  for (const data::JsonRecord& record : data::read_json_lines(c.study))
    jobs.push_back(scaling_row(record));
  if (jobs.empty()) throw UsageError(c.study + ": no finished job in it");
  const std::vector<StudyRow> rows = study_of(jobs);
  print_table(rows);
  print_predictions(rows, c);
  if (c.output.empty()) return 0;
  data::make_folder(c.output, "output '" + c.output + "'");
  write_tables(rows, c.output);
  plot(rows, c.output + "/scaling.png");
  std::printf("\nwritten: %s/scaling.csv, scaling.json, scaling.png\n", c.output.c_str());
  return 0;
}

}  // namespace
}  // namespace bora::bench

int main(int argc, char** argv) {
  try {
    return bora::bench::run(argc, argv);
  } catch (const bora::UsageError& e) {
    bora::log_error(e.what());
    return 2;
  } catch (const std::exception& e) {
    bora::log_error(e.what());
    return 1;
  }
}
