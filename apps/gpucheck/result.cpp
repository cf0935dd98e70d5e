// SPDX-License-Identifier: Apache-2.0
#include "apps/gpucheck/result.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>

#include "core/error.hpp"

namespace bora::gpucheck {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kStatusNames[] = {"passed",        "failed",    "error",    "no_device",
                                        "not_available", "timed_out", "left_out", "not_wanted"};

/// JSON has no NaN and no inf: they become words, which a reader turns back.
Json number(double v) {
  if (std::isnan(v)) return "nan";
  if (std::isinf(v)) return v > 0 ? "inf" : "-inf";
  return v;
}
double number_from(const Json& j) {
  if (!j.is_string()) return j.get<double>();
  const std::string word = j.get<std::string>();
  if (word == "nan") return NAN;
  if (word == "inf") return HUGE_VAL;
  if (word == "-inf") return -HUGE_VAL;
  BORA_FAIL("number '", word, "', wanted a number, nan, inf or -inf");
}

Json to_json(const Check& c) {
  return {{"op", c.op},
          {"shape", c.shape},
          {"dtype", c.dtype},
          {"ref", c.reference},
          {"rel_l2", number(c.rel_l2)},
          {"max_abs", number(c.max_abs)},
          {"tol", {{"rel_l2", number(c.tol_rel_l2)}, {"max_abs", number(c.tol_max_abs)}}},
          {"tol_from", c.tol_from},
          {"bitwise_repeat", c.bitwise_repeat},
          {"pass", c.pass},
          {"note", c.note}};
}
Check check_from(const Json& j) {
  return {.op = j.at("op"),
          .shape = j.at("shape"),
          .dtype = j.at("dtype"),
          .reference = j.at("ref"),
          .rel_l2 = number_from(j.at("rel_l2")),
          .max_abs = number_from(j.at("max_abs")),
          .tol_rel_l2 = number_from(j.at("tol").at("rel_l2")),
          .tol_max_abs = number_from(j.at("tol").at("max_abs")),
          .tol_from = j.at("tol_from"),
          .bitwise_repeat = j.at("bitwise_repeat"),
          .pass = j.at("pass"),
          .note = j.at("note")};
}

Json to_json(const Bench& b) {
  return {{"name", b.name},
          {"shape", b.shape},
          {"dtype", b.dtype},
          {"ms_p10", number(b.ms_p10)},
          {"ms_median", number(b.ms_median)},
          {"ms_p90", number(b.ms_p90)},
          {"n", b.n},
          {"bytes", number(b.bytes)},
          {"flops", number(b.flops)},
          {"GBps", number(b.gb_per_s())},
          {"TFLOPs", number(b.tflop_per_s())},
          {"pct_of_floor", number(b.pct_of_floor)},
          {"peak_MiB", number(b.peak_mib)}};
}
Bench bench_from(const Json& j) {
  return {.name = j.at("name"),
          .shape = j.at("shape"),
          .dtype = j.at("dtype"),
          .ms_p10 = number_from(j.at("ms_p10")),
          .ms_median = number_from(j.at("ms_median")),
          .ms_p90 = number_from(j.at("ms_p90")),
          .n = j.at("n"),
          .bytes = number_from(j.at("bytes")),
          .flops = number_from(j.at("flops")),
          .pct_of_floor = number_from(j.at("pct_of_floor")),
          .peak_mib = number_from(j.at("peak_MiB"))};
}

Json to_json(const Plan& p) {
  return {{"layer", p.layer},
          {"pass", p.pass},
          {"dtype", p.dtype},
          {"engine", p.engine},
          {"tensor_core", p.tensor_core},
          {"deterministic", p.deterministic},
          {"workspace_MiB", number(p.workspace_mib)},
          {"ms", number(p.ms)},
          {"TFLOPs", number(p.tflop_per_s)},
          {"predicted", p.predicted},
          {"note", p.note}};
}
Plan plan_from(const Json& j) {
  return {.layer = j.at("layer"),
          .pass = j.at("pass"),
          .dtype = j.at("dtype"),
          .engine = j.at("engine"),
          .tensor_core = j.at("tensor_core"),
          .deterministic = j.at("deterministic"),
          .workspace_mib = number_from(j.at("workspace_MiB")),
          .ms = number_from(j.at("ms")),
          .tflop_per_s = number_from(j.at("TFLOPs")),
          .predicted = j.at("predicted"),
          .note = j.at("note")};
}

Json to_json(const Comparison& c) {
  return {{"network", c.network},
          {"ours_ms", c.ours_ms},
          {"torch_cl_ms", c.torch_channels_last_ms},
          {"torch_contig_ms", c.torch_contiguous_ms},
          {"ratio_to_best", c.ratio_to_best},
          {"note", c.note},
          {"peak_MiB", {{"ours", c.ours_peak_mib}, {"torch", c.torch_peak_mib}}},
          {"card_MiB", {{"ours", c.ours_card_mib}, {"torch", c.torch_card_mib}}}};
}
Comparison comparison_from(const Json& j) {
  return {.network = j.at("network"),
          .ours_ms = j.at("ours_ms"),
          .torch_channels_last_ms = j.at("torch_cl_ms"),
          .torch_contiguous_ms = j.at("torch_contig_ms"),
          .ours_peak_mib = j.at("peak_MiB").at("ours"),
          .torch_peak_mib = j.at("peak_MiB").at("torch"),
          .ours_card_mib = j.at("card_MiB").at("ours"),
          .torch_card_mib = j.at("card_MiB").at("torch"),
          .ratio_to_best = j.at("ratio_to_best"),
          .note = j.at("note")};
}

template <class T>
Json list_of(const std::vector<T>& items) {
  Json list = Json::array();
  for (const T& item : items) list.push_back(to_json(item));
  return list;
}

Json stage_json(const Stage& s) {
  Json j = {{"schema", kSchema},       {"name", s.name},           {"status", name_of(s.status)},
            {"seconds", s.seconds},    {"device", s.device},       {"error", s.error},
            {"facts", Json::object()}, {"numbers", Json::object()}};
  for (const auto& [key, value] : s.facts) j["facts"][key] = value;
  for (const auto& [key, value] : s.numbers) j["numbers"][key] = number(value);
  j["checks"] = list_of(s.checks);
  j["bench"] = list_of(s.bench);
  j["plans"] = list_of(s.plans);
  if (!s.properties_json.empty()) j["properties"] = Json::parse(s.properties_json);
  return j;
}

Stage stage_from(const Json& j) {
  BORA_CHECK(j.at("schema") == kSchema, "schema ", j.at("schema").dump(), ", wanted \"", kSchema,
             '"');
  Stage s;
  s.name = j.at("name");
  s.status = status_from(j.at("status"));
  s.seconds = number_from(j.at("seconds"));
  s.device = j.value("device", "");
  s.error = j.value("error", "");
  const auto each = [&j](const char* key, const auto& take) {
    if (!j.contains(key)) return;
    for (const auto& [name, value] : j.at(key).items()) take(name, value);
  };
  each("facts", [&](const std::string& k, const Json& v) { s.facts[k] = v.get<std::string>(); });
  each("numbers", [&](const std::string& k, const Json& v) { s.numbers[k] = number_from(v); });
  each("checks", [&](const std::string&, const Json& v) { s.checks.push_back(check_from(v)); });
  each("bench", [&](const std::string&, const Json& v) { s.bench.push_back(bench_from(v)); });
  each("plans", [&](const std::string&, const Json& v) { s.plans.push_back(plan_from(v)); });
  if (j.contains("properties")) s.properties_json = j["properties"].dump();
  return s;
}

/// So that a reader never sees half a file.
void write(const Json& j, const std::string& path) {
  const std::string partial = path + ".partial";
  std::ofstream out(partial);
  // Names may hold what is no UTF-8 (a broken driver's text): replaced, never a throw.
  out << j.dump(1, ' ', false, Json::error_handler_t::replace) << '\n';
  out.close();
  BORA_CHECK(out.good(), "cannot write '", partial, "'");
  BORA_CHECK(std::rename(partial.c_str(), path.c_str()) == 0, "cannot rename '", partial, "' to '",
             path, "'");
}

/// Runs f on the file's JSON; whatever is wrong names the path.
template <class F>
auto read(const std::string& path, const char* what, const F& f) {
  std::ifstream in(path);
  BORA_CHECK(in.good(), "cannot read '", path, "'");
  try {
    return f(Json::parse(in));
  } catch (const Error& e) {
    BORA_FAIL("'", path, "': ", e.what());
  } catch (const nlohmann::json::exception& e) {
    BORA_FAIL("'", path, "' is no ", what, ": ", e.what());
  }
}

}  // namespace

const char* name_of(Status status) { return kStatusNames[static_cast<int>(status)]; }

Status status_from(const std::string& name) {
  const auto* const found = std::find(std::begin(kStatusNames), std::end(kStatusNames), name);
  BORA_CHECK(found != std::end(kStatusNames), "status '", name, "' is none");
  return static_cast<Status>(found - std::begin(kStatusNames));
}

bool Stage::right() const {
  return std::all_of(checks.begin(), checks.end(), [](const Check& c) { return c.pass; });
}

void Stage::conclude() { status = right() ? Status::passed : Status::failed; }

void write_stage(const Stage& stage, const std::string& path) { write(stage_json(stage), path); }

Stage read_stage(const std::string& path) {
  return read(path, "result of a stage", [](const Json& j) { return stage_from(j); });
}

void write_run(const Run& run, const std::string& path) {
  Json j = {{"schema", kRunSchema}, {"when", run.when},          {"git", run.git},
            {"dirty", run.dirty},   {"finished", run.finished},  {"judged", run.judged},
            {"right", run.right},   {"machine", Json::object()}, {"ceilings", Json::object()}};
  for (const auto& [key, value] : run.machine) j["machine"][key] = value;
  for (const auto& [key, value] : run.ceilings) j["ceilings"][key] = number(value);
  j["stages"] = Json::array();
  for (const Stage& s : run.stages) j["stages"].push_back(stage_json(s));
  j["compare"] = list_of(run.compare);
  write(j, path);
}

Run read_run(const std::string& path) {
  return read(path, "result of a run", [](const Json& j) {
    BORA_CHECK(j.at("schema") == kRunSchema, "schema ", j.at("schema").dump(), ", wanted \"",
               kRunSchema, '"');
    Run run;
    run.when = j.at("when");
    run.git = j.at("git");
    run.dirty = j.at("dirty");
    run.finished = j.at("finished");
    run.judged = j.at("judged");
    run.right = j.at("right");
    for (const auto& [key, value] : j.at("machine").items())
      run.machine[key] = value.get<std::string>();
    for (const auto& [key, value] : j.at("ceilings").items())
      run.ceilings[key] = number_from(value);
    for (const Json& s : j.at("stages")) run.stages.push_back(stage_from(s));
    for (const Json& c : j.at("compare")) run.compare.push_back(comparison_from(c));
    return run;
  });
}

}  // namespace bora::gpucheck
