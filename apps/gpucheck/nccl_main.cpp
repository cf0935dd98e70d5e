// SPDX-License-Identifier: Apache-2.0
// gpucheck_nccl: the stage "nccl" in a program of its own.  It needs comm, and with it MPI's
// library, which a machine with a GPU may lack; gpucheck starts without.
#include <cstdio>
#include <tuple>

#include "apps/gpucheck/stages.hpp"
#include "core/config.hpp"

namespace bora::gpucheck {
namespace {

struct Settings {
  std::string out, name = "nccl";
  bool tiny = false;
  double budget = 0;
  static constexpr auto fields() {
    return std::tuple{field("out", &Settings::out, "write the result to this file (JSON)"),
                      field("name", &Settings::name, "what the stage is called in its result"),
                      field("tiny", &Settings::tiny, "as for gpucheck; no difference here"),
                      field("budget", &Settings::budget, "as for gpucheck; no difference here")};
  }
};

int run(const std::vector<std::string>& arguments) {
  Settings s;
  const ConfigArgs given = config_parse_args(
      s, "gpucheck_nccl", arguments,
      {.about = "NCCL on one rank, for the GPU check.  docs/gpu.md says more.", .positionals = {}});
  if (!given.help.empty()) return std::fputs(given.help.c_str(), stdout), 0;
  Stage stage = nccl_stage({.target = find_target("auto")});
  stage.name = s.name;
  if (!s.out.empty()) write_stage(stage, s.out);
  std::printf("%s: %s on %s%s%s\n", stage.name.c_str(), name_of(stage.status), stage.device.c_str(),
              stage.error.empty() ? "" : ": ", stage.error.c_str());
  return stage.status == Status::failed || stage.status == Status::error ? 1 : 0;
}

}  // namespace
}  // namespace bora::gpucheck

int main(int argc, char** argv) {
  try {
    return bora::gpucheck::run(std::vector<std::string>(argv + 1, argv + argc));
  } catch (const bora::UsageError& e) {
    std::fprintf(stderr, "gpucheck_nccl: %s\n", e.what());
    return 2;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "gpucheck_nccl: %s\n", e.what());
    return 1;
  }
}
