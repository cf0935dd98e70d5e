// SPDX-License-Identifier: Apache-2.0
// Stage "ncu": the table of Nsight Compute, one row a launch and metric.
#include <fstream>
#include <map>

#include "apps/gpucheck/stages.hpp"
#include "core/error.hpp"

namespace bora::gpucheck {
namespace {

/// One line of CSV; fields may be quoted, a quote inside is doubled.
std::vector<std::string> split_csv(const std::string& line) {
  std::vector<std::string> fields(1);
  bool quoted = false;
  for (size_t i = 0; i < line.size(); ++i) {
    const char c = line[i];
    if (quoted && c == '"' && i + 1 < line.size() && line[i + 1] == '"') {
      fields.back() += '"';
      ++i;
    } else if (c == '"') {
      quoted = !quoted;
    } else if (c == ',' && !quoted) {
      fields.emplace_back();
    } else if (c != '\r') {
      fields.back() += c;
    }
  }
  return fields;
}

/// "1,234.5" is how ncu writes numbers.
double number_of(std::string text) {
  std::erase(text, ',');
  try {
    return std::stod(text);
  } catch (const std::exception&) {
    BORA_FAIL("ncu: '", text, "' is no number");
  }
}

double bytes_factor(const std::string& unit) {
  const std::map<std::string, double> factors{
      {"byte", 1}, {"Kbyte", 1e3}, {"Mbyte", 1e6}, {"Gbyte", 1e9}};
  const auto found = factors.find(unit);
  BORA_CHECK(found != factors.end(), "ncu: unit '", unit, "' of bytes, wanted byte .. Gbyte");
  return found->second;
}

double ms_factor(const std::string& unit) {
  const std::map<std::string, double> factors{{"nsecond", 1e-6}, {"ns", 1e-6},   {"usecond", 1e-3},
                                              {"us", 1e-3},      {"msecond", 1}, {"ms", 1},
                                              {"second", 1e3},   {"s", 1e3}};
  const auto found = factors.find(unit);
  BORA_CHECK(found != factors.end(), "ncu: unit '", unit, "' of time, wanted ns .. s");
  return found->second;
}

}  // namespace

Stage ncu_stage(const std::string& path) {
  std::ifstream in(path);
  BORA_CHECK(in.good(), "ncu: cannot read '", path, "'");
  Stage stage{.name = "ncu", .device = "gpu"};
  std::map<std::string, size_t> column;
  std::map<std::string, Bench> launches;  // by id
  for (std::string line; std::getline(in, line);) {
    if (line.empty() || line[0] != '"') continue;  // ncu's own remarks begin with ==
    const std::vector<std::string> fields = split_csv(line);
    if (column.empty()) {
      for (size_t i = 0; i < fields.size(); ++i) column[fields[i]] = i;
      for (const char* name : {"ID", "Kernel Name", "Metric Name", "Metric Unit", "Metric Value"})
        BORA_CHECK(column.count(name) == 1, "ncu: '", path, "' has no column '", name, "'");
      continue;
    }
    const auto at = [&](const char* name) {
      const size_t i = column.at(name);
      BORA_CHECK(i < fields.size(), "ncu: '", path, "': a line has ", fields.size(), " fields");
      return fields[i];
    };
    const std::string id = at("ID"), metric = at("Metric Name");
    Bench& b = launches[id];
    b.name = at("Kernel Name");
    b.n = 1;
    const double value = number_of(at("Metric Value"));
    if (metric == "dram__bytes.sum") {
      b.bytes = value * bytes_factor(at("Metric Unit"));
    } else if (metric == "gpu__time_duration.sum") {
      b.ms_median = b.ms_p10 = b.ms_p90 = value * ms_factor(at("Metric Unit"));
    } else if (metric == "dram__throughput.avg.pct_of_peak_sustained_elapsed") {
      b.pct_of_floor = value;
    } else {
      stage.numbers[b.name + ": " + metric] = value;
    }
  }
  BORA_CHECK(!launches.empty(), "ncu: '", path, "' holds no launch");
  for (auto& [id, bench] : launches) stage.bench.push_back(std::move(bench));
  return stage;
}

}  // namespace bora::gpucheck
