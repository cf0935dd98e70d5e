// SPDX-License-Identifier: Apache-2.0
// gpucheck: runs one stage of the GPU check and writes its result, or joins results.
// scripts/gpu_check.sh calls it for one stage after the other.
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <tuple>
#include <vector>

#include "apps/gpucheck/report.hpp"
#include "apps/gpucheck/stages.hpp"
#include "core/build_info.hpp"
#include "core/config.hpp"
#include "core/profile.hpp"

namespace bora::gpucheck {
namespace {

struct Settings {
  std::string out;
  std::string device = "auto";
  bool tiny = false;
  double budget = 0;
  std::string only;
  std::string skip;
  int runs = 3;
  std::string network = "mlperf";
  std::string way = "eager";
  int64_t batch = 0;
  int64_t base = 0;
  std::string plan_file;
  std::string prediction_file;
  std::string plant;
  bool want_device = false;
  bool dirty = false;
  bool unfinished = false;
  bool may_judge_nothing = false;
  std::string name;
  std::string status = "passed";
  double seconds = 0;
  std::string text;
  std::string log;
  std::string keep;
  std::string csv;
  static constexpr auto fields() {
    return std::tuple{
        field("out", &Settings::out, "write the result to this file (JSON)"),
        field("device", &Settings::device,
              "auto: the GPU, in a build for the emulator that, else none; cuda: an error without "
              "one; cpu: tries the stage itself",
              one_of("auto", "cuda", "cpu")),
        field("tiny", &Settings::tiny, "smallest shapes"),
        field("budget", &Settings::budget,
              "seconds after which a stage takes on nothing more; 0: any", at_least(0)),
        field("only", &Settings::only,
              "kernels, launch: those whose name contains one of these words, with commas"),
        field("skip", &Settings::skip, "kernels: leaves these out, with commas"),
        field("runs", &Settings::runs, "kernels: runs of each, compared bit by bit", at_least(1)),
        field("network", &Settings::network, "throughput: which", one_of("mlperf", "wind")),
        field("way", &Settings::way,
              "throughput: how; ops: time by op, with CUDA_LAUNCH_BLOCKING=1",
              one_of("eager", "graph", "ops")),
        field("batch", &Settings::batch, "throughput: samples; 0: the smallest of the issue",
              at_least(0)),
        field("base", &Settings::base, "throughput: channels of the first level; 0: as published",
              at_least(0)),
        field(
            "plan_file", &Settings::plan_file,
            "cudnn, throughput: the convolutions' plans, read if it is there, written at the end"),
        field("prediction_file", &Settings::prediction_file,
              "cudnn: cuDNN's JSON of a device whose plans are predicted beside the chosen ones"),
        field("plant", &Settings::plant,
              "for tests of this program: spoils the result of this kernel or check (name:once: in "
              "the last run only)"),
        field("want_device", &Settings::want_device, "report: a run without a GPU is a fault"),
        field("dirty", &Settings::dirty, "report: the source had changes"),
        field("unfinished", &Settings::unfinished, "report: stages are still to come"),
        field("may_judge_nothing", &Settings::may_judge_nothing,
              "report: stages that only measure were asked for"),
        field("name", &Settings::name, "what the stage is called in its result"),
        field("status", &Settings::status, "mark: its status"),
        field("seconds", &Settings::seconds, "mark: how long it took", at_least(0)),
        field("text", &Settings::text, "mark: what to say; environment: what nvidia-smi says"),
        field("log", &Settings::log, "mark: a file whose end is added to that"),
        field("keep", &Settings::keep,
              "mark: what this file of a stage that broke off holds is kept"),
        field("csv", &Settings::csv, "ncu: what ncu --csv wrote")};
  }
};

constexpr const char* kCommands =
    "environment | kernels | cudnn | training | throughput | launch | mark | ncu | report "
    "FOLDER-OR-FILE";

Stage run_stage(const std::string& name, const Settings& s) {
  StageOptions options{.target = find_target(s.device),
                       .tiny = s.tiny,
                       .budget_s = s.budget,
                       .plant = s.plant,
                       .skip = s.skip,
                       .runs = s.runs,
                       .only = s.only,
                       .network = s.network,
                       .way = s.way,
                       .batch = s.batch,
                       .base = s.base,
                       .plan_file = s.plan_file,
                       .prediction_file = s.prediction_file,
                       .driver_text = s.text};
  if (!s.out.empty())
    options.so_far = [&s](const Stage& found) {
      Stage stage = found;
      if (!s.name.empty()) stage.name = s.name;
      stage.status = Status::error;
      stage.error = "it broke off";
      write_stage(stage, s.out + ".so_far");
    };
  if (name == "environment") return environment_stage(options);
  if (name == "kernels") return kernels_stage(options);
  if (name == "cudnn") return cudnn_stage(options);
  if (name == "training") return training_stage(options);
  if (name == "throughput") return throughput_stage(options);
  throw UsageError("'" + name + "' is no command; wanted " + kCommands);
}

/// The last lines of a file, or nothing.
std::string end_of(const std::string& path) {
  if (path.empty()) return {};
  std::ifstream in(path);
  std::stringstream all;
  all << in.rdbuf();
  constexpr size_t kMost = 2000;
  const std::string text = all.str();
  return text.size() > kMost ? "..." + text.substr(text.size() - kMost) : text;
}

Stage mark(const Settings& s) {
  if (s.name.empty()) throw UsageError("mark: wants --name");
  std::string text = s.text;
  if (const std::string end = end_of(s.log); !end.empty()) text += (text.empty() ? "" : "\n") + end;
  Stage stage{.device = "none"};
  if (!s.keep.empty() && std::filesystem::exists(s.keep)) {
    try {
      stage = read_stage(s.keep);
    } catch (const Error& e) {
      text += std::string(text.empty() ? "" : "\n") + e.what();
    }
  }
  try {
    stage.status = status_from(s.status);
  } catch (const Error&) {
    throw UsageError("mark: --status=" + s.status + " is none");
  }
  stage.name = s.name;
  stage.seconds = s.seconds;
  stage.error = text;
  return stage;
}

int report(const std::string& path, const Settings& s) {
  Run run;
  if (std::filesystem::is_directory(path)) {
    run = join_stages(path, s.want_device);
    run.dirty = s.dirty;
    run.finished = !s.unfinished;
    if (!s.out.empty()) write_run(run, s.out);
  } else {
    run = read_run(path);
  }
  std::fputs(table(run).c_str(), stdout);
  return run.right && run.finished && (run.judged || s.may_judge_nothing) ? 0 : 1;
}

void say(const Stage& stage) {
  int64_t passed = 0;
  for (const Check& c : stage.checks) {
    passed += c.pass;
    if (!c.pass)
      std::printf("  FAILED %s %s %s: %s\n", c.op.c_str(), c.shape.c_str(), c.dtype.c_str(),
                  c.note.c_str());
  }
  std::printf("%s: %s on %s, %.1f s, %lld of %zu checks passed%s%s\n", stage.name.c_str(),
              name_of(stage.status), stage.device.c_str(), stage.seconds,
              static_cast<long long>(passed), stage.checks.size(), stage.error.empty() ? "" : ": ",
              stage.error.c_str());
}

int run(const std::vector<std::string>& arguments) {
  Settings s;
  const ConfigArgs given = config_parse_args(
      s, "gpucheck", arguments,
      {.about = "Runs one stage of the GPU check, or joins results.  docs/gpu.md says more.",
       .positionals = kCommands});
  if (!given.help.empty()) return std::fputs(given.help.c_str(), stdout), 0;
  if (given.positionals.empty()) throw UsageError(std::string("wants a command: ") + kCommands);
  const std::string& command = given.positionals.front();
  if (command == "report") {
    if (given.positionals.size() != 2) throw UsageError("report: wants one folder or file");
    return report(given.positionals[1], s);
  }
  if (given.positionals.size() != 1)
    throw UsageError("'" + given.positionals[1] + "': one command only");
  if (command == "launch") {
    const Target target = find_target(s.device);
    if (target.kind == Target::Kind::none) throw UsageError("launch: " + target.reason);
    launch_kernels({.target = target, .tiny = s.tiny, .only = s.only});
    return 0;
  }
  Stage stage;
  const double begin = now_s();
  try {
    stage = command == "mark"  ? mark(s)
            : command == "ncu" ? ncu_stage(s.csv)
                               : run_stage(command, s);
  } catch (const UsageError&) {
    throw;
  } catch (const std::exception& e) {
    // Written all the same: the report must not miss a stage that broke off.
    stage = {.name = command,
             .status = Status::error,
             .seconds = now_s() - begin,
             .device = find_target(s.device).name(),
             .error = e.what()};
  }
  if (!s.name.empty()) stage.name = s.name;
  if (!s.out.empty()) {
    write_stage(stage, s.out);
    std::filesystem::remove(s.out + ".so_far");
  }
  say(stage);
  return stage.status == Status::failed || stage.status == Status::error ? 1 : 0;
}

}  // namespace
}  // namespace bora::gpucheck

int main(int argc, char** argv) {
  try {
    return bora::gpucheck::run(std::vector<std::string>(argv + 1, argv + argc));
  } catch (const bora::UsageError& e) {
    std::fprintf(stderr, "gpucheck: %s\n", e.what());
    return 2;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "gpucheck: %s\n", e.what());
    return 1;
  }
}
